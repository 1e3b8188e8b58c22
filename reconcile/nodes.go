package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// nodesSeen is the state of nodes after the writes of the reconcile.
type nodesSeen struct {
	// LaunchFailures are the pools that get no nodes; SawLaunches reports that they were looked for.
	LaunchFailures []rollout.LaunchFailure
	SawLaunches    bool
	// Lost are the NodeClaims of static pools whose Node was deleted while they still exist.
	Lost map[types.UID]bool
	// Drifting describes which nodes drift unexpectedly after a change of Karpenter; SawDrift reports that they were
	// looked for.
	Drifting string
	SawDrift bool
	// Rollout is the replacement of nodes that do not match their definitions, nil if each does; PoolRollouts are the
	// pools with such nodes, and Restored the nodes that match again. SawRollout reports that they were looked for.
	Rollout      *v1alpha1.Rollout
	PoolRollouts []v1alpha1.PoolRollout
	Restored     rollout.Restored
	SawRollout   bool
	// Instances are the EC2 instances that differ from their definitions and NodeClaims; nil if that is unknown.
	Instances *v1alpha1.InstanceDrift
	// IdentityConflict is another controller that uses this cluster's name; nil if there is none. SawIdentity reports that
	// it was looked for.
	IdentityConflict *v1alpha1.IdentityConflict
	SawIdentity      bool
	// Terminations are what has been terminating for longer than expected; nil if that was not checked.
	Terminations []v1alpha1.Termination
}

// observeReady reads whether each definition of the Set is Ready.
func (r *reconciliation) observeReady(ctx context.Context, d done) (done, error) {
	if !d.Charts.CRDs.Ready {
		return d, nil
	}
	live := d.evaluation.Live
	ready, found := changes.Ready(d.evaluation.Desired.Set, live, d.Work.Written)
	r.memory.reasons.Explain(
		changes.Waiting{
			Live: live, Ready: ready, Found: &found, Namespace: r.karpenterNamespace(), StallAfter: r.sync.GetStallAfter(),
			Now:   r.Settings.Now(), // many writes take longer than a class may be not Ready
			Since: func(name string) time.Time { return r.classNotReadySince(ctx, name) },
		},
		func() string { return r.controllerLog(ctx) },
	)
	d.Join(found)
	d.Ready = ready
	return d, nil
}

// controllerLog returns the end of the log of Karpenter's controller; empty if it cannot be read.
func (r *reconciliation) controllerLog(ctx context.Context) string {
	if r.Cluster.Logs == nil || r.sync.Status.Karpenter == nil {
		return ""
	}
	return upgrade.ControllerLog(ctx, r.Cluster.Uncached, r.Cluster.Logs, r.karpenterNamespace())
}

// karpenterNamespace returns the namespace of Karpenter's controller; empty before it is known.
func (r *reconciliation) karpenterNamespace() string {
	if r.sync.Status.Karpenter == nil {
		return ""
	}
	return r.sync.Status.Karpenter.Namespace
}

// classNotReadySince returns since when an EC2NodeClass has not been Ready; zero if it cannot be read.
func (r *reconciliation) classNotReadySince(ctx context.Context, name string) time.Time {
	kind, _ := render.KindOf(render.EC2NodeClass)
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(kind.GVK)
	if err := r.Cluster.Uncached.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return time.Time{}
	}
	return cluster.NotReadySince(class)
}

// observeController reads whether Karpenter's controller is alive.
func (r *reconciliation) observeController(ctx context.Context, d done) (_ done, err error) {
	if d.Charts.Controller, d.Charts.Alive, err = r.chartStep(d.evaluation).Controller(ctx); err != nil {
		return d, err
	}
	return r.observeHeartbeat(ctx, d), nil
}

// observeHeartbeat checks whether the controller, whose pods may all be Ready, renews its lease: otherwise it does
// nothing. A lease that cannot be read proves nothing and stops nothing, and neither does one from before leader
// election was turned off.
func (r *reconciliation) observeHeartbeat(ctx context.Context, d done) done {
	if !d.Charts.Controller.Ready {
		return d
	}
	stopped, err := r.memory.heartbeat.Look(ctx, r.Cluster.Uncached, r.karpenterNamespace(), r.now)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("whether Karpenter renews its lease is unknown", "error", err.Error())
	}
	if r.memory.heartbeat.Found() {
		d.WakeBy(r.now.Add(upgrade.ReadWithin))
	}
	if stopped == nil || !r.electsLeader(ctx) {
		return d
	}
	d.Charts.Controller, d.Charts.Alive = cluster.Readiness{Message: stopped.Message}, false
	d.WaitFor("Controller", stopped.Message, stopped.Since, r.sync.GetStallAfter())
	return d
}

