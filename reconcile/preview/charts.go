package preview

import (
	"context"
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// resolve finds the charts, and the schema that definitions are checked against.
func (s *Step) resolve(ctx context.Context) error {
	refused, err := s.wanting.ResolveSchema(ctx, func() (error, error) { return s.charts().Refused() })
	s.out.ChartsRefused = refused
	switch unpulled := s.out.Unpulled; {
	case err != nil && OutOfReach(err):
		s.unknown("what the charts of Karpenter %s say of this commit is not known here: %v", s.out.Karpenter.Version, err)
		return s.takeKnownSchema(ctx)
	case err != nil:
		return err
	case unpulled != nil && OutOfReach(unpulled):
		s.unknown("what the charts of Karpenter %s say of this commit is not known here: %v", s.out.Karpenter.Version, unpulled)
	case unpulled != nil:
		s.out.ChartsRefused = unpulled
	}
	return nil
}

// unknown warns that nobody can say here what becomes of the charts.
func (s *Step) unknown(format string, args ...any) {
	s.out.ChartsUnknown, s.out.VersionChanges = true, s.versionChanges()
	s.warn(format, args...)
}

// versionChanges says from which version of Karpenter to which other one the commit leads; empty where it does not.
func (s *Step) versionChanges() string {
	if k := s.sync.Status.Karpenter; k != nil && k.Version != "" && k.Version != s.out.Karpenter.Version {
		return k.Version + " to " + s.out.Karpenter.Version
	}
	return ""
}

// takeKnownSchema takes a schema where that of the charts is out of reach: that of the live
// CRDs, unless the commit changes the version and the CRDs of the new one are at hand.
func (s *Step) takeKnownSchema(ctx context.Context) error {
	var names []string
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	live, err := s.view.CRDs(ctx, names)
	if err != nil {
		return &readError{err}
	}
	if len(live) < len(names) || s.versionChanges() != "" {
		var known []*apiextensionsv1.CustomResourceDefinition
		if known, err = s.CRDs(s.out.Karpenter.Version); err == nil {
			live = known
		}
	}
	if len(live) < len(names) {
		return &readError{errors.Join(errors.New("no CRDs to check the definitions against: give those of the version in Git with --crds DIR"), err)}
	}
	s.out.Schema, err = schema.New(live)
	return err
}

// changeCharts finds out whether the charts are changed. Where they are not, and a release is
// in force, the steps before this one are taken again by that.
func (s *Step) changeCharts(ctx context.Context) error {
	s.sync.Status.Karpenter = s.out.Fixed(s.sync.Status.Karpenter)
	if s.out.chartsAreRefused() {
		return nil
	}
	why := s.charts().WhyNot(ctx)
	switch {
	case why == nil:
		var err error
		s.out.ChartsChange, err = s.charts().Change()
		return err
	case OutOfReach(why):
		s.unknown("whether the charts can be changed is not known here: %v", why)
		return nil
	case !install.InForce(s.sync.Status.Karpenter, why):
		s.out.Plan = nil
		return why
	}
	s.wanting.NotUpgraded = why
	if install.IsFrozen(why) {
		s.out.ChartsChange = why.Error()
	} else {
		s.out.ChartsRefused = why
	}
	if err := s.wanting.TakeSchemaInForce(ctx); err != nil {
		return s.own(err)
	}
	if err := s.render(ctx); err != nil {
		s.out.Plan = nil
		return err
	}
	return s.makePlan(ctx)
}

// charts is the work on the charts.
func (s *Step) charts() *install.Step {
	return &install.Step{
		Tools: install.Tools{Helm: s.Helm, Schemas: s.wanting.Schemas},
		Wanted: install.Wanted{
			Karpenter: s.out.Karpenter, Charts: s.out.Charts, Values: s.out.Values, Permit: s.wanting.Permit,
			Revision: s.Snapshot.Revision, Set: s.out.Set, Serving: s.out.Serving, Older: s.setBack, Frozen: s.out.Plan.FrozenNow(),
		},
		Sync: s.sync, View: s.view, Live: s.out.Live, Memory: &install.Memory{},
		Now: s.Now, Timeout: s.wanting.Timeout, Retry: s.wanting.Retry,
	}
}
