package stories_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/witness"
)

const (
	// looksEvery is the interval of a watcher's checks.
	looksEvery = time.Second
	// leads is the maximum age of the lease of a daemon that can act.
	leads = 10 * time.Second
)

// watcher watches a story for what plumbline reports about nodes, in the status of a NodeSync and on the Git host,
// while something contradicts it. What the daemon cannot know or report, for example while it does not run, is no lie.
type watcher struct {
	story *story
	of    *member
	since map[string]time.Time // since when a lie is reported, by its words
	stop  context.CancelFunc
	done  sync.WaitGroup
	lies  []witness.Lie

	audited int64 // up to which byte the API server's audit log is read
	held    witness.Held
	said    map[string]time.Time // since when a pool is reported to get no nodes
	deleted map[string]time.Time // when a NodeClaim of a pool was last deleted
	commits map[string]*witness.Definitions
}

// watch starts a witness of a cluster.
func (s *story) watch(of *member) *watcher {
	ctx, stop := context.WithCancel(s.ctx)
	w := &watcher{
		story: s, of: of, since: map[string]time.Time{}, stop: stop, held: witness.Held{},
		said: map[string]time.Time{}, deleted: map[string]time.Time{}, commits: map[string]*witness.Definitions{},
	}
	w.done.Go(func() {
		tick := time.NewTicker(looksEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(ctx, time.Now())
			}
		}
	})
	return w
}

// ended returns the lies that were seen.
func (w *watcher) ended() []witness.Lie {
	w.stop()
	w.done.Wait()
	return w.lies
}

// look records what is untrue now, and what has been for too long.
func (w *watcher) look(ctx context.Context, now time.Time) {
	seen := map[string]time.Time{}
	for _, lie := range w.untrue(ctx, now) {
		since, known := w.since[lie.Words]
		if !known {
			since = now
		}
		if !since.IsZero() && (lie.Patience == 0 || now.Sub(since) > lie.Patience) {
			w.lies = append(w.lies, lie)
			since = time.Time{} // once is enough
		}
		seen[lie.Words] = since
	}
	w.since = seen
}

// untrue returns what plumbline reports about the story's NodeSyncs that is not true.
func (w *watcher) untrue(ctx context.Context, now time.Time) (lies []witness.Lie) {
	written := w.written()
	syncs := w.of.c.list(ctx, "nodesync")
	var pools []unstructured.Unstructured
	if len(written) > 0 {
		pools = w.of.c.list(ctx, "nodepool")
	}
	lies = w.held.Progressed(syncs, written, pools)
	if !w.leads(ctx) || len(syncs) == 0 {
		return lies
	}
	seen := w.fleet(ctx, now)
	for i := range syncs {
		lies = append(lies, w.told(ctx, &syncs[i]).Untrue(seen)...)
	}
	return lies
}

// leads reports whether there is a daemon that can act.
func (w *watcher) leads(ctx context.Context) bool {
	lease, err := w.of.c.Kube.Client.CoordinationV1().Leases(daemon.Namespace).Get(ctx, "plumbline", metav1.GetOptions{})
	return err == nil && lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) <= leads
}

// told returns what plumbline reports about a NodeSync; nothing if it has not reconciled it yet.
func (w *watcher) told(ctx context.Context, sync *unstructured.Unstructured) *witness.Told {
	s := w.story
	t := &witness.Told{Sync: sync, Owner: daemon.Namespace + "." + sync.GetName()}
	if suspended, _, _ := unstructured.NestedBool(sync.Object, "spec", "suspend"); suspended || sync.GetDeletionTimestamp() != nil {
		return t
	}
	if observed, _, _ := unstructured.NestedInt64(sync.Object, "status", "observedGeneration"); observed != sync.GetGeneration() {
		return t
	}
	t.Now = true
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAttemptedRevision")
	if _, t.Commit, _ = strings.Cut(revision, "sha1:"); t.Commit == "" {
		return t
	}
	all, err := s.repo.Statuses(ctx, t.Commit)
	if err != nil {
		return t
	}
	t.Statuses = map[string]witness.Status{}
	for _, subject := range []string{"", "applied", "drift"} {
		for _, status := range githost.On(subject, all) {
			if strings.HasSuffix(strings.TrimSuffix(status.Context, "/"+subject), "/"+sync.GetName()) {
				t.Statuses[subject] = witness.Status{State: status.State, Description: status.Description}
			}
		}
	}
	path, _, _ := unstructured.NestedString(sync.Object, "spec", "path")
	t.Git = w.definitions(ctx, t.Commit, path)
	return t
}

// itself is the daemon's user in the API server's audit log.
const itself = "system:serviceaccount:" + daemon.Namespace + ":" + daemon.ServiceAccount

// written returns the daemon's successful writes to NodePools and NodeClaims since the last call.
func (w *watcher) written() (written []witness.Write) {
	all, next, err := w.of.c.Kube.Audit(w.audited)
	if err != nil {
		return nil
	}
	w.audited = next
	for _, r := range all {
		if !r.Writes() || r.Group != "karpenter.sh" || r.Subresource != "" || r.Code >= http.StatusMultipleChoices {
			continue
		}
		if r.Resource == "nodeclaims" && r.Verb == "delete" {
			w.deleted[witness.PoolOf(r.Name)] = r.Time
		}
		if r.User == itself {
			written = append(written, witness.Write{Verb: r.Verb, Resource: r.Resource, Name: r.Name, URI: r.URI})
		}
	}
	return written
}

// fleet reads the actual state.
func (w *watcher) fleet(ctx context.Context, now time.Time) *witness.Fleet {
	c := w.of.c
	f := &witness.Fleet{
		Now: now, Pools: c.list(ctx, "nodepool"), Classes: c.list(ctx, "ec2nodeclass"), Claims: c.list(ctx, "nodeclaim"),
		Billed: map[string]int{}, Compares: w.of.daemon.Compares(), Said: w.said, Ended: w.deleted,
	}
	for _, i := range c.instances() {
		f.Instances = append(f.Instances, witness.Instance{ID: i.ID, State: i.State, Tags: i.Tags})
		if i.State == "pending" || i.State == "running" {
			f.Billed[i.Tags["karpenter.sh/nodepool"]]++
		}
	}
	return f
}