// electsLeader reports whether Karpenter's controller elects a leader; false if that cannot be read.
func (r *reconciliation) electsLeader(ctx context.Context) bool {
	controllers, err := r.view.Controllers(ctx, r.karpenterNamespace())
	off := false
	if err == nil {
		off, err = upgrade.ElectionOff(ctx, r.Cluster.Uncached, controllers)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("whether Karpenter elects a leader is unknown", "error", err.Error())
	}
	return err == nil && !off
}

// observeLaunches finds the pools of Git that get no nodes.
func (r *reconciliation) observeLaunches(ctx context.Context, d done) (done, error) {
	live := d.evaluation.Live
	pools := rollout.Pools(d.evaluation.Desired.Set, live.Objects)
	static := rollout.StaticLook{Memory: &r.memory.static, Pools: pools, Claims: live.NodeClaims, Nodes: r.Cluster.Uncached, Now: r.now}
	d.Nodes.Lost = static.Lost(ctx, &d.Findings)
	look := rollout.Launches{
		Known: r.Cluster.Launches, Events: r.Cluster.Uncached, Now: r.now, Retry: r.sync.GetRetryInterval(),
		Claims: rollout.Present(live.NodeClaims, d.Nodes.Lost), Off: r.chartStep(d.evaluation).Off,
		NoAMI: r.observeAMIs(ctx, &d, pools),
	}
	launches, err := look.See(ctx, pools, &d.Findings)
	d.Nodes.LaunchFailures, d.Nodes.SawLaunches = static.Add(launches, d.Nodes.Lost, &d.Findings), err == nil
	return d, err
}

// observeAMIs finds EC2NodeClasses of NodePools for which AWS publishes no AMI, and why no node can be launched with
// them.
func (r *reconciliation) observeAMIs(ctx context.Context, d *done, pools []rollout.Pool) map[string]string {
	cluster, region := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter)
	version := r.memory.account.Kubernetes()
	if version == "" {
		return nil // it is unknown which AMIs AWS publishes for the cluster
	}
	classes := map[string]*plan.Object{}
	for _, pool := range pools {
		if pool.Class != nil {
			classes[pool.Class.GetName()] = pool.Class
		}
	}
	return r.memory.amis.See(ctx, account.AMILook{
		Ask: r.resolves(d.account())(cluster, region), In: region + " " + version,
		Classes: slices.Collect(maps.Values(classes)), Now: r.now,
	}, &d.Findings)
}

// observeNodeDrift finds unexpected node drift after a change of Karpenter.
func (r *reconciliation) observeNodeDrift(ctx context.Context, d done) (done, error) {
	if r.sync.Status.Karpenter.NodeDrift == nil {
		return d, nil
	}
	seen, err := rollout.SeeDrift(ctx, *r.sync.Status.Karpenter, r.view.Claims, r.rollouts(&d), d.Work.Refs())
	r.sync.Status.Karpenter, d.Nodes.Drifting, d.Nodes.SawDrift = &seen.Karpenter, seen.Words, err == nil
	d.Join(seen.Findings)
	return d, err
}

// observeRollout finds which nodes do not match, and what blocks their replacement, and stops failing rollouts.
func (r *reconciliation) observeRollout(ctx context.Context, d done) (done, error) {
	git := d.evaluation.Desired
	d, pools := r.brake(ctx, d, false)
	cluster, _ := git.Cluster(r.sync.Status.Karpenter)
	d.Nodes.PoolRollouts = r.memory.proposals.See(ctx, rollout.ProposalLook{
		ProposalTools: rollout.ProposalTools{
			Revert: r.sourceStep().Revert, Hosts: &report.Hosts{Now: r.Settings.Now}, Confine: r.Confine, Secret: r.readSecret,
			Grants: r.Settings.Grants, StillLeader: r.Settings.StillLeader,
		},
		Sync: r.sync, Recorded: r.before.Status.PoolRollouts, Pools: pools, Cluster: cluster, Inputs: git.Set.Inputs, Now: r.now,
	}, &d.Findings)
	return d, nil
}

