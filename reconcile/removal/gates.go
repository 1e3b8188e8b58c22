package removal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// pace returns how fast this NodeSync's NodeClaims are terminated.
func (s *Step) pace() Pace {
	policy := s.Sync.Spec.Removal
	lastPool := slices.ContainsFunc(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.LastPool })
	pace := Pace{
		Grace:          s.Sync.GetRemovalGrace(),
		MaxUnavailable: policy.GetMaxUnavailable(),
		AwaitPods:      s.successorWanted(v1alpha1.Removal{LastPool: lastPool}),
	}
	pace.Replaces = pace.AwaitPods && policy.Strategy != v1alpha1.RemovalAtOnce
	return pace
}

// controllerGate is open while Karpenter's controller has a ready replica and no policy denies it: only the controller
// can remove the finalizers of deleted objects. The message of an open gate says what is not as it should be, such as
// another version.
func (s *Step) controllerGate(ctx context.Context) Gate {
	message := s.Controller.Message
	if message == "" && !s.Alive {
		message = "Karpenter's controller has no ready replica"
	}
	if denied := s.denied(ctx); s.Alive && denied != "" {
		return Gate{Message: denied}
	}
	return Gate{Open: s.Alive, Message: message}
}

// denied returns why a policy denies Karpenter's controller the removal of its finalizers; empty if none does.
func (s *Step) denied(ctx context.Context) string {
	if s.Denied == nil {
		return ""
	}
	return s.Denied(ctx)
}

// daemonSets returns those of CSI drivers and CNI plugins, for a diagnosis.
func (s *Step) daemonSets(ctx context.Context) plan.DaemonSets {
	found, _ := s.View.DaemonSets(ctx, s.Live.NodeClaims, s.Now, s.Sync.GetRetryInterval())
	return found
}

// Blockers returns what is needed to diagnose terminating nodes, as for a removal. It omits EC2 if its client cannot be
// created.
func (s *Step) Blockers(ctx context.Context) blocker.Look {
	look := blocker.Look{Reader: s.Nodes.Uncached, DaemonSets: s.daemonSets, Log: s.Log, Now: s.Now}
	if ec2, err := s.EC2(ctx, s.Region); err == nil && s.Region != "" && ec2 != nil {
		look.Protected = ec2.TerminationProtected
	}
	return look
}

// terminatesFirst reports whether Karpenter's feature gate to terminate first is enabled; false if that cannot be read.
func (s *Step) terminatesFirst(ctx context.Context) bool {
	if s.Gate == nil {
		return false
	}
	on, err := s.Gate(ctx, plan.TerminateFirst)
	return err == nil && on
}

// leaderGate is open while a pod of Karpenter's controller leads; its message then says what is wrong with the
// controller. It reads the API server, not the cache, because a deletionTimestamp cannot be reverted, and a Deployment
// reports late that its pods are gone.
func (s *Step) leaderGate(ctx context.Context) Gate {
	deployments, err := s.View.Controllers(ctx, s.Sync.Status.Karpenter.Namespace)
	if err != nil {
		return Gate{Message: err.Error()}
	}
	leads, err := upgrade.Alive(ctx, s.Nodes.Uncached, s.Sync.Status.Karpenter.Namespace, deployments, s.Now, &s.Memory.lease)
	if err != nil {
		return Gate{Message: err.Error()}
	}
	if denied := s.denied(ctx); leads.Ready && denied != "" {
		return Gate{Message: denied}
	}
	if leads.Ready {
		leads.Message = s.otherVersion(ctx, deployments)
	}
	return Gate{Open: leads.Ready, Message: leads.Message}
}

// otherVersion names a controller whose image version differs both from the one that Git wants and from the one in
// force; empty if there is none, or the version cannot be read from the image.
func (s *Step) otherVersion(ctx context.Context, deployments []appsv1.Deployment) string {
	k := s.Sync.Status.Karpenter
	if k.Version == "" {
		return "" // another tool installed it
	}
	wanted := k.Version
	if k.Target != nil {
		wanted = cmp.Or(k.Target.Version, wanted)
	}
	for i := range deployments {
		containers, err := s.View.Containers(ctx, &deployments[i])
		if tag := upgrade.Tag(containers); err == nil && karpenter.OtherRelease(tag, wanted) && karpenter.OtherRelease(tag, k.Version) {
			return fmt.Sprintf("deployment/%s runs version %s, but Git has %s", deployments[i].Name, tag, wanted)
		}
	}
	return ""
}

func (s *Step) cloudGate() Gate {
	if s.Account == nil {
		return Gate{Message: "EC2 has not been queried yet"}
	}
	return Gate{Open: s.Account.OK, Message: s.Account.Message}
}

