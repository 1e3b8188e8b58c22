package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// eventComes is how long after a NodeClaim is gone Karpenter's event on it may arrive: it is sent separately.
	eventComes = 5 * time.Second
	// eventsRead is how many launches' events one reconcile reads, and eventsEvery how long the others wait for the
	// next.
	eventsRead  = 3
	eventsEvery = time.Second
)

// LaunchFailure is a pool that gets no nodes, and why.
type LaunchFailure struct {
	Pool string `redact:"-"`
	Why  string
	// Lost reports that no launch failed: the pool has lost nodes, by no commit, and gets no others.
	Lost bool
}

// Launches looks for pools that get no nodes.
type Launches struct {
	// Known are the launches that failed, by their NodeClaims.
	Known *cluster.Launches
	// Events reads Karpenter's events past the cache.
	Events client.Reader
	Now    time.Time
	// Retry is how long an event that could not be read is not read again.
	Retry time.Duration
	// Claims are the NodeClaims, and Off reports whether a feature gate of Karpenter is off.
	Claims []plan.NodeClaim
	Off    func(ctx context.Context, gate string) (bool, error)
	// NoAMI maps names of EC2NodeClasses to why no node can be launched with them: AWS publishes no AMI.
	NoAMI map[string]string
}

// See is Look without static pools that have all of their nodes, and with those that Karpenter ignores. Events that
// could not be read are logged.
func (l Launches) See(ctx context.Context, pools []Pool, into *finding.Findings) ([]LaunchFailure, error) {
	launchFailures, found, err := l.Look(ctx, pools)
	into.Join(found)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "see launches")
	}
	return PassedOver(ctx, withoutFilled(launchFailures, pools, l.Claims), pools, l.Claims, l.Off)
}

// Look finds the pools that get no nodes, by name. It only reports: a NodePool without nodes is Ready, and its pods may
// fit elsewhere. The error is about events that could not be read: everything else is found nevertheless.
func (l Launches) Look(ctx context.Context, pools []Pool) ([]LaunchFailure, finding.Findings, error) {
	var (
		found  finding.Findings
		errs   []error
		silent []silentLaunch
	)
	words := map[string]string{}
	for _, pool := range pools {
		if pool.Live != nil {
			words[pool.Name] = cluster.Registers(pool.Live).Message
		}
		l.Known.DropOutdated(pool.Name, pool.definitions())
		if pool.Class != nil && l.NoAMI[pool.Class.GetName()] != "" {
			// The class is not Ready, so Karpenter has not tried: the cause of an earlier failed launch no longer
			// applies.
			words[pool.Name] = l.NoAMI[pool.Class.GetName()]
			continue
		}
		failed, is := l.Known.Failed(pool.Name)
		if !is {
			if why, again := l.uninitialized(pool.Name); why != "" {
				words[pool.Name] = why
			} else if !again.IsZero() {
				found.WakeBy(again)
			}
			continue
		}
		found.WakeBy(failed.Until())
		if failed.Words != "" {
			words[pool.Name] = failed.Words
			continue
		}
		silent = append(silent, silentLaunch{pool: pool.Name, failed: failed})
	}
	// Those whose last read was longest ago come first: one whose event cannot be read does not block the others.
	slices.SortStableFunc(silent, func(a, b silentLaunch) int { return a.failed.Asked.Compare(b.failed.Asked) })
	if len(silent) > eventsRead {
		found.WakeBy(l.Now.Add(eventsEvery))
		silent = silent[:eventsRead]
	}
	for _, s := range silent {
		why, again, err := l.why(ctx, s)
		errs = append(errs, err)
		if !again.IsZero() {
			found.WakeBy(again)
		}
		if why != "" {
			words[s.pool] = why
		}
	}
	return launchFailures(words), found, errors.Join(errs...)
}

// uninitialized returns why the newest nodes of a pool cannot be used although they registered: they were not
// initialized in time. again is when that may become true; both are empty if no node waits.
func (l Launches) uninitialized(pool string) (why string, again time.Time) {
	launches, _ := l.Known.Joins(pool)
	for _, launch := range launches {
		late := launch.Created.Add(InitializesWithin)
		switch {
		case !launch.Registered || launch.Failed != "" || gone(launch, l.Claims, l.Now):
		case l.Now.Before(late):
			if again.IsZero() || late.Before(again) {
				again = late
			}
		default:
			return fmt.Sprintf("the node of NodeClaim/%s %s: kubectl describe nodeclaim %[1]s shows why in its condition Initialized",
				launch.NodeClaim, notInitialized()), time.Time{}
		}
	}
	return "", again
}

// gone reports whether the NodeClaim of a launch no longer exists, although no watch has reported its deletion. A recent
// launch may be newer than the list of NodeClaims.
func gone(launch cluster.Join, claims []plan.NodeClaim, now time.Time) bool {
	return launch.Failed == "" && !now.Before(launch.Created.Add(cluster.RegistersWithin)) &&
		!slices.ContainsFunc(claims, func(c plan.NodeClaim) bool { return c.Name == launch.NodeClaim })
}

// notInitialized reports what became of a node that cannot be used, though it registered.
func notInitialized() string {
	return fmt.Sprintf("registered, but is not initialized %s after its launch began", duration.HumanDuration(InitializesWithin))
}

// launchFailures are the pools of which there are words, by name.
func launchFailures(words map[string]string) []LaunchFailure {
	var pools []LaunchFailure
	for pool, why := range words {
		if why != "" {
			pools = append(pools, LaunchFailure{Pool: pool, Why: why})
		}
	}
	slices.SortFunc(pools, func(a, b LaunchFailure) int { return strings.Compare(a.Pool, b.Pool) })
	return pools
}