// brake finds which nodes do not match, and stops failing rollouts. inForce reports that it uses only what is in force.
// While Karpenter's kinds are not served, nodes are unknown, and the previous state is kept.
func (r *reconciliation) brake(ctx context.Context, d done, inForce bool) (done, []v1alpha1.PoolRollout) {
	ev := &d.evaluation
	if !ev.Live.Served {
		return d, r.before.Status.PoolRollouts
	}
	r.sync.Status.RevertedPools = ev.Plan.Reverted
	look := r.rollouts(&d)
	looked := look.See(ctx, d.Charts.Controller.Ready)
	d.Nodes.Rollout, d.Nodes.Restored = looked.Rollout, looked.Restored
	d.Nodes.SawRollout = d.Charts.Controller.Ready || d.Nodes.Rollout != nil
	dial := verifiedCloud(d.account(), r.cloud())
	stop := rollout.BrakeStep{
		Writer: r.Cluster.Client, Pools: r.Cluster.Uncached, Secrets: r.Uncached, StillLeader: r.Settings.StillLeader, Grants: r.Settings.Grants,
		Launches: r.Cluster.Launches, Gate: r.chartStep(*ev).On, Holds: &r.memory.holds,
		Judge: r.judgeWave, Failing: r.failingWorkloads, Waves: &r.memory.waves, Nodes: looked.Nodes(), UnknownPools: looked.UnknownPools(),
		NotReady: func(ctx context.Context, pool string) ([]string, error) {
			return nodesNotReady(ctx, r.Cluster.Uncached, pool)
		},
		Sync: r.sync, Set: ev.Desired.Set, Live: ev.Live, Leaving: look.Leaving, Changes: ev.Plan.Changes, Written: d.Work.Refs(),
		Rollout: d.Nodes.Rollout, Outdated: looked.Outdated, Unknown: looked.Unknown, Frozen: ev.Plan.Frozen, InForce: inForce, Now: r.now,
		EC2: func(ctx context.Context, region string) (rollout.Instances, error) { return dial(ctx, region) },
	}
	pools := stop.Run(ctx)
	d.Nodes.Rollout = look.Pace(looked, pools, r.sync.Spec)
	d.Join(look.Findings)
	d.Join(stop.Findings)
	return d, pools
}

// judgeWave judges the workloads on the nodes of a wave. It reads past the cache, which has no pods.
func (r *reconciliation) judgeWave(ctx context.Context, wave judge.Wave) (judge.Verdict, error) {
	seen, err := judge.Observe(ctx, r.Cluster.Uncached, wave, r.now)
	if err != nil {
		return judge.Verdict{}, err
	}
	return judge.Judge(seen, r.now), nil
}

// failingWorkloads returns the workloads that fail on nodes, compared with the old ones, in addition to earlier ones.
func (r *reconciliation) failingWorkloads(ctx context.Context, nodes, old, earlier []string) ([]string, error) {
	seen, err := judge.ObserveNodes(ctx, r.Cluster.Uncached, nodes, old, r.now)
	if err != nil {
		return nil, err
	}
	return seen.Failing(earlier, r.now), nil
}

