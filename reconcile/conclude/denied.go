package conclude

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// denied says whether a write was refused whatever is in it: by a policy, a webhook or a
// role of the cluster.
func denied(err error) bool { return apierrors.IsForbidden(err) || fault.Unstorable(err) }

// reportUnsaved reports, where that can be done without the status, that no status could be
// written: the one of an earlier pass stands there, and would be believed. An annotation
// tells the CLI, an event and the commit status people.
func (s *Step) reportUnsaved(ctx context.Context, refused error) {
	s.Fault = fault.StatusNotWritten(fmt.Errorf(
		"the API server denies each write of this NodeSync's status, which is that of an earlier pass: let the daemon patch nodesyncs/status: %s",
		finding.Bounded(s.Memory.Hide(refused.Error()), maxRemovalMessage)))
	s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return !n.Written })
	s.WakeAt = s.Began.Add(s.Sync.GetRetryInterval())
	s.Sync.Status = *s.Before.Status.DeepCopy()
	s.report(ctx)
	conditions.MarkFalse(s.Sync, meta.ReadyCondition, s.Fault.Reason, "%s", s.Fault.Error())
	err := s.mark(ctx, s.Fault.Error())
	if err == nil {
		s.dropStandIn(ctx)
		return
	}
	message := fmt.Sprintf("the NodeSync could not be annotated with %s either: %v", v1alpha1.StatusNotWrittenAnnotation, err)
	if err := s.writeStandIn(ctx, s.Fault.Error()); err != nil {
		message += fmt.Sprintf("; and nothing tells `plumbline status` so: %v", err)
	}
	s.Warn(s.Fault.Reason, message)
}

// unmark takes the annotation off, and the stand-in away, once the status tells the truth
// again. What fails is tried again in the next pass.
func (s *Step) unmark(ctx context.Context) {
	if s.Finished || s.superseded() {
		return
	}
	if _, marked := s.stored().Annotations[v1alpha1.StatusNotWrittenAnnotation]; marked && s.mark(ctx, "") != nil {
		return
	}
	s.dropStandIn(ctx)
}

// mark writes the annotation, or takes it off where there is nothing to say.
func (s *Step) mark(ctx context.Context, message string) error {
	if s.stored().Annotations[v1alpha1.StatusNotWrittenAnnotation] == message && message != "" {
		return nil
	}
	var value any
	if message != "" {
		value = message
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.StatusNotWrittenAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("encode the annotation %s: %w", v1alpha1.StatusNotWrittenAnnotation, err)
	}
	after := s.stored().DeepCopy()
	if err := s.Client.Patch(ctx, after, client.RawPatch(types.MergePatchType, body)); err != nil {
		return err
	}
	s.written(after)
	return nil
}