// silentLaunch is a failed launch whose event was not read yet.
type silentLaunch struct {
	pool   string
	failed cluster.FailedLaunch
}

// why reads the event on a launch; empty if there is none, or none yet. again is when to read it again.
func (l Launches) why(ctx context.Context, s silentLaunch) (words string, again time.Time, err error) {
	l.Known.NoteLookup(s.pool, s.failed, l.Now)
	words, err = cluster.WhyNotLaunched(ctx, l.Events, s.failed.NodeClaim)
	switch {
	case err != nil:
		return "", l.Now.Add(l.Retry), err
	case words == "" && l.Now.Before(s.failed.At.Add(eventComes)):
		return "", l.Now.Add(time.Second), nil
	}
	l.Known.Explain(s.pool, s.failed, words)
	return words, time.Time{}, nil
}

// cacheLag is how long after a write Karpenter may still launch from the previous definition: its cache lags.
const cacheLag = time.Minute

// withoutClaims are definitions that a reconcile has written while they had no NodeClaims. One may have been created
// meanwhile from the previous definition, and then the commit has outdated it like any other.
type withoutClaims struct {
	revision, from string
	at             time.Time
	refs           map[render.Ref]bool
}

// noteWithoutClaims records which such definitions this reconcile writes.
func (r *Rollouts) noteWithoutClaims() {
	of := map[render.Ref]bool{}
	for i := range r.Live.NodeClaims {
		c := &r.Live.NodeClaims[i]
		of[render.Ref{Kind: render.NodePool, Name: c.Pool}], of[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}] = true, true
	}
	refs := map[render.Ref]bool{}
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Action.Writes() && c.Action != plan.Create && !c.Drift && !of[c.Ref] {
			refs[c.Ref] = true
		}
	}
	if len(refs) > 0 {
		r.Memory.withoutClaims = withoutClaims{revision: r.Revision, from: r.Applied, at: r.Now, refs: refs}
	}
}

// fresh reports whether NodeClaims that were created too early may still appear.
func (b withoutClaims) fresh(now time.Time) bool {
	return len(b.refs) > 0 && now.Before(b.at.Add(Settles))
}

// outdates returns the revision that has outdated all of these NodeClaims, and the one before it; empty if some have
// another cause, or there are none.
func (b withoutClaims) outdates(found []plan.Outdated, now time.Time) (revision, from string) {
	for _, o := range found {
		of := b.refs[render.Ref{Kind: render.NodePool, Name: o.Claim.Pool}] || b.refs[render.Ref{Kind: render.EC2NodeClass, Name: o.Claim.Class}]
		if !of || !o.Claim.Created.Before(b.at.Add(cacheLag)) {
			return "", ""
		}
	}
	if len(found) == 0 || !b.fresh(now) {
		return "", ""
	}
	return b.revision, b.from
}

// launchedFromPrevious returns the revision that has outdated nodes which were created while their definitions were
// written, or which the same definitions outdated before, and the one before it; empty if no commit is known to have
// outdated them.
func (r *Rollouts) launchedFromPrevious(ctx context.Context, found []plan.Outdated) (revision, from string) {
	if r.Memory.began.IsZero() {
		r.Memory.began = r.Now
	}
	if revision, from = r.knownLaunchedFromPrevious(found); revision != "" || r.Before != nil || len(found) == 0 {
		return revision, from
	}
	written := map[render.Ref]time.Time{}
	for _, o := range found {
		if !r.wroteDefinition(ctx, o.Claim, written) {
			return "", ""
		}
	}
	return r.Revision, r.Applied
}

// knownLaunchedFromPrevious is late by what this daemon remembers.
func (r *Rollouts) knownLaunchedFromPrevious(found []plan.Outdated) (revision, from string) {
	if revision, from = r.Memory.withoutClaims.outdates(found, r.Now); revision != "" || r.Before != nil || len(found) == 0 {
		return revision, from
	}
	return r.Memory.remembered.outdates(found, r.definitionHashes())
}

// wroteDefinition reports whether a daemon that ran before this one wrote a definition of a NodeClaim at about the time
// when that came. What it noted of that died with it, and the API server has the time.
func (r *Rollouts) wroteDefinition(ctx context.Context, c *plan.NodeClaim, written map[render.Ref]time.Time) bool {
	if began := r.Memory.began; c.Created.Before(began.Add(-Settles)) || c.Created.After(began.Add(cacheLag)) {
		return false
	}
	for _, ref := range []render.Ref{{Kind: render.NodePool, Name: c.Pool}, {Kind: render.EC2NodeClass, Name: c.Class}} {
		at, known := written[ref]
		if !known {
			at = r.writtenAt(ctx, ref)
			written[ref] = at
		}
		// The API server's times are in whole seconds: this daemon has written what is of the same one.
		if !at.IsZero() && at.Before(r.Memory.began.Truncate(time.Second)) && c.Created.Sub(at).Abs() < cacheLag {
			return true
		}
	}
	return false
}

// writtenAt returns when plumbline last changed a definition; zero if it has not since it created the definition, or if
// that cannot be read. The cache omits it.
func (r *Rollouts) writtenAt(ctx context.Context, ref render.Ref) time.Time {
	kind, _ := render.KindOf(ref.Kind)
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind.GVK)
	if r.Events.Get(ctx, client.ObjectKey{Name: ref.Name}, object) != nil {
		return time.Time{} // then no commit is named as the cause
	}
	for _, entry := range object.ManagedFields {
		if entry.Manager == v1alpha1.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Time != nil {
			if created := object.GetCreationTimestamp(); entry.Time.Equal(&created) {
				return time.Time{} // nothing can have been launched from an earlier definition
			}
			return entry.Time.Time
		}
	}
	return time.Time{}
}
