package recorder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// karpenter is the version of Karpenter's API that is spoken.
var karpenter = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}

// pool is a NodePool as the loop saw it last.
type pool struct {
	uid types.UID
	// of is the NodeSync that owned it; zero where none did.
	of owner
	// sync is that NodeSync.
	sync *v1alpha1.NodeSync
	// ends says that it is being deleted or gone, gone since when; static that it has replicas.
	ends, static bool
	gone         time.Time
}

// outlives is how long a pool stays known after it is gone: its NodeClaims go after it.
const outlives = time.Hour

// lookAround reads the NodePools and whose they are. One that is gone stays known, as it was.
func (r *Recorder) lookAround(ctx context.Context) error {
	syncs := &v1alpha1.NodeSyncList{}
	if err := r.Cached.List(ctx, syncs, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("read the NodeSyncs: %w", err)
	}
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := r.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil && !apimeta.IsNoMatchError(err) {
		return fmt.Errorf("read the NodePools: %w", err)
	}
	pools, known := make(map[string]pool, len(list.Items)), make(map[string]bool, len(list.Items))
	for i := range list.Items {
		object := &list.Items[i]
		p := pool{uid: object.GetUID(), ends: object.GetDeletionTimestamp() != nil}
		_, p.static, _ = unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas")
		p.sync = ownerOf(object, syncs.Items)
		if p.sync != nil {
			p.of = owner{client.ObjectKeyFromObject(p.sync), p.sync.UID}
		}
		pools[object.GetName()], known[object.GetName()] = p, true
	}
	now := r.Now()
	for name, p := range r.pools {
		if known[name] || p.of == (owner{}) || !p.gone.IsZero() && now.Sub(p.gone) > outlives {
			continue
		}
		if p.gone.IsZero() {
			p.gone = now
		}
		p.ends, p.sync = true, find(syncs.Items, p.of)
		pools[name], known[name] = p, true
	}
	r.pools = pools
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
	return nil
}

// ownerOf is the NodeSync that owns a pool; nil where none does.
func ownerOf(object client.Object, syncs []v1alpha1.NodeSync) *v1alpha1.NodeSync {
	for i := range syncs {
		if plan.OwnerOf(syncs[i].Namespace, syncs[i].Name).Owns(object) {
			return &syncs[i]
		}
	}
	return nil
}

func find(syncs []v1alpha1.NodeSync, of owner) *v1alpha1.NodeSync {
	for i := range syncs {
		if syncs[i].UID == of.uid {
			return &syncs[i]
		}
	}
	return nil
}

// look adds to what NodeClaims say of themselves what is so as their deletion begins.
func (r *Recorder) look(ctx context.Context, all map[types.UID]ending) error {
	for uid, e := range all {
		p := r.pools[e.facts.Pool]
		if p.sync != nil && e.facts.Removing == "" {
			e.facts.Removing = removing(p.sync, e.facts)
		}
		if !e.looked {
			e.looked = true
			e.of = p.of
			e.facts.PoolGone = e.poolUID != "" && (p.ends || p.uid != e.poolUID)
			e.facts.Static = p.static
			if p.sync != nil {
				e.facts.Revision, e.facts.ByRevision = revisionOf(p.sync)
				if input := p.sync.Status.Rollout.InputOf(e.facts.Pool, e.facts.DriftReason, e.facts.Image); input != nil {
					e.facts.DriftInputs = input.Words()
				}
			}
			r.resume(&e)
			if e.facts.hurried() && e.facts.Gone.IsZero() {
				condition, err := r.repaired(ctx, e.facts)
				if err != nil {
					return err
				}
				e.facts.Condition = condition
			}
		}
		all[uid] = e
	}
	return nil
}

// resume takes up what an earlier leader has written of a NodeClaim.
func (r *Recorder) resume(e *ending) {
	b := r.books[e.of.NamespacedName]
	if b == nil {
		return
	}
	open, found := b.open[keyOf(e.facts.NodeClaim, e.facts.Created)]
	if !found {
		return
	}
	e.before, e.seq, e.numbered = &open.record, open.seq, true
	if open.record.Pods != nil {
		e.facts.Pods = open.record.Pods // of when more of them were there
	}
	delete(b.open, keyOf(e.facts.NodeClaim, e.facts.Created))
}

// revisionOf is the revision in force, and whether its rollout is under way.
func revisionOf(sync *v1alpha1.NodeSync) (revision string, rollout bool) {
	if rolls := sync.Status.Rollout; rolls != nil && rolls.Revision != "" {
		return rolls.Revision, true
	}
	return sync.Status.NewestAppliedRevision(), false
}

// noticed is how long after the first deletion it may be noted that a removal ends NodeClaims:
// status is saved at the end of a pass.
const noticed = 10 * time.Second

// removing is the revision of the removal that was ending the NodeClaims of a pool.
func removing(sync *v1alpha1.NodeSync, f Facts) string {
	for _, removal := range sync.Status.Removals {
		if removal.Kind != render.NodePool || removal.Name != f.Pool || f.Deleted.Before(&removal.RecordedAt) {
			continue
		}
		switch removal.Phase {
		case v1alpha1.RemovalHeld, v1alpha1.RemovalPacing:
		case v1alpha1.RemovalDraining:
			if !removal.Since.After(f.Deleted.Add(noticed)) {
				return removal.Revision
			}
		default:
			return removal.Revision
		}
	}
	return ""
}

// repairs are the conditions of a Node for which Karpenter repairs it, and after how long
// (karpenter-provider-aws pkg/cloudprovider/cloudprovider.go: RepairPolicies).
var repairs = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	after     time.Duration
}{
	{corev1.NodeReady, corev1.ConditionFalse, 30 * time.Minute},
	{corev1.NodeReady, corev1.ConditionUnknown, 30 * time.Minute},
	{"AcceleratedHardwareReady", corev1.ConditionFalse, 10 * time.Minute},
	{"StorageReady", corev1.ConditionFalse, 30 * time.Minute},
	{"NetworkingReady", corev1.ConditionFalse, 30 * time.Minute},
	{"KernelReady", corev1.ConditionFalse, 30 * time.Minute},
	{"ContainerRuntimeReady", corev1.ConditionFalse, 30 * time.Minute},
}

// repaired is the condition of a Node for which Karpenter has ended it; empty where there is none.
func (r *Recorder) repaired(ctx context.Context, f Facts) (string, error) {
	node := &corev1.Node{}
	if err := r.Uncached.Get(ctx, types.NamespacedName{Name: f.Node}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read the conditions of Node %s: %w", f.Node, err)
	}
	return unhealthy(node, f.Deleted.Time), nil
}

// unhealthy is the condition for which Karpenter would repair a Node at a time.
func unhealthy(node *corev1.Node, at time.Time) string {
	for _, c := range node.Status.Conditions {
		for _, repair := range repairs {
			if c.Type == repair.condition && c.Status == repair.status && !c.LastTransitionTime.Add(repair.after).After(at) {
				return fmt.Sprintf("%s=%s", c.Type, c.Status)
			}
		}
	}
	return ""
}
