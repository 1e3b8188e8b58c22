package watch

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// approvalType is how a watch of Approvals describes itself.
var approvalType = fmt.Sprintf("%T", &v1alpha1.Approval{})

// listenToApprovals watches Approvals where their CRD is served, and ends that watch where it no
// longer is. A new daemon may run with the CRDs or the roles of an older one: no pass waits for this one.
func (w *Watches) listenToApprovals(ctx context.Context) (filled bool, err error) {
	approvals := []watched{{&v1alpha1.Approval{}, w.Wakes.OnApproval, nil}}
	if w.Home.Cache != w.Nodes.Cache {
		if err := w.begin(&w.home, w.Home, []watched{w.crds()}); err != nil {
			return false, err
		}
	}
	served, err := w.approvalsServed(ctx)
	if err != nil {
		return false, err
	}
	if !served {
		w.Refusals.Forget(approvalType)
		return true, w.end(ctx, &w.approvals, w.Home, approvals)
	}
	if !w.approvals {
		if unlisted, err := w.unlisted(w.Home, &v1alpha1.Approval{}); unlisted != nil || err != nil {
			return true, err
		}
	}
	if err := w.begin(&w.approvals, w.Home, approvals); err != nil {
		return false, err
	}
	if w.refusesApprovals() {
		return true, nil // ServesApprovals says it, and nothing waits for them
	}
	return w.Home.filled(ctx, approvals)
}

// refusesApprovals says whether the API server refuses the watch.
func (w *Watches) refusesApprovals() bool {
	refused, _ := w.Refusals.Apart(approvalType)
	return refused != nil
}

// ServesApprovals says whether Approvals are watched: they can be read from the cache then. refused is
// why they are not although they are served: the roles are those of an older plumbline.
func (w *Watches) ServesApprovals() (serves bool, refused error) {
	if w == nil {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.approvals {
		refused, _ = w.Refusals.Apart(approvalType)
	}
	return w.approvals && refused == nil, refused
}

// approvalsServed says whether the CRD of Approvals is served.
func (w *Watches) approvalsServed(ctx context.Context) (bool, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := w.Wakes.Cached.Get(ctx, client.ObjectKey{Name: v1alpha1.ApprovalCRD}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read crd %s: %w", v1alpha1.ApprovalCRD, err)
	}
	return observe.Serves(crd, v1alpha1.GroupVersion.WithKind(v1alpha1.ApprovalKind)).Ready, nil
}
