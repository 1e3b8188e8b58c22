package conclude

import (
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
	if !equality.Semantic.DeepEqual(s.Before.Finalizers, s.Sync.Finalizers) {
		patch := client.MergeFromWithOptions(s.Before, client.MergeFromWithOptimisticLock{})
		meta := s.Before.DeepCopy()
		meta.Finalizers = s.Sync.Finalizers
		if err := s.Client.Patch(ctx, meta, patch); err != nil {
			return s.stale(err)
		}
		s.Saves++
		if !controllerutil.ContainsFinalizer(meta, v1alpha1.Finalizer) {
			return nil
		}
		s.Before.ResourceVersion = meta.ResourceVersion
		s.Sync.ResourceVersion = meta.ResourceVersion
		s.Memory.Saved = meta.ResourceVersion
	}
	return s.stale(s.writeStatus(ctx))
}

// writeStatus writes the status where it has changed.
func (s *Step) writeStatus(ctx context.Context) error {
	status := s.Sync.Status.DeepCopy()
	if equality.Semantic.DeepEqual(&s.Before.Status, status) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.Before, client.MergeFromWithOptimisticLock{})
	after := s.Before.DeepCopy()
	after.Status = *status
	if err := s.Client.Status().Patch(ctx, after, patch); err != nil {
		s.Meter.Unwritten(s.name(), err)
		return err
	}
	s.Saves++
	s.Memory.Saved = after.ResourceVersion
	return nil
}

// stale turns a lost race into another look: no status was written. Events about what the
// pass has written to the cluster are kept.
func (s *Step) stale(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		s.Fault = &fault.Error{Class: fault.Superseded, Reason: "Conflict", Err: err}
		s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return !n.Written })
		return nil
	}
	return err
}
