package conclude

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// save writes the finalizer and the status, each only where it changed. The
// status goes with the resourceVersion it was made from: it is the record of
// removals, and a stale pass must not overwrite one.
func (s *Step) save(ctx context.Context) error {
	if !equality.Semantic.DeepEqual(s.stored().Finalizers, s.Sync.Finalizers) {
		after := s.stored().DeepCopy()
		after.Finalizers = s.Sync.Finalizers
		if err := s.Client.Patch(ctx, after, s.patch()); err != nil {
			return s.stale(err)
		}
		s.written(after)
		if !controllerutil.ContainsFinalizer(after, v1alpha1.Finalizer) {
			return nil
		}
	}
	return s.stale(s.writeStatus(ctx))
}

// writeStatus writes the status where it has changed.
func (s *Step) writeStatus(ctx context.Context) error {
	status := s.Sync.Status.DeepCopy()
	if equality.Semantic.DeepEqual(&s.stored().Status, status) {
		return nil
	}
	after := s.stored().DeepCopy()
	after.Status = *status
	if err := s.Client.Status().Patch(ctx, after, s.patch()); err != nil {
		s.Meter.Unwritten(s.name(), err)
		return err
	}
	s.written(after)
	return nil
}

// stored is the NodeSync as the API server has it, as far as this pass knows.
func (s *Step) stored() *v1alpha1.NodeSync { return cmp.Or(s.Stored, s.Before) }

func (s *Step) patch() client.Patch {
	return client.MergeFromWithOptions(s.stored(), client.MergeFromWithOptimisticLock{})
}

// written notes what the API server has now.
func (s *Step) written(after *v1alpha1.NodeSync) {
	s.Saves++
	s.Stored, s.Memory.Saved = after, after.ResourceVersion
	s.Sync.ResourceVersion = after.ResourceVersion
}

// stale turns a lost race into another look: no status was written. Events about what the
// pass has written to the cluster are kept.
func (s *Step) stale(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		s.Fault = fault.Classify(err)
		s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return !n.Written })
		return nil
	}
	return err
}
