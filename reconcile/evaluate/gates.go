package evaluate

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// SwitchedOff returns a sentence for each kind whose definitions in Git have no effect, because Karpenter's feature
// gate for the kind is off. No condition reports it: Karpenter does not read the objects.
func (s *DesiredStep) SwitchedOff(ctx context.Context) ([]string, error) {
	names := map[string][]string{}
	for i := range s.Set.Objects {
		ref := s.Set.Objects[i].Ref
		names[ref.Kind] = append(names[ref.Kind], ref.String())
	}
	ignored, err := s.ignored(ctx, func(kind string) bool { return len(names[kind]) > 0 })
	if err != nil {
		return nil, err
	}
	var sentences []string
	for _, kind := range render.Kinds() {
		if of := names[kind.GVK.Kind]; ignored[kind.GVK.Kind] {
			sentences = append(sentences, fmt.Sprintf("%s %s no effect: Karpenter's feature gate %s is off: set %s: true in the chart's values",
				finding.Some(of), english.PluralWord(len(of), "has", "have"), kind.Gate, strings.Join(kind.GateValue(), ".")))
		}
	}
	return sentences, nil
}

// ignored returns which of the kinds that are used Karpenter ignores, because their feature gate is off.
func (s *DesiredStep) ignored(ctx context.Context, used func(kind string) bool) (map[string]bool, error) {
	ignored := map[string]bool{}
	for _, kind := range render.Kinds() {
		if !kind.Optional() || !used(kind.GVK.Kind) {
			continue
		}
		off, err := s.gateOff(ctx, kind)
		if err != nil {
			return nil, err
		}
		ignored[kind.GVK.Kind] = off
	}
	return ignored, nil
}

// gateOff reports whether the feature gate of a kind is off, by the values with which plumbline installs the chart. If
// another tool installs it, or the charts are not changed, it is off if the controller's environment turns it off.
func (s *DesiredStep) gateOff(ctx context.Context, kind render.Kind) (bool, error) {
	if s.Karpenter.Management == render.Managed && s.Charts != nil && s.NotUpgraded == nil {
		defaults, err := s.Charts.Values()
		if err != nil {
			return false, err
		}
		for _, values := range []map[string]any{s.Values.Merged, defaults} {
			if on, known, err := unstructured.NestedBool(values, kind.GateValue()...); err == nil && known {
				return !on, nil
			}
		}
		return true, nil // the chart of this version does not have the gate
	}
	deployments, err := s.View.Controllers(ctx, s.Karpenter.Namespace)
	if err != nil {
		return false, unlessForbidden(err)
	}
	for i := range deployments {
		containers, err := s.View.Containers(ctx, &deployments[i])
		if err != nil {
			return false, unlessForbidden(err)
		}
		if on, known := upgrade.FeatureGate(containers, kind.Gate); known {
			return !on, nil
		}
	}
	return false, nil
}

// unlessForbidden drops the error of a user who may not read the controller.
func unlessForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
