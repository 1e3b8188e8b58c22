package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// reads answers a reconcile from the world, or from its caches.
type reads struct {
	client.Client // nil: no other methods are called
	*explored
	cached bool
}

const controller = "karpenter"

func (r reads) pools() *[mostPools + 1]int {
	if r.cached {
		return r.world.cachedPools()
	}
	return &r.world.pools
}

func (r reads) claims() *claims {
	if r.cached {
		return r.world.cachedClaims()
	}
	return r.world.claimsNow()
}

func absentObject(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
}

// Get returns what reconciles read by name.
func (r reads) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch into := object.(type) {
	case *unstructured.Unstructured:
		for p, number := range r.pools() {
			if into.GetKind() == kindOf(p) && number != nowhere && poolName(p) == key.Name {
				*into = *r.shelf.forms[number].object.DeepCopy()
				return nil
			}
		}
		return absentObject(key.Name)
	case *v1alpha1.NodeSync:
		*into = *r.world.nodeSync(r.cached)
		return nil
	case *corev1.ConfigMap:
		if len(r.world.record) == 0 {
			return absentObject(key.Name)
		}
		*into = *r.world.recorded()
		return nil
	case *coordinationv1.Lease:
		into.Spec.LeaseDurationSeconds, into.Spec.RenewTime = ptr.To(int32(15)), ptr.To(metav1.NewMicroTime(exploredNow))
		if r.world.lease {
			into.Spec.HolderIdentity = ptr.To(controller + "_1")
		}
		return nil
	case *appsv1.Deployment:
		into.Name = key.Name
		return nil
	}
	return fmt.Errorf("a pass gets a %T", object)
}

func (w *world) recorded() *corev1.ConfigMap {
	stored := configmap.New(w.nodeSync(false), RecordName("prod"))
	stored.UID, stored.ResourceVersion, stored.Data = "record", "1", maps.Clone(w.record)
	return stored
}

// List returns what reconciles list.
func (r reads) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := (&client.ListOptions{}).ApplyOptions(options)
	switch into := list.(type) {
	case *unstructured.UnstructuredList:
		for p, number := range r.pools()[:mostPools] {
			if into.GetKind() == kindOf(p) && number != nowhere {
				into.Items = append(into.Items, *r.shelf.forms[number].object.DeepCopy())
			}
		}
		return nil
	case *karpv1.NodeClaimList:
		for n, c := range r.claims()[:r.world.nodes()] {
			claim := r.world.nodeClaim(n, c)
			if there(c.claim) && (asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(claim.Labels))) {
				into.Items = append(into.Items, *claim)
			}
		}
		return nil
	case *corev1.PodList:
		if asked.Namespace == controller {
			into.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: controller}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
			return nil
		}
		into.Items = r.world.pods(asked.FieldSelector)
		return nil
	case *appsv1.DeploymentList:
		into.Items = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: controller, Namespace: controller}}}
		return nil
	}
	return fmt.Errorf("a pass lists a %T", list)
}

func (w *world) nodeClaim(n int, c seenClaim) *karpv1.NodeClaim {
	pool := poolName(w.of[n])
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(n), UID: types.UID(nodeName(n)), ResourceVersion: c.version(), CreationTimestamp: metav1.NewTime(exploredNow),
			// Without the label that its pool's requirements need, each node would count as drifted, and the guard
			// would hold most removals.
			Labels:          map[string]string{karpv1.NodePoolLabelKey: pool, karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeSpot},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: pool, UID: uidOf(pool, int(c.generation))}},
			Annotations:     map[string]string{karpv1.NodePoolHashAnnotationKey: "1"},
		},
	}
	class := "default"
	if w.of[n] == 0 {
		class = poolName(ownClass)
	}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass, Name: class}
	claim.Status.Conditions = c.conditions()
	if c.claim == named {
		claim.Status.ProviderID, claim.Status.NodeName = providerID(n), nodeName(n)
	}
	if c.deleting {
		claim.DeletionTimestamp = ptr.To(metav1.NewTime(exploredNow))
	}
	return claim
}

// pods returns those of one ReplicaSet, one on each node, and another for each evicted one.
func (w *world) pods(asked fields.Selector) (found []corev1.Pod) {
	pod := func(name string, phase corev1.PodPhase, node string, age int) {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(exploredNow.Add(-long * 2)),
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
		if age == 0 {
			p.CreationTimestamp = metav1.NewTime(exploredNow.Add(long))
		}
		if asked.Matches(fields.Set{"spec.nodeName": node, "status.phase": string(phase)}) {
			found = append(found, p)
		}
	}
	for n, s := range w.slots[:w.nodes()] {
		if s.claim == named && s.instance == running {
			pod("web-"+nodeName(n), corev1.PodRunning, nodeName(n), 1)
			if at := len(found) - 1; at >= 0 && w.stays[n] && found[at].Spec.NodeName == nodeName(n) {
				found[at].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			}
		}
		if s.pending {
			pod("web-instead-of-"+nodeName(n), corev1.PodPending, "", 0)
		}
	}
	return found
}

// Instances returns EC2's response.
func (r reads) Instances(_ context.Context, query cloud.Query) ([]cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
	if !r.world.answers {
		return nil, fmt.Errorf("AWS throttles ec2:DescribeInstances")
	}
	var found []cloud.Instance
	states := map[uint8]string{running: "running", shuttingDown: "shutting-down", terminated: "terminated"}
	for n := range r.world.of {
		s, pool := &r.world.slots[n], poolName(r.world.of[n])
		state, listed := states[s.instance]
		if !listed || s.hidden || !slices.Contains(query.Pools, pool) && !slices.Contains(query.ProviderIDs, providerID(n)) {
			continue
		}
		if s.lags {
			state, s.lags = "running", false
		}
		_, id, err := cloud.ParseProviderID(providerID(n))
		if err != nil {
			return nil, err
		}
		found = append(found, cloud.Instance{ID: id, Zone: "eu-west-1a", State: state, Pool: pool})
	}
	return found, nil
}

func (reads) TerminationProtected(context.Context, string) (bool, error) { return false, nil }

// removalOf returns the open removal of a pool's object; nil if there is none.
func removalOf(removals []v1alpha1.Removal, uid types.UID) *v1alpha1.Removal {
	for i := range removals {
		if removals[i].UID == uid {
			return &removals[i]
		}
	}
	return nil
}
