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
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// seeCharts notes why the charts are not changed, by what the evaluation has found.
func (p *preview) seeCharts(ev evaluate.Evaluation) {
	p.out.ChartsRefused = ev.NotUpgraded
	switch unpulled := ev.Desired.Unpulled; {
	case unpulled == nil || ev.Desired.Schema == nil:
	case OutOfReach(unpulled):
		p.unknown(ev, "what the charts of Karpenter %s say of this commit is not known here: %v", ev.Desired.Karpenter.Version, unpulled)
	default:
		p.out.ChartsRefused = unpulled
	}
}

// unknown warns that it cannot be found out here what is done with the charts.
func (p *preview) unknown(ev evaluate.Evaluation, format string, args ...any) {
	p.out.ChartsUnknown, p.out.VersionChanges = true, p.versionChanges(ev)
	p.warn(format, args...)
}

// versionChanges says from which version of Karpenter to which other one the commit leads; empty if it does not.
func (p *preview) versionChanges(ev evaluate.Evaluation) string {
	if k := p.sync.Status.Karpenter; k != nil && k.Version != "" && k.Version != ev.Desired.Karpenter.Version {
		return k.Version + " to " + ev.Desired.Karpenter.Version
	}
	return ""
}

// withoutCharts takes a schema if that of the charts is out of reach for the person who asks: that of the live
// CRDs, unless the commit changes the version and the CRDs of the new one are available.
func (p *preview) withoutCharts(ctx context.Context, ev evaluate.Evaluation, err error) (evaluate.Evaluation, error) {
	if !OutOfReach(err) {
		return ev, err
	}
	p.unknown(ev, "what the charts of Karpenter %s say of this commit is not known here: %v", ev.Desired.Karpenter.Version, err)
	var names []string
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	live, err := p.view.CRDs(ctx, names)
	if err != nil {
		return ev, &readError{err}
	}
	if len(live) < len(names) || p.versionChanges(ev) != "" {
		var known []*apiextensionsv1.CustomResourceDefinition
		if known, err = p.CRDs(ev.Desired.Karpenter.Version); err == nil {
			live = known
		}
	}
	if len(live) < len(names) {
		return ev, &readError{errors.Join(errors.New("no CRDs to check the definitions against: give those of the version in Git with --crds DIR"), err)}
	}
	ev.Desired.Schema, err = schema.New(live)
	return ev, err
}

// changeCharts finds out whether the charts are changed. If they are not, and a release is installed, the commit is evaluated
// once more under that release.
func (p *preview) changeCharts(ctx context.Context, in evaluate.Inputs, ev evaluate.Evaluation) (evaluate.Evaluation, error) {
	charts := in.ChartStep(ev)
	why := charts.WhyNot(ctx)
	switch {
	case why == nil:
		var err error
		p.out.ChartsChange, err = charts.Change()
		return ev, err
	case OutOfReach(why):
		p.unknown(ev, "whether the charts can be changed is not known here: %v", why)
	case !upgrade.StaysInForce(p.sync.Status.Karpenter, why):
		return ev, why
	default:
		return p.evaluateInForce(ctx, in, ev, why)
	}
	return ev, nil
}

// evaluateInForce evaluates the commit under the release that is installed, because a change of the charts is held or refused.
func (p *preview) evaluateInForce(ctx context.Context, in evaluate.Inputs, ev evaluate.Evaluation, why error) (evaluate.Evaluation, error) {
	if upgrade.IsFrozen(why) {
		p.out.ChartsChange = why.Error()
	} else {
		p.out.ChartsRefused = why
	}
	return evaluate.InForce(ctx, in, ev, why)
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
	return secret, s.Client.Get(ctx, client.ObjectKey{Namespace: s.Sync.Namespace, Name: name}, secret)
}

// labelled reads what holds values of the chart.
func (s *Step) labelled(context.Context) (reader client.Reader, listed func() time.Duration, err error) {
	if s.Withheld {
		return nil, nil, &WithheldError{"what valuesFrom names"}
	}
	return s.Client, func() time.Duration { return 0 }, nil
}

// record is what was applied, as it is read for one preview.
type record struct {
	*preview
	store *apply.RecordStore
}

// See finds the NodePools that were applied and that another client has deleted.
func (r *record) See(ctx context.Context, live plan.Live, set *render.Set) (plan.Live, finding.Findings, error) {
	if !live.Served {
		return live, finding.Findings{}, nil
	}
	store, err := apply.LoadRecord(ctx, r.Client, r.sync)
	if err == nil {
		r.store, live.Recorded = store, store.Record.Objects
		live.Vanished, err = removal.Vanished(ctx, r.Nodes, store.Record, live, set)
	}
	if err != nil {
		r.warn("whether a NodePool that left Git was deleted by hand is not known: %v", err)
	}
	return live, finding.Findings{}, nil
}

// Lost reports whether the record is not the one of what lives.
func (r *record) Lost(live plan.Live, set *render.Set) bool {
	return r.store != nil && removal.RecordLost(r.store, plan.OwnerOf(r.sync.Namespace, r.sync.Name), live, set)
}

// Revision is empty: how the commit stands to those before it is not asked.
func (r *record) Revision() string { return "" }

// hosts are the pods of Karpenter's controller and of plumbline that run on nodes of a NodePool. If they cannot be read, the preview says so.
func (p *preview) hosts(ctx context.Context, claims []plan.NodeClaim) ([]plan.Host, error) {
	found, err := p.findHosts(ctx, claims)
	if err != nil {
		p.warn("whether a NodePool that leaves hosts Karpenter's controller is not known: %v", err)
	}
	return found, nil
}

func (p *preview) findHosts(ctx context.Context, claims []plan.NodeClaim) ([]plan.Host, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	if p.Own != nil {
		return p.view.PoolHosts(ctx, p.sync.Status.Karpenter, *p.Own, claims)
	}
	pods := &corev1.PodList{}
	if err := p.Client.List(ctx, pods, client.InNamespace(p.sync.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "plumbline"}); err != nil {
		return nil, fmt.Errorf("read which nodes plumbline runs on: %w", err)
	}
	found, err := p.view.PoolHosts(ctx, p.sync.Status.Karpenter, plan.Host{}, claims)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err != nil || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		own := plan.Host{Workload: "plumbline", Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName}
		var placed []plan.Host
		placed, err = p.view.PoolHosts(ctx, nil, own, claims)
		found = append(found, placed...)
	}
	return found, err
}