// nodesNotReady returns the names of the nodes of a NodePool that are NotReady and that Karpenter counts against its
// disruption budgets: those that were initialized (NodePoolStatsFromNodes in sigs.k8s.io/karpenter
// pkg/controllers/disruption/helpers.go, 1.15.0).
func nodesNotReady(ctx context.Context, reader client.Reader, pool string) ([]string, error) {
	nodes := &corev1.NodeList{}
	counted := client.MatchingLabels{karpv1.NodePoolLabelKey: pool, karpv1.NodeInitializedLabelKey: "true"}
	if err := reader.List(ctx, nodes, counted); err != nil {
		return nil, fmt.Errorf("list the nodes of NodePool/%s: %w", pool, err)
	}
	var names []string
	for i := range nodes.Items {
		if !cluster.NodeReady(&nodes.Items[i]) {
			names = append(names, nodes.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// verifiedCloud returns the dialer, or one that fails while the account is not verified to be this cluster's: in
// another account every instance is missing, which must not count as terminated.
func verifiedCloud(verdict *cloud.Verdict, dial account.Dialer) account.Dialer {
	if why := account.Unverified(verdict); why != "" {
		return func(context.Context, string) (account.Cloud, error) {
			return nil, errors.New("AWS is not queried: " + why)
		}
	}
	return dial
}

// rollouts returns what follows the replacement of nodes.
func (r *reconciliation) rollouts(d *done) *rollout.Rollouts {
	ev := &d.evaluation
	set, live := ev.Desired.Set, ev.Live
	_, region := ev.Desired.Cluster(r.sync.Status.Karpenter)
	dial := verifiedCloud(d.account(), r.cloud())
	return &rollout.Rollouts{
		Live: live, Pools: rollout.Pools(set, live.Objects), Lost: d.Nodes.Lost, Leaving: r.leavingPools(ev),
		Classes: rollout.Classes(set, live.Objects), Events: r.Cluster.Uncached,
		CABundle: r.Cluster.CABundle(), DaemonSets: r.daemonSets,
		Before: r.sync.Status.Rollout, Reported: r.before.Status.Rollout, Changes: ev.Plan.Changes, Revision: r.revisionOf(ev.revision),
		Applied: r.before.Status.LastAppliedRevision,
		Now:     r.now, LaunchFailures: d.Nodes.LaunchFailures, Memory: &r.memory.rollout,
		Waves: r.before.Status.PoolRollouts, WatchFor: r.sync.Spec.Rollout.GetWatchFor(),
		EC2: func(ctx context.Context) (rollout.EC2, error) { return dial(ctx, region) }, Off: r.chartStep(*ev).Off, On: r.chartStep(*ev).On,
	}
}

// leavingPools returns the NodePools whose removal has not started, or is not even recorded.
func (r *reconciliation) leavingPools(ev *evaluation) []*plan.Object {
	var found []*plan.Object
	add := func(ref render.Ref, uid types.UID) {
		if pool := ev.Live.Objects[ref]; ref.Kind == render.NodePool && pool != nil && pool.GetUID() == uid {
			found = append(found, pool)
		}
	}
	for i := range r.sync.Status.Removals {
		if leaves := &r.sync.Status.Removals[i]; !leaves.Started() && !leaves.Returned() && leaves.Reason != removal.ReasonNodeClaimsLeaving {
			add(plan.RefOf(*leaves), leaves.UID)
		}
	}
	for _, c := range ev.Plan.Removals {
		if !c.Recorded && !c.Orphan && !c.Terminating {
			add(c.Ref, c.UID)
		}
	}
	return found
}

// observeInstances finds EC2 instances that differ from their definitions and NodeClaims.
func (r *reconciliation) observeInstances(ctx context.Context, d done) (done, error) {
	ev := &d.evaluation
	cluster, region := ev.Desired.Cluster(r.sync.Status.Karpenter)
	d.Nodes.Instances = r.memory.instances.See(ctx, account.InstanceLook{
		Cloud: func(ctx context.Context) (account.InstanceCloud, error) { return r.cloud()(ctx, region) }, Reader: r.Cluster.Uncached,
		Cluster: cluster, Unverified: account.Unverified(d.account()),
		Set: ev.Desired.Set, Live: ev.Live, Rolling: d.Nodes.Rollout != nil, Removals: len(r.sync.Status.Removals),
		Urgent: r.memory.terminations.NeedsInstances() || r.before.Status.IdentityConflict.Open(), Terminations: len(r.terminations()),
		Endpoint: r.memory.account.Endpoint(),
		Before:   r.before.Status.Instances, Now: r.now, Every: r.Settings.CompareInstances,
	}, &d.Findings)
	return d, nil
}

// observeTerminations finds what has been terminating for longer than expected, and what each waits for. For pools
// whose removal has started, the removal reports that; until then they are reported here, although Git no longer has
// them.
func (r *reconciliation) observeTerminations(ctx context.Context, d done) (done, error) {
	live := d.evaluation.Live
	ours := map[string]bool{}
	for _, pool := range rollout.Pools(d.evaluation.Desired.Set, live.Objects) {
		ours[pool.Name] = true
	}
	removed := map[string]bool{}
	for _, leaves := range r.sync.Status.Removals {
		if leaves.Kind == render.NodePool {
			removed[leaves.Name] = leaves.Started() || leaves.Reason == removal.ReasonNodeClaimsLeaving
			ours[leaves.Name] = !removed[leaves.Name]
		}
	}
	controller := ""
	if !d.Charts.Alive {
		controller = "Karpenter's controller does nothing: " + d.Charts.Controller.Message
	}
	look := removal.TerminationLook{
		Claims: live.NodeClaims, Left: r.memory.instances.Left(), Controller: controller, After: removal.TerminationAfter(r.sync.GetStallAfter()),
		Pools: func(name string) bool {
			return !removed[name] && (ours[name] || live.Objects[render.Ref{Kind: render.NodePool, Name: name}] == nil)
		},
		Blockers: r.removalStep(&d).Blockers(ctx), Memory: &r.memory.terminations, Now: r.now,
	}
	d.Nodes.Terminations = look.See(ctx)
	d.Join(look.Findings)
	return d, nil
}

// pauseAfterFailure does what must not wait for the next commit after a reconcile that has failed, using what is in
// force: it stops failing rollouts, and checks instances and terminations. Karpenter continues, whatever is wrong with
// HEAD.
func (r *reconciliation) pauseAfterFailure(ctx context.Context, out outcome) outcome {
	may := actionsAfter(out)
	if !may.check {
		return out
	}
	at := r.settle(r.checkAppliedState(ctx, out.done, may.brake))
	if may.brake {
		out.Nodes.Rollout, out.Nodes.SawRollout, out.Nodes.PoolRollouts = at.Nodes.Rollout, at.Nodes.SawRollout, at.Nodes.PoolRollouts
	}
	out.Nodes.Instances, out.Nodes.Terminations = at.Nodes.Instances, at.Nodes.Terminations
	out.Nodes.IdentityConflict, out.Nodes.SawIdentity = at.Nodes.IdentityConflict, at.Nodes.SawIdentity
	out.Join(at.Findings)
	if f := at.fault; may.brake && f != nil && f.Class != fault.Superseded && f.Error() != out.fault.Error() {
		out.Warn(v1alpha1.ReasonBrakeFailed, "the revision failed, and plumbline cannot determine whether to stop its rollout: "+f.Error())
		out.WakeBy(r.now.Add(r.sync.GetRetryInterval()))
	}
	return out
}

// checkAppliedState checks nodes against what is in force, and stops failing rollouts if brakes is true.
func (r *reconciliation) checkAppliedState(ctx context.Context, d done, brakes bool) (done, error) {
	d.Findings, d.Nodes = finding.Findings{}, nodesSeen{Rollout: d.Nodes.Rollout}
	if r.sync.Status.Karpenter != nil {
		d.evaluation.Desired.Karpenter = nil // HEAD's may be another version, in another region
	}
	return step.All(ctx, r.trace, d, []step.Of[done]{
		{Name: step.See, Do: func(ctx context.Context, d done) (done, error) {
			seen, err := r.observeLive(ctx)
			d.Join(seen.Findings)
			d.evaluation.Live = seen.Live
			return d, err
		}},
		{Name: step.SeeController, Do: r.observeController},
		{Name: step.SeeRollout, Do: func(ctx context.Context, d done) (_ done, err error) {
			ev := &d.evaluation
			ev.Desired.Set, ev.Plan.Plan, err = plan.InForce(ev.Live, plan.PolicyOf(r.sync, nil, nil), r.now)
			if err == nil && brakes {
				d, d.Nodes.PoolRollouts = r.brake(ctx, d, true)
			}
			return d, err
		}},
		{Name: step.SeeInstances, Do: func(ctx context.Context, d done) (done, error) {
			if _, region := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter); region == "" {
				return d, nil // nothing is installed, and HEAD does not say in which cluster
			}
			if d.account() == nil { // the reconcile has failed before it verified the account
				seen := r.verifyAccount(ctx, d.evaluation.Desired, observed{Live: d.evaluation.Live})
				d.Join(seen.Findings)
				d.Account = seen.Account
			}
			return r.observeInstances(ctx, d)
		}},
		{Name: step.SeeIdentity, Do: r.observeIdentity},
		{Name: step.SeeTerminations, Do: r.observeTerminations},
	})
}