// arrivalsGate returns a function that returns a removal's gate for the additions of its revision.
func (s *Step) arrivalsGate() func(v1alpha1.Removal) Gate {
	unready := sync.OnceValue(s.unreadyPools)
	return func(r v1alpha1.Removal) Gate {
		if done, waitingFor := s.arrivalsDone(r, unready); !done {
			return Gate{Message: "waiting for " + waitingFor}
		}
		for _, ref := range s.targets(r) {
			if !s.Ready[ref].Ready {
				return Gate{Message: "waiting for " + ref.String() + ", its replacement"}
			}
		}
		return s.gitGate(r)
	}
}

// unreadyPool is a NodePool of the Set that exists and is not Ready.
type unreadyPool struct {
	ref     render.Ref
	created time.Time
}

func (s *Step) unreadyPools() []unreadyPool {
	var found []unreadyPool
	for _, object := range s.Set.Objects {
		live := s.Live.Objects[object.Ref]
		if object.Ref.Kind == render.NodePool && live != nil && !s.Ready[object.Ref].Ready {
			found = append(found, unreadyPool{object.Ref, live.GetCreationTimestamp().Time})
		}
	}
	return found
}

// targets returns the entries to which a removed entry moves and that are in Git.
func (s *Step) targets(r v1alpha1.Removal) []render.Ref {
	var found []render.Ref
	for _, name := range r.MovesTo {
		if ref := (render.Ref{Kind: r.Kind, Name: name}); s.inGit(ref) {
			found = append(found, ref)
		}
	}
	return found
}

// gitGate is open once Git was read after the grace period, so an entry that was added back within it stays, even if no
// webhook reports pushes and the interval is longer than the grace period.
func (s *Step) gitGate(r v1alpha1.Removal) Gate {
	over := r.RecordedAt.Add(s.pace().Grace)
	if s.Now.Before(over) {
		return Gate{Open: true} // the grace gate waits for it
	}
	read, why, wake := s.ReadSince(over)
	if !wake.IsZero() {
		s.WakeBy(wake)
	}
	message := "removal.grace is over; waiting for one more fetch of Git"
	if why != "" {
		message += ": " + why
	}
	return Gate{Open: read, Message: message}
}

// clocksDiffer is the maximum assumed difference between the API server's clock and ours.
const clocksDiffer = time.Minute

// firstThatWaits returns what the first pending change waits for; empty if no change waits.
func (s *Step) firstThatWaits() string {
	if s.Plan == nil {
		return ""
	}
	for i := range s.Plan.Changes {
		if change := &s.Plan.Changes[i]; change.Action == plan.Wait {
			return ": " + change.Message
		}
	}
	return ""
}

// onlyHeldSince reports whether the unapplied changes of a newer revision are only held, and the removal need not wait
// for them: everything of the revision in which it was recorded had been applied, and the held changes affect existing
// objects to none of which the removal moves.
func (s *Step) onlyHeldSince(r v1alpha1.Removal) bool {
	arrived := r.Phase == v1alpha1.RemovalDraining || r.Revision == s.Before.Status.LastAppliedRevision
	if s.Plan == nil || !arrived || r.Revision == s.Revision {
		return false
	}
	targets := s.targets(r)
	return !slices.ContainsFunc(s.Plan.Changes, func(c plan.Change) bool {
		made := c.Action == plan.Drifted || slices.ContainsFunc(s.Written, func(w plan.Write) bool { return w.Ref == c.Ref })
		aside := c.Action == plan.Hold && s.Live.Objects[c.Ref] != nil && !slices.Contains(targets, c.Ref)
		return !made && !aside
	})
}

// arrivalsDone reports whether everything of the revision is applied and each new NodePool is Ready; if not, what is
// waited for. Nothing is removed before its replacement exists. A removal does not wait for held changes of a newer
// commit.
func (s *Step) arrivalsDone(r v1alpha1.Removal, unready func() []unreadyPool) (done bool, waitingFor string) {
	if !s.Applied && !s.onlyHeldSince(r) {
		return false, "the other changes of " + s.Revision + s.firstThatWaits()
	}
	for _, pool := range unready() {
		if pool.created.After(r.RecordedAt.Add(-clocksDiffer)) {
			return false, "the new " + pool.ref.String()
		}
	}
	return true, ""
}

