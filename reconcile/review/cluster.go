package review

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
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

// versionChanges says from which version of Karpenter to which other one the commit leads; empty if it does not.
func (s *Step) versionChanges() string {
	if k := s.sync.Status.Karpenter; k != nil && k.Version != "" && k.Version != s.out.Karpenter.Version {
		return k.Version + " to " + s.out.Karpenter.Version
	}
	return ""
}

// takeKnownSchema takes a schema where that of the charts is out of reach: that of the live
// CRDs, unless the commit changes the version and the CRDs of the new one are available.
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
	case !upgrade.StaysInForce(s.sync.Status.Karpenter, why):
		s.out.Plan = nil
		return why
	}
	s.wanting.NotUpgraded = why
	if upgrade.IsFrozen(why) {
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
func (s *Step) charts() *upgrade.Step {
	return &upgrade.Step{
		Tools: upgrade.Tools{Helm: s.Helm, Schemas: s.wanting.Schemas},
		Wanted: upgrade.Wanted{
			Karpenter: s.out.Karpenter, Charts: s.out.Charts, Values: s.out.Values, Permit: s.wanting.Permit,
			Revision: s.Snapshot.Revision, Set: s.out.Set, Serving: s.out.Serving, Older: s.setBack, Frozen: s.out.Plan.FrozenNow(),
		},
		Sync: s.sync, View: s.view, Live: s.out.Live, Memory: &upgrade.Memory{},
		Now: s.Now, Timeout: s.wanting.Timeout, Retry: s.wanting.Retry,
	}
}

// ownRights are those of a person who reads a Secret: it needs no annotation to be used.
var ownRights = grant.Policy{Unannotated: true}

// grants are the daemon's, or a person's.
func (s *Step) grants() grant.Policy {
	if s.Grants != nil {
		return *s.Grants
	}
	return ownRights
}

// WithheldError reports that something is not read for a commit whose author is not trusted.
type WithheldError struct{ What string }

// Error names what is not read.
func (e *WithheldError) Error() string {
	return e.What + " is not read for a pull request from a fork"
}

// OutOfReach reports whether an error is of what the person who asks may or can read, and not of
// the commit: the daemon has other rights and another network.
func OutOfReach(err error) bool {
	var withheld *WithheldError
	if errors.As(err, &withheld) {
		return true
	}
	var unreachable *charts.UnreachableError
	var refused *charts.AuthError
	var untrusted *charts.CertificateError
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		errors.As(err, &unreachable) || errors.As(err, &refused) || errors.As(err, &untrusted)
}

// secret reads a Secret of the NodeSync's namespace.
func (s *Step) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	if s.Withheld {
		return nil, &WithheldError{"secret " + name}
	}
	secret := &corev1.Secret{}
	return secret, s.Client.Get(ctx, client.ObjectKey{Namespace: s.sync.Namespace, Name: name}, secret)
}

// labelled reads what holds values of the chart.
func (s *Step) labelled(context.Context) (reader client.Reader, listed func() time.Duration, err error) {
	if s.Withheld {
		return nil, nil, &WithheldError{"what valuesFrom names"}
	}
	return s.Client, func() time.Duration { return 0 }, nil
}

// seeVanished finds the NodePools that were applied and that another client has deleted.
func (s *Step) seeVanished(ctx context.Context) {
	if !s.out.Live.Served {
		return
	}
	record, err := apply.LoadRecord(ctx, s.Client, s.sync)
	if err == nil {
		s.out.Live.Recorded = record.Record.Objects
		s.recordLost = removal.RecordLost(record, plan.OwnerOf(s.sync.Namespace, s.sync.Name), s.out.Live, s.out.Set)
		s.out.Live.Vanished, err = removal.Vanished(ctx, s.Nodes, record.Record, s.out.Live, s.out.Set)
	}
	if err != nil {
		s.warn("whether a NodePool that left Git was deleted by hand is not known: %v", err)
	}
}

// hosts are the pods of Karpenter's controller and of plumbline that run on nodes of a
// NodePool.
func (s *Step) hosts(ctx context.Context) ([]plan.Host, error) {
	if len(s.out.Live.NodeClaims) == 0 {
		return nil, nil
	}
	if s.Own != nil {
		return s.view.PoolHosts(ctx, s.sync.Status.Karpenter, *s.Own, s.out.Live.NodeClaims)
	}
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.sync.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "plumbline"}); err != nil {
		return nil, fmt.Errorf("read which nodes plumbline runs on: %w", err)
	}
	found, err := s.view.PoolHosts(ctx, s.sync.Status.Karpenter, plan.Host{}, s.out.Live.NodeClaims)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err != nil || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		own := plan.Host{Workload: "plumbline", Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName}
		var placed []plan.Host
		placed, err = s.view.PoolHosts(ctx, nil, own, s.out.Live.NodeClaims)
		found = append(found, placed...)
	}
	return found, err
}
