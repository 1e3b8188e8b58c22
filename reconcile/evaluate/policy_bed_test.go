package evaluate

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

const namespace = "plumbline-system"

// nodeSync returns a NodeSync that follows a branch.
func nodeSync(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", UID: "11", Generation: 1},
		Spec: v1alpha1.NodeSyncSpec{
			Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
			Path:   "./prod",
		},
	}
	change(sync)
	return sync
}

func unchanged(*v1alpha1.NodeSync) {}

// another returns a second NodeSync, on the same repository.
func another(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	return nodeSync(func(n *v1alpha1.NodeSync) {
		n.Name, n.UID = "gpu", "22"
		change(n)
	})
}

// planStep returns the planning step of a first reconcile.
func planStep(sync *v1alpha1.NodeSync) *PlanStep {
	return &PlanStep{
		PlanTools: PlanTools{Registry: &Registry{}, Namespace: namespace, Reconciles: func(*v1alpha1.NodeSync) bool { return true }, ServesApprovals: func() (bool, error) { return true, nil }, Fetch: func(types.NamespacedName, time.Time) {}},
		Memory:    &PlanMemory{}, Sync: sync, Before: sync.Status,
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Retry: time.Minute,
		Hosts: func(context.Context, []plan.NodeClaim) ([]plan.Host, error) { return nil, nil },
		DaemonSets: func(context.Context, []plan.NodeClaim) (plan.DaemonSets, time.Time) {
			return plan.DaemonSets{}, time.Time{}
		},
		Order: func(string) source.Order { return source.OrderNewer }, ChangesCharts: func() bool { return false },
	}
}
