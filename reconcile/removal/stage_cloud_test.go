package removal

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// launch adds a NodeClaim and its instance to a pool.
func (s *stage) launch(name, poolName string, poolUID types.UID) {
	s.t.Helper()
	id := "i-" + name
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Finalizers: []string{karpenterFinalizer},
			Labels:          map[string]string{karpv1.NodePoolLabelKey: poolName},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: poolName, UID: poolUID}},
		},
		Spec:   karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass, Name: "default"}},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///eu-west-1a/" + id, NodeName: "node-" + name},
	}
	if err := s.client.Create(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	s.instances[id] = cloud.Instance{ID: id, Zone: "eu-west-1a", State: "running", Pool: poolName}
}

func (s *stage) claims() []karpv1.NodeClaim {
	list := &karpv1.NodeClaimList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// karpenter removes the terminating NodeClaims, and sets their instances to a state.
func (s *stage) karpenter(state string) {
	s.t.Helper()
	claims := s.claims()
	for i := range claims {
		if claims[i].DeletionTimestamp.IsZero() {
			continue
		}
		_, id, err := cloud.ParseProviderID(claims[i].Status.ProviderID)
		if err != nil {
			s.t.Fatal(err)
		}
		s.become(id, state)
		claims[i].Finalizers = nil
		if err := s.client.Update(s.t.Context(), &claims[i]); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) become(id, state string) {
	instance := s.instances[id]
	instance.State = state
	s.instances[id] = instance
}

// Instances returns EC2's response.
func (s *stage) Instances(_ context.Context, q cloud.Query) ([]cloud.Instance, error) {
	s.questions++
	if s.silence != nil {
		var shown []cloud.Instance
		for _, id := range s.shown {
			shown = append(shown, s.instances[id])
		}
		return shown, s.silence
	}
	var found []cloud.Instance
	for id, i := range s.instances {
		if slices.Contains(q.Pools, i.Pool) || slices.Contains(q.ProviderIDs, i.ProviderID()) {
			found = append(found, s.instances[id])
		}
	}
	slices.SortFunc(found, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

// find records a removal in the status, like the reconcile that finds it.
func (s *stage) find(kind, name string, uid types.UID) {
	s.t.Helper()
	at := metav1.NewTime(s.now)
	s.sync.Status.Removals = append(s.sync.Status.Removals, v1alpha1.Removal{
		Kind: kind, Name: name, UID: uid, Phase: v1alpha1.RemovalPacing, RecordedAt: at, Since: at, LastProgress: at,
	})
	s.write()
}

// TerminationProtected returns EC2's response about the instances that the test protects.
func (s *stage) TerminationProtected(_ context.Context, providerID string) (bool, error) {
	return s.protected[providerID], nil
}
