package bench

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

// auditPolicy logs all requests of the followers to the API server, except watches and leases. It omits the simulated
// Karpenter.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
  - level: None
    resources: [{group: coordination.k8s.io}, {group: authentication.k8s.io}, {group: authorization.k8s.io}]
  - level: Metadata
    userGroups:
      - system:serviceaccounts:plumbline-system
      - system:serviceaccounts:` + peers.FluxNamespace + `
      - system:serviceaccounts:` + peers.ArgoCDNamespace + `
    verbs: [get, list, create, update, patch, delete, deletecollection]
  - level: None
`

const (
	// quiet is how long a follower must send no request to the API server before its work counts as complete: events
	// and a last status follow its report.
	quiet = 300 * time.Millisecond
	// restless limits the wait for that.
	restless = 5 * time.Second
)

// measure measures a follower from begin, which returns when the clock started, until done, and until it is quiet.
func (b *bench) measure(ctx context.Context, by follower, begin func(context.Context) (time.Time, error), done func(context.Context) error) (Row, error) {
	if _, err := b.requests(ctx, by); err != nil {
		return Row{}, err
	}
	cpu, err := by.cpu()
	if err != nil {
		return Row{}, err
	}
	statuses, fetched := b.host.statuses.Load(), b.host.fetched.Load()
	started := watchChildren(ctx, b.plumbline.daemon.PID)
	defer started.end()
	began, err := begin(ctx)
	if err != nil {
		return Row{}, err
	}
	if err := done(ctx); err != nil {
		return Row{}, err
	}
	requests, err := b.requests(ctx, by)
	if err != nil {
		return Row{}, err
	}
	after, err := by.cpu()
	if err != nil {
		return Row{}, err
	}
	row := count(requests, began)
	row.Children, row.ChildPeak = started.stop()
	row.CPU = after - cpu
	if ready := time.Unix(0, b.ready.Load()); ready.After(began) && row.Told > 0 {
		row.Late = row.Told - max(row.Wall, ready.Sub(began))
	}
	row.Statuses, row.Fetches = int(b.host.statuses.Load()-statuses), int(b.host.fetched.Load()-fetched)
	return row, nil
}

// requests returns a follower's requests since the last call. It waits until the follower is quiet.
func (b *bench) requests(ctx context.Context, by follower) ([]kube.Request, error) {
	users := by.users()
	var since []kube.Request
	last := time.Now()
	err := wait.PollUntilContextTimeout(ctx, quiet/10, restless, true, func(context.Context) (bool, error) {
		more, next, err := b.kube.Audit(b.audited)
		if err != nil {
			return false, err
		}
		b.audited = next
		for _, r := range more {
			if slices.Contains(users, r.User) {
				since, last = append(since, r), time.Now()
			}
		}
		return time.Since(last) > quiet, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil // it is never quiet; what it did until now counts
	}
	return since, err
}

// count sums up a follower's requests to the API server. The clock stops at the response to the last write of an
// object, or, without one, of a status.
func count(requests []kube.Request, began time.Time) Row {
	var row Row
	var object time.Time
	var patches []time.Time
	for _, r := range requests {
		switch {
		case r.Resource == "": // the API server's version and the like
		case r.Verb == "list":
			row.Lists++
			row.Listed = append(row.Listed, r.URI)
		case r.Verb == "get":
			row.Gets++
			if strings.HasPrefix(r.Group, "karpenter.") {
				row.Reads++
			}
		case strings.Contains(r.URI, "dryRun="):
			row.DryRuns++
		case strings.HasPrefix(r.Group, "karpenter.") && r.Code >= 300:
			row.Refused++
		case strings.HasPrefix(r.Group, "karpenter."):
			row.Writes++
			object = r.Time
		case r.Resource == "events":
			row.Events++
		case r.Resource == "configmaps":
			row.ConfigMaps++
		default: // the NodeSync, or a peer's own object
			row.Patches++
			patches = append(patches, r.Time)
			row.Told = r.Time.Sub(began)
		}
	}
	row.Busiest = busiest(patches)
	row.Wall = row.Told
	if row.Writes > 0 {
		row.Wall = object.Sub(began)
	}
	return row
}

// busiest returns the maximum number of times within one second.
func busiest(times []time.Time) int {
	times = slices.SortedFunc(slices.Values(times), time.Time.Compare)
	most, first := 0, 0
	for last := range times {
		for times[last].Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
