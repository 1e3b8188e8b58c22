package cluster

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Definitions reads the definitions from a watch cache, and reuses those that it has read before if they are still at
// the same address: the cache's objects are read-only, so an object at the same address is unchanged. The zero value
// has read none; all reconciles share one.
type Definitions struct {
	mu    sync.Mutex
	known map[fields]*plan.Object
}

// fields is the address of an object's fields: two lists from the cache share them, and nothing else. A known Object
// keeps its fields alive, so that nothing else can reuse the address.
type fields = unsafe.Pointer

// Unserved reports whether an error means that the API server does not serve an optional kind, which not every version of
// Karpenter has.
func Unserved(kind render.Kind, err error) bool {
	return kind.Optional() && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err))
}

// read adds the definitions of some kinds to live, by name. Those of optional kinds that the reader's user may not list
// are unreadable, and of those of EKS Auto Mode only the names are kept. A nil Definitions remembers nothing.
func (d *Definitions) read(ctx context.Context, reader client.Reader, kinds []render.Kind, live *plan.Live) error {
	known := d.last()
	next := make(map[fields]*plan.Object, len(known))
	live.Objects = make(map[render.Ref]*plan.Object, len(known))
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GVK)
		err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
		if Unserved(kind, err) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("read the %ss: %w", kind.GVK.Kind, err)
		}
		if kind.Optional() && apierrors.IsForbidden(err) {
			if live.Unreadable == nil {
				live.Unreadable = map[string]error{}
			}
			live.Unreadable[kind.GVK.Kind] = err
			continue
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			if render.OfAutoMode(&list.Items[i]) {
				live.AutoMode = append(live.AutoMode, list.Items[i].GetName())
				continue
			}
			at := fields(reflect.ValueOf(list.Items[i].Object).UnsafePointer())
			object, found := known[at]
			if !found {
				// Not a pointer into the list, which would keep the whole list alive.
				object = plan.NewObject(&unstructured.Unstructured{Object: list.Items[i].Object})
			}
			next[at], live.Objects[render.RefTo(kind.GVK.Kind, object)] = object, object
		}
	}
	slices.Sort(live.AutoMode)
	d.keep(next)
	return nil
}

func (d *Definitions) last() map[fields]*plan.Object {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

func (d *Definitions) keep(next map[fields]*plan.Object) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = next
}

// Live is like Definitions.Live, for callers that read only once.
func Live(ctx context.Context, reader client.Reader) (plan.Live, error) {
	return (*Definitions)(nil).Live(ctx, reader, render.Kinds())
}

// Live reads the live objects: all definitions of some kinds, of any owner, and the NodeClaims, without those that EKS
// Auto Mode manages. The CRDs must be served, except those of optional kinds. The objects belong to the cache and must
// not be changed.
func (d *Definitions) Live(ctx context.Context, reader client.Reader, kinds []render.Kind) (live plan.Live, err error) {
	if err := d.read(ctx, reader, kinds, &live); err != nil {
		return live, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return live, fmt.Errorf("read the NodeClaims: %w", err)
	}
	live.NodeClaims = make([]plan.NodeClaim, 0, len(claims.Items))
	for i := range claims.Items {
		if !ofAutoMode(&claims.Items[i]) {
			live.NodeClaims = append(live.NodeClaims, NodeClaim(&claims.Items[i]))
		}
	}
	return live, nil
}

// ofAutoMode reports whether EKS Auto Mode manages a NodeClaim.
func ofAutoMode(claim *karpv1.NodeClaim) bool {
	return claim.Spec.NodeClassRef != nil && render.ClassOfAutoMode(claim.Spec.NodeClassRef.Group)
}

// NodeClaim returns the parts of a NodeClaim that a Plan uses.
func NodeClaim(claim *karpv1.NodeClaim) plan.NodeClaim {
	n := plan.NodeClaim{
		Name:        claim.Name,
		UID:         claim.UID,
		Pool:        claim.Labels[karpv1.NodePoolLabelKey],
		ProviderID:  claim.Status.ProviderID,
		Image:       claim.Status.ImageID,
		Node:        claim.Status.NodeName,
		Deleting:    claim.DeletionTimestamp != nil,
		Disrupted:   holds(claim, karpv1.ConditionTypeDisruptionReason),
		DriftReason: whyDrifted(claim),
		Labels:      labelsOf(claim),
		Hashes:      hashesOf(claim),
		Created:     claim.CreationTimestamp.Time,
		Launch:      conditionAfter(claim, karpv1.ConditionTypeInitialized),
		Initialized: claim.Status.NodeName != "" && !uninitialized(claim),
	}
	n.Drifted = n.DriftReason != ""
	if grace := claim.Spec.TerminationGracePeriod; grace != nil {
		n.TerminationGracePeriod = plan.Short(grace.Duration)
	}
	if n.Deleting {
		n.Deleted = claim.DeletionTimestamp.Time
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == render.NodePool {
			n.PoolUID = owner.UID
		}
	}
	if claim.Spec.NodeClassRef != nil {
		n.Class = claim.Spec.NodeClassRef.Name
	}
	return n
}

// whyDrifted returns Karpenter's reason why a NodeClaim is drifted; empty if it is not.
func whyDrifted(claim *karpv1.NodeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
			return cmp.Or(c.Reason, karpv1.ConditionTypeDrifted)
		}
	}
	return ""
}

