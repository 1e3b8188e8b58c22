package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// compare says of a NodeClaim that Karpenter has not found outdated whether it matches its definitions all
// the same: Karpenter looks at each within minutes of a change, and never finds one without a hash.
func (r *whyReport) compare(ctx context.Context, c *cluster, claim *karpv1.NodeClaim) error {
	if claim.Status.ProviderID == "" {
		return nil // it is being launched
	}
	seen := observe.NodeClaim(claim)
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: []plan.NodeClaim{seen}}
	var definitions []*plan.Object
	match := plan.Match{Exact: true, Since: time.Now(), Memory: &plan.MatchMemory{}}
	for ref, version := range map[render.Ref]string{
		{Kind: render.NodePool, Name: seen.Pool}: "karpenter.sh/v1", {Kind: render.EC2NodeClass, Name: seen.Class}: "karpenter.k8s.aws/v1",
	} {
		if ref.Name == "" {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(version)
		object.SetKind(ref.Kind)
		switch err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, object); {
		case apierrors.IsForbidden(err):
			r.Unknown = fmt.Sprintf("you are not allowed to read %s, and Karpenter has not found it outdated", ref)
			return nil
		case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", ref, err)
		}
		live.Objects[ref] = plan.NewObject(object)
		definitions, match.Unhashed = append(definitions, live.Objects[ref]), append(match.Unhashed, ref.String())
	}
	match.Live = live
	switch found := match.Outdated(definitions); {
	case len(found.Outdated) > 0:
		r.Outdated = found.Outdated[0].Reason
	case len(found.Unresolved) > 0:
		r.Unknown = "Karpenter has yet to find the AMIs of " + render.EC2NodeClass + "/" + seen.Class
	case len(found.Unknown) > 0:
		r.Unknown = "it lacks the hash by which Karpenter compares it with its definitions: delete it to have it replaced"
	default:
		r.Unknown = settling(ctx, c, live.Objects[render.Ref{Kind: render.NodePool, Name: seen.Pool}])
	}
	return nil
}

// settling says that AWS decides which nodes of a pool a commit has outdated, and that Karpenter may not have
// looked at each since; empty where it has.
func settling(ctx context.Context, c *cluster, pool *plan.Object) string {
	syncs := &v1alpha1.NodeSyncList{}
	if pool == nil || c.List(ctx, syncs, client.InNamespace(c.in(ctx))) != nil {
		return ""
	}
	for i := range syncs.Items {
		sync := &syncs.Items[i]
		label, _ := plan.OwnerOf(sync.Namespace, sync.Name).Label()
		rollout, now := sync.Status.Rollout, time.Now()
		if pool.GetLabels()[v1alpha1.OwnerLabel] != label || rollout == nil || rollout.SettlesAt == nil || !now.Before(rollout.SettlesAt.Time) {
			continue
		}
		return strings.TrimSpace(fmt.Sprintf("Karpenter asks AWS which nodes %s outdates, until %s", render.ShortRevision(rollout.Revision), plan.ClockTime(rollout.SettlesAt.Time, now)))
	}
	return ""
}
