package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// terminations returns the instances of the cluster that another client has terminated; nil if that is unknown.
func (r *reconciliation) terminations() []account.Termination {
	if r.Cluster.Terminations == nil {
		return nil
	}
	return r.Cluster.Terminations()
}

// observeIdentity finds out whether another controller uses this cluster's name, and responds to it.
func (r *reconciliation) observeIdentity(ctx context.Context, d done) (done, error) {
	cluster, _ := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter)
	on, before := r.sync.Spec.Guard.OnIdentityConflict, r.before.Status.IdentityConflict
	compared := r.memory.instances.Compared()
	conflict := account.Conflict(before, account.Signs{
		Cluster: cluster, Terminations: r.terminations(), Strangers: compared.Strangers, Resources: compared.Resources,
		Ours: compared.Ours, Theirs: compared.Theirs, Unknown: !d.Nodes.Instances.Compared(), Resolved: r.identityResolved(&d), Hidden: on.Hides(),
	}, r.now)
	r.namePrincipals(ctx, &d, conflict)
	if conflict.Open() && !on.Hides() {
		d.WakeBy(conflict.LastSign.Add(account.SignsLast))
	}
	if conflict == nil && before == nil {
		d.Nodes.SawIdentity = true
		return d, nil
	}
	d.Nodes.IdentityConflict, d.Nodes.SawIdentity = r.respond(ctx, &d, conflict, r.ownPools(&d)), true
	return d, nil
}

// ownPools returns the names of the NodePools in Git, and of those that were removed from it and still exist.
func (r *reconciliation) ownPools(d *done) map[string]bool {
	pools, owner := map[string]bool{}, plan.OwnerOf(r.sync.Namespace, r.sync.Name)
	for i := range d.evaluation.Desired.Set.Objects {
		if ref := d.evaluation.Desired.Set.Objects[i].Ref; ref.Kind == render.NodePool {
			pools[ref.Name] = true
		}
	}
	for ref, live := range d.evaluation.Live.Objects {
		if ref.Kind == render.NodePool && owner.Owns(live) {
			pools[ref.Name] = true
		}
	}
	return pools
}

// namePrincipals adds to a conflict who has terminated instances, once CloudTrail knows. The permission for that is optional.
func (r *reconciliation) namePrincipals(ctx context.Context, d *done, conflict *v1alpha1.IdentityConflict) {
	if !conflict.Open() {
		return
	}
	_, region := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter)
	dial := func(ctx context.Context) (account.TrailCloud, error) { return r.cloud()(ctx, region) }
	principals, again := r.memory.trail.Look(ctx, dial, r.terminations(), r.now)
	if !again.IsZero() {
		d.WakeBy(again)
	}
	if account.NamePrincipals(conflict, principals) {
		d.Event(v1alpha1.ReasonIdentityConflict, "CloudTrail: instances of this cluster were terminated by "+strings.Join(conflict.Principals, ", "))
	}
}

// respond carries out the response to a conflict, and returns the conflict with it; nil if there is nothing to record.
func (r *reconciliation) respond(ctx context.Context, d *done, conflict *v1alpha1.IdentityConflict, pools map[string]bool) *v1alpha1.IdentityConflict {
	_, region := d.evaluation.Desired.Cluster(r.sync.Status.Karpenter)
	if fixed := r.sync.Status.Karpenter; fixed != nil && fixed.Region != "" {
		region = fixed.Region // a commit with another one does not move the cluster
	}
	var claims []plan.NodeClaim
	for i := range d.evaluation.Live.NodeClaims {
		if claim := d.evaluation.Live.NodeClaims[i]; pools[claim.Pool] {
			claims = append(claims, claim)
		}
	}
	work := account.Response{
		Writer: r.Cluster.Client,
		Controllers: func(ctx context.Context) ([]appsv1.Deployment, error) {
			return r.view.Controllers(ctx, r.karpenterNamespace())
		},
		Cloud:       func(ctx context.Context) (account.ProtectionCloud, error) { return r.cloud()(ctx, region) },
		StillLeader: r.Settings.StillLeader,
		On:          r.sync.Spec.Guard.OnIdentityConflict,
		External:    r.sync.Status.Karpenter != nil && r.sync.Status.Karpenter.Management == string(render.External),
		Deleting:    r.sync.DrainsNodes() || !r.sync.DeletionTimestamp.IsZero(),
		Claims:      claims, Recorded: r.before.Status.IdentityConflict.GetResponse(), Memory: &r.memory.response,
		Now: r.now, Retry: r.sync.GetRetryInterval(),
	}
	response := work.Run(ctx, conflict)
	d.Join(work.Findings)
	switch {
	case conflict == nil && response == nil:
		return nil
	case conflict == nil:
		conflict = &v1alpha1.IdentityConflict{}
	}
	conflict.Response = response
	return conflict
}

// identityResolved returns when a person has resolved a conflict; zero if none has.
func (r *reconciliation) identityResolved(d *done) time.Time {
	text := r.sync.Annotations[v1alpha1.IdentityResolvedAnnotation]
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d.Warn(v1alpha1.ReasonWarning, fmt.Sprintf("annotation %s is ignored: it must be a time, for example 2026-12-24T20:00:00Z", v1alpha1.IdentityResolvedAnnotation))
	}
	return at
}

// endProtection disables the termination protection of instances before a NodeSync drains or orphans its nodes. What
// EC2 does not let it disable is reported, and delays nothing.
func (r *reconciliation) endProtection(ctx context.Context, d done) (done, error) {
	before := r.before.Status.IdentityConflict
	if len(before.GetResponse().Protected) == 0 {
		return d, nil
	}
	conflict := r.respond(ctx, &d, before.DeepCopy(), nil)
	d.Nodes.IdentityConflict, d.Nodes.SawIdentity = conflict, true
	response := conflict.GetResponse()
	switch {
	case len(response.Protected) == 0:
	case response.Failure == "":
		return d, fault.Waits(errors.New("EC2's termination protection is being disabled"))
	default:
		d.Warn(v1alpha1.ReasonIdentityResponse, "still protected from termination: "+strings.Join(response.Protected[:min(len(response.Protected), maxProtectedShown)], ", "))
	}
	return d, nil
}

// maxProtectedShown is how many protected instances an event names.
const maxProtectedShown = 20
