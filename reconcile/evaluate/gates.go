package evaluate

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// SwitchedOff returns a sentence for each kind whose definitions in Git have no effect, because Karpenter's feature
// gate for the kind is off. No condition reports it: Karpenter does not read the objects. It also returns one for
// EC2NodeClasses of which Karpenter launches no node, because its feature gate for expressions is off.
func (s *DesiredStep) SwitchedOff(ctx context.Context) ([]string, error) {
	names := map[string][]string{}
	for i := range s.Set.Objects {
		ref := s.Set.Objects[i].Ref
		names[ref.Kind] = append(names[ref.Kind], ref.String())
	}
	ignored, err := ignored(func(kind string) bool { return len(names[kind]) > 0 }, func(kind render.Kind) (bool, error) {
		return s.off(ctx, kind.Gate, kind.GateValue())
	})
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
	blocked, err := s.expressionsOff(ctx)
	return append(sentences, blocked...), err
}

// ignoredThroughout returns which of the kinds that are used Karpenter ignores before and after the commit. While the
// controller in force has the gate, the objects decide about nodes, whatever the commit wants.
func (s *DesiredStep) ignoredThroughout(ctx context.Context, used func(kind string) bool) (map[string]bool, error) {
	return ignored(used, func(kind render.Kind) (bool, error) {
		if off, err := s.offInForce(ctx, kind.Gate); err != nil || !off {
			return false, err
		}
		return s.off(ctx, kind.Gate, kind.GateValue())
	})
}

// ignored returns which of the kinds that are used have a feature gate that is off.
func ignored(used func(kind string) bool, off func(render.Kind) (bool, error)) (map[string]bool, error) {
	ignored := map[string]bool{}
	for _, kind := range render.Kinds() {
		if !kind.Optional() || !used(kind.GVK.Kind) {
			continue
		}
		is, err := off(kind)
		if err != nil {
			return nil, err
		}
		ignored[kind.GVK.Kind] = is
	}
	return ignored, nil
}

// expressionsGate is the feature gate of Karpenter for expressions in spec.kubelet, which exists since 1.15
// (pkg/operator/options/options.go and charts/karpenter/values.yaml in karpenter-provider-aws, 1.15.0).
const expressionsGate = "NodeClassCEL"

// expressionsOff returns a sentence about the EC2NodeClasses in Git that have expressions, if Karpenter's feature gate
// for these is off.
func (s *DesiredStep) expressionsOff(ctx context.Context) ([]string, error) {
	var names []string
	for i := range s.Set.Objects {
		if o := &s.Set.Objects[i]; o.Ref.Kind == render.EC2NodeClass && render.HasExpressions(o.Desired) {
			names = append(names, o.Ref.String())
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	value := []string{"settings", "awsFeatureGates", "nodeClassCEL"}
	off, err := s.off(ctx, expressionsGate, value)
	if err != nil || !off {
		return nil, err
	}
	return []string{fmt.Sprintf("%s %s an expression in spec.kubelet, and Karpenter's feature gate %s is off, so that it launches no node: set %s: true in the chart's values",
		finding.Some(names), english.PluralWord(len(names), "has", "have"), expressionsGate, strings.Join(value, "."))}, nil
}

// off reports whether a feature gate is off, by the values with which plumbline installs the chart. If another tool
// installs it, or the charts are not changed, it is off if the controller's environment turns it off.
func (s *DesiredStep) off(ctx context.Context, gate string, value []string) (bool, error) {
	if s.Karpenter.Management == render.Managed && s.Charts != nil && s.NotUpgraded == nil {
		defaults, err := s.Charts.Values()
		if err != nil {
			return false, err
		}
		for _, values := range []map[string]any{s.Values.Merged, defaults} {
			if on, given := render.IsOn(values, value...); given {
				return !on, nil
			}
		}
		return true, nil // the chart of this version does not have the gate
	}
	return s.offInForce(ctx, gate)
}

// offInForce reports whether the environment of each controller in the cluster that has a feature gate turns it off.
func (s *DesiredStep) offInForce(ctx context.Context, gate string) (off bool, err error) {
	deployments, err := s.View.Controllers(ctx, s.Karpenter.Namespace)
	if err != nil {
		return false, unlessForbidden(err)
	}
	for i := range deployments {
		containers, err := s.View.Containers(ctx, &deployments[i])
		if err != nil {
			return false, unlessForbidden(err)
		}
		on, known := upgrade.FeatureGate(containers, gate)
		if on {
			return false, nil
		}
		off = off || known
	}
	return off, nil
}

// unlessForbidden drops the error of a user who may not read the controller.
func unlessForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
