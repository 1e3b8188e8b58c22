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
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// seeCharts records why the charts are not changed, according to the evaluation.
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

// unknown warns that what happens to the charts cannot be determined here.
func (p *preview) unknown(ev evaluate.Evaluation, format string, args ...any) {
	p.out.ChartsUnknown, p.out.VersionChanges = true, p.versionChanges(ev)
	p.warn(format, args...)
}

// versionChanges returns the old and new version of Karpenter; empty if the commit does not change it.
func (p *preview) versionChanges(ev evaluate.Evaluation) string {
	if k := p.sync.Status.Karpenter; k != nil && k.Version != "" && k.Version != ev.Desired.Karpenter.Version {
		return k.Version + " to " + ev.Desired.Karpenter.Version
	}
	return ""
}

// withoutCharts uses another schema if the charts are not accessible to the caller: that of the live CRDs, unless the
// commit changes the version and the CRDs of the new one are available.
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
	if len(cluster.AbsentCRDs(live)) > 0 || p.versionChanges(ev) != "" {
		var known []*apiextensionsv1.CustomResourceDefinition
		if known, err = p.CRDs(ev.Desired.Karpenter.Version); err == nil {
			live = known
		}
	}
	if len(cluster.AbsentCRDs(live)) > 0 {
		return ev, &readError{errors.Join(errors.New("no CRDs to check the definitions against: give those of the version in Git with --crds DIR"), err)}
	}
	ev.Desired.Schema, err = schema.New(live)
	return ev, err
}

// changeCharts determines whether the charts are changed. If they are not, and a release is installed, it evaluates the
// commit again with that release.
func (p *preview) changeCharts(ctx context.Context, in evaluate.Inputs, ev evaluate.Evaluation) (evaluate.Evaluation, error) {
	charts := in.ChartStep(ev)
	var err error
	if p.out.Rights, err = charts.Rights(ctx); err != nil && !OutOfReach(err) {
		return ev, err
	}
	why := charts.WhyNot(ctx)
	var unread *iam.UnreadError
	switch {
	case errors.As(why, &unread) && p.Own == nil:
		p.unknown(ev, "whether the upgrade starts is not known here, because the daemon has a role of its own: %v", why)
	case why == nil:
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

// evaluateInForce evaluates the commit with the installed release, because a change of the charts is held or refused.
func (p *preview) evaluateInForce(ctx context.Context, in evaluate.Inputs, ev evaluate.Evaluation, why error) (evaluate.Evaluation, error) {
	if upgrade.IsFrozen(why) {
		p.out.ChartsChange = why.Error()
	} else {
		p.out.ChartsRefused = why
	}
	return evaluate.InForce(ctx, in, ev, why)
}

// ownRights apply to a user who reads a Secret: it needs no annotation to be used.
var ownRights = grant.Policy{Unannotated: true}

// grants returns the daemon's policy, or that of a user.
func (s *Step) grants() grant.Policy {
	if s.Grants != nil {
		return *s.Grants
	}
	return ownRights
}

// decrypt returns what decrypts with a key of AWS KMS, unless the author of the commit is not trusted.
func (s *Step) decrypt() evaluate.DecryptByKMS {
	if !s.Withheld {
		return s.Decrypt
	}
	return func(context.Context, string, []byte, map[string]string) ([]byte, error) {
		return nil, &WithheldError{"what AWS KMS decrypts"}
	}
}

// WithheldError reports that something is not read for a commit of an untrusted author.
type WithheldError struct{ What string }

// Error names what is not read.
func (e *WithheldError) Error() string {
	return e.What + " is not read for a pull request from a fork"
}

// OutOfReach reports whether an error concerns what the caller can access rather than the commit: the daemon has other
// permissions and another network.
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

// secret reads a Secret in the NodeSync's namespace.
func (s *Step) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	if s.Withheld {
		return nil, &WithheldError{"secret " + name}
	}
	secret := &corev1.Secret{}
	return secret, s.Client.Get(ctx, client.ObjectKey{Namespace: s.Sync.Namespace, Name: name}, secret)
}

// labelled returns a reader for the objects with values of the chart.
func (s *Step) labelled(context.Context) (reader client.Reader, listed func() time.Duration, err error) {
	if s.Withheld {
		return nil, nil, &WithheldError{"what valuesFrom names"}
	}
	return s.Client, func() time.Duration { return 0 }, nil
}

// record is the record of what was applied, as read for one preview.
type record struct {
	*preview
	store *apply.RecordStore
}

// See finds the applied NodePools that another client has deleted.
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

// Lost reports whether the record does not match the live objects.
func (r *record) Lost(live plan.Live, set *render.Set) bool {
	return r.store != nil && removal.RecordLost(r.store, plan.OwnerOf(r.sync.Namespace, r.sync.Name), live, set)
}

// Revision is always empty: a preview does not compare the commit with earlier ones.
func (r *record) Revision() string { return "" }

// hosts returns the pods of Karpenter's controller and of plumbline that run on nodes of a NodePool. If they cannot be
// read, the preview has a warning.
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
