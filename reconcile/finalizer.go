package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// addFinalizer comes before anything that a deletion would have to undo.
func (p *pass) addFinalizer(context.Context) error {
	controllerutil.AddFinalizer(p.sync, v1alpha1.Finalizer)
	p.Wait("finalizer", "taking charge")
	p.wakeNow()
	return nil
}

// notWatched refuses a NodeSync of another namespace: its Secrets must not be
// read.
func (p *pass) notWatched() { p.Elsewhere = true }
