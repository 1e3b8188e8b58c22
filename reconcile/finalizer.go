package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// addFinalizer comes before anything that a deletion would have to undo.
func (p *pass) addFinalizer(context.Context) error {
	controllerutil.AddFinalizer(p.sync, v1alpha1.Finalizer)
	p.waitFor("finalizer", "taking charge")
	p.wakeNow()
	return nil
}

// notWatched refuses a NodeSync of another namespace: its Secrets must not be
// read.
func (p *pass) notWatched() { p.elsewhere = true }

// someRefs names the first few objects and counts the rest.
func someRefs(refs []render.Ref) string {
	names := make([]string, 0, len(refs))
	for _, ref := range refs {
		names = append(names, ref.String())
	}
	return someOf(names)
}