// successorGate returns a function that returns a removal's gate for its pods. The gate is open while a NodePool of the
// Set could take them: it is Ready, has room to grow, and its nodes can be launched. If the removed pool moves to
// certain NodePools, only these count. simulate.LandingChecker has already simulated whether each pod fits.
//
// Removals that move to no pool share one result, which matters if hundreds of pools are removed.
func (s *Step) successorGate() func(v1alpha1.Removal) Gate {
	anyPool := sync.OnceValue(func() Gate { return s.podsGate(nil) })
	return func(r v1alpha1.Removal) Gate {
		if r.Kind != render.NodePool || !s.successorWanted(r) {
			return Gate{Open: true}
		}
		if s.Plan != nil && s.Plan.Landing.Asking && slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.UID == r.UID }) {
			return Gate{Message: plan.Simulating}
		}
		if targets := s.targets(r); len(targets) > 0 {
			return s.podsGate(targets)
		}
		return anyPool()
	}
}

// podsGate returns the gate for pods that one of some NodePools must take; nil means all in Git.
func (s *Step) podsGate(targets []render.Ref) Gate {
	var unfit []string
	var room Room
	for _, object := range s.Set.Objects {
		if object.Ref.Kind != render.NodePool || len(targets) > 0 && !slices.Contains(targets, object.Ref) {
			continue
		}
		why := s.cannotTakePods(object.Ref)
		if why == "" {
			if !s.addRoom(&room, object.Ref) {
				return Gate{Open: true}
			}
			continue
		}
		unfit = append(unfit, object.Ref.String()+" "+why)
	}
	if room.Pools != "" {
		return Gate{Open: true, Room: &room}
	}
	if len(unfit) == 0 {
		return Gate{Message: "Git has no NodePool that can run the pods: add one, or set guard.allowLastPool"}
	}
	slices.Sort(unfit)
	if len(targets) > 0 {
		return Gate{Message: "none of its replacement NodePools can run the pods: " + finding.Some(unfit)}
	}
	return Gate{Message: "no NodePool can run the pods: " + finding.Some(unfit)}
}

// addRoom adds to room what is left within the limits of a NodePool that could take pods, and reports whether a limit
// remains: a resource that one of the NodePools does not limit is unlimited.
func (s *Step) addRoom(room *Room, ref render.Ref) bool {
	left := plan.LimitsLeft(s.Live.Objects[ref].Unstructured)
	if room.Pools == "" {
		room.Pools, room.Left = ref.String(), left
		return len(left) > 0
	}
	room.Pools = "all NodePools in Git together"
	for name, before := range room.Left {
		more, limited := left[name]
		if !limited {
			delete(room.Left, name)
			continue
		}
		before.Add(more)
		room.Left[name] = before
	}
	return len(room.Left) > 0
}

// successorWanted reports whether pods must be able to run elsewhere. They need not if Git contains no NodePool that
// may grow, and guard.allowLastPool is set or people have approved exactly that.
func (s *Step) successorWanted(r v1alpha1.Removal) bool {
	if !s.Sync.Spec.Guard.AllowLastPool && !r.LastPool {
		return true
	}
	return slices.ContainsFunc(s.Set.Objects, func(object render.Object) bool {
		return object.Ref.Kind == render.NodePool && plan.MayGrow(object.Desired)
	})
}

// cannotTakePods returns why a NodePool of the Set cannot take pods; empty if it can.
func (s *Step) cannotTakePods(ref render.Ref) string {
	live := s.Live.Objects[ref]
	if live == nil {
		return "is not in the cluster"
	}
	if ready := s.Ready[ref]; !ready.Ready {
		return "is not Ready"
	}
	if !plan.MayGrow(live.Unstructured) {
		return "cannot launch nodes (it is static or has a limit of 0)"
	}
	if limit := plan.LimitReached(live.Unstructured); limit != "" {
		return "has reached its limit of " + limit
	}
	if _, failing := s.Nodes.Launches.Failed(ref.Name); failing {
		return "cannot launch nodes (recent launches failed)"
	}
	if late := s.unregistered(ref.Name); late != "" {
		return "has nodes that do not register: NodeClaim/" + late
	}
	if !cluster.Registers(live).Ready {
		return "has nodes that do not register (NodeRegistrationHealthy is False until one does, or its definition changes)"
	}
	return ""
}

// unregistered names the oldest NodeClaim of a pool that has an instance and whose node should have registered by now;
// empty if the node of a newer one has, because then the failure was an exception.
func (s *Step) unregistered(pool string) string {
	var registered time.Time
	var late *plan.NodeClaim
	for i := range s.Live.NodeClaims {
		c := &s.Live.NodeClaims[i]
		switch {
		case c.Pool != pool:
		case c.Node != "":
			if c.Created.After(registered) {
				registered = c.Created
			}
		case c.ProviderID != "" && !s.Now.Before(c.Created.Add(cluster.RegistersWithin)):
			if late == nil || c.Created.Before(late.Created) {
				late = c
			}
		}
	}
	if late == nil || registered.After(late.Created) {
		return ""
	}
	return late.Name
}