// holds reports whether a condition of a NodeClaim is True. DisruptionReason is True if Karpenter itself has disrupted
// it (sigs.k8s.io/karpenter pkg/controllers/disruption/queue.go).
func holds(claim *karpv1.NodeClaim, condition string) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == condition {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// ChartedKinds returns the kinds of the objects of Karpenter's main chart, besides its Deployment
// (charts/karpenter/templates in karpenter-provider-aws). All of them have ControllerLabels. ServiceMonitors are not
// watched, because not every cluster serves them.
func ChartedKinds() []schema.GroupVersionKind {
	kind := func(group, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	}
	return []schema.GroupVersionKind{
		kind("", "Service"),
		kind("", "ServiceAccount"),
		kind("policy", "PodDisruptionBudget"),
		kind("rbac.authorization.k8s.io", "ClusterRole"),
		kind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
		kind("rbac.authorization.k8s.io", "Role"),
		kind("rbac.authorization.k8s.io", "RoleBinding"),
	}
}

// Charted returns an object for watching one of ChartedKinds, of which the cache keeps only metadata.
func Charted(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// Version returns the same text for two reads of an object if nobody has written to it in between, except to its
// status. Kinds without generations have no status that is updated frequently.
func Version(object client.Object) string {
	written := object.GetResourceVersion()
	if generation := object.GetGeneration(); generation != 0 {
		written = strconv.FormatInt(generation, 10)
	}
	return fmt.Sprintf("%s/%s/%s/%t/%v/%v", object.GetName(), object.GetUID(), written, object.GetDeletionTimestamp() != nil, object.GetLabels(), object.GetAnnotations())
}

// Rewritten admits the events of an object that change its Version.
func Rewritten() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return Version(e.ObjectOld) != Version(e.ObjectNew)
	}}
}

// Claim is the part of a NodeClaim that a change of Karpenter may affect.
type Claim struct {
	NodeClaim, Node, Pool string
	Created               metav1.Time
	// Terminating reports whether it is being deleted, and TerminatingSince since when.
	Terminating      bool
	TerminatingSince metav1.Time
	// Drifted is why Karpenter considers it drifted, and Since since when; empty if it does not.
	Drifted string
	Since   metav1.Time
}

// Claims returns all NodeClaims of Karpenter, without those of EKS Auto Mode.
func Claims(ctx context.Context, reader client.Reader) ([]Claim, error) {
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read which NodeClaims are drifted: %w", err)
	}
	found := make([]Claim, 0, len(claims.Items))
	for i := range claims.Items {
		claim := &claims.Items[i]
		if ofAutoMode(claim) {
			continue
		}
		one := Claim{
			NodeClaim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
			Created: claim.CreationTimestamp, Terminating: claim.DeletionTimestamp != nil,
		}
		if one.Terminating {
			one.TerminatingSince = *claim.DeletionTimestamp
		}
		for _, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue {
				one.Drifted, one.Since = c.Reason, c.LastTransitionTime
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// maxCounted limits the nodes whose pods are counted for one plan, because each needs its own request.
const maxCounted = 100

// Loads reads what Karpenter's consolidation, or its choice in a static pool, considers about nodes, without the watch
// cache, which does not keep it. It omits what cannot be read, and the pods of more than maxCounted nodes: such a node may
// be consolidated.
func Loads(reader client.Reader, now time.Time) plan.ReadLoads {
	return func(ctx context.Context, questions []plan.LoadQuestion) map[types.UID]plan.Load {
		found, counted := map[types.UID]plan.Load{}, 0
		for _, q := range questions {
			claims := &karpv1.NodeClaimList{}
			if err := reader.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: q.Pool}); err != nil {
				continue
			}
			asked := map[types.UID]bool{}
			for _, claim := range q.Claims {
				asked[claim.UID] = true
			}
			for i := range claims.Items {
				claim := &claims.Items[i]
				if !asked[claim.UID] {
					continue
				}
				load := loadOf(claim)
				if q.Pods && counted < maxCounted {
					counted++
					load.Pods, load.Counted = countPods(ctx, reader, claim.Status.NodeName)
				}
				if q.Deprovision && counted < maxCounted {
					counted++
					load.Deprovision = deprovision(ctx, reader, claim, now)
				}
				found[claim.UID] = load
			}
		}
		return found
	}
}

// loadOf returns the load of a NodeClaim: if it has no last pod event, the time of its initialization counts
// (sigs.k8s.io/karpenter pkg/utils/disruption/disruption.go, IsUnderConsolidateAfter, 1.14.1).
func loadOf(claim *karpv1.NodeClaim) plan.Load {
	load := plan.Load{Consolidatable: holds(claim, karpv1.ConditionTypeConsolidatable), PodEvent: claim.Status.LastPodEventTime.Time}
	if load.PodEvent.IsZero() {
		for _, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeInitialized {
				load.PodEvent = c.LastTransitionTime.Time
			}
		}
	}
	return load
}

// countPods counts the pods of a node that would have to be rescheduled; ok reports whether they could be read.
func countPods(ctx context.Context, reader client.Reader, node string) (n int, ok bool) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return 0, false
	}
	for i := range pods.Items {
		if podutils.IsReschedulable(&pods.Items[i]) {
			n++
		}
	}
	return n, true
}
