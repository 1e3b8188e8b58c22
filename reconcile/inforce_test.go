package reconcile

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// shelf is a store of charts by version.
type shelf map[string]*charts.Charts

func (s shelf) Verify(context.Context, charts.Ref, *charts.Charts, charts.Access, charts.Signers) error {
	return nil
}

func (s shelf) Resolve(_ context.Context, ref charts.Ref, _ charts.Access) (*charts.Charts, error) {
	if found, ok := s[ref.Version]; ok {
		return found, nil
	}
	return nil, &charts.NotFoundError{Err: errUnreachable}
}

// running returns the Deployment of a version whose only replica is ready.
func running(version string) *appsv1.Deployment {
	deployment := installtest.Installed()[0].(*appsv1.Deployment)
	deployment.Labels["helm.sh/chart"] = "karpenter-" + version
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	return deployment
}

// TestTheRestGoesOnUnderWhatIsInForce shows that a change of the charts that is refused, held, rolled back or cannot be
// pulled leaves a working release. The commit fails with the cause, and those of its definitions are written that this
// release can read.
func TestTheRestGoesOnUnderWhatIsInForce(t *testing.T) {
	rolledBack := func(b *bed, p *pass) {
		identity, err := p.identityOf(b, "1.14.1")
		if err != nil {
			t.Fatal(err)
		}
		p.sync.Status.Karpenter.CRDs.Version = "1.14.1"
		p.sync.Status.Karpenter.Target = &v1alpha1.ChartTarget{
			Version: "1.14.1", Identity: identity, Step: v1alpha1.ChartRolledBack, Message: "Karpenter 1.14.1 did not come up",
		}
	}
	refused := func(b *bed, _ *pass) { b.install.Refusal = &release.ForbiddenError{Refusals: []string{"rule x"}} }
	mistyped := func(b *bed, p *pass) {
		p.want.Karpenter.Version = "1.14.11"
		deployed := release.Release{Status: release.Deployed, Mark: release.Mark{Version: "1.8.6"}}
		b.install.Known = release.State{CRDs: deployed, Controller: deployed}
	}
	cases := map[string]struct {
		change func(*bed, *pass)
		spec   string
		reason string
		// words are in the verdict; stops reports that nothing is written.
		words string
		stops bool
	}{
		"refused":                            {change: refused, reason: "Forbidden", words: "rule x; definitions are still applied under Karpenter 1.8.6, which is in force"},
		"rolled back":                        {change: rolledBack, reason: "UpgradeFailed", words: "did not come up; definitions are still applied under Karpenter 1.8.6"},
		"mistyped":                           {change: mistyped, reason: "ChartFailed", words: "the charts stay as they are installed, and definitions are applied"},
		"refused, with a field of the new":   {change: refused, spec: "{depth: 1}", reason: "Forbidden", words: "rule x; Karpenter 1.8.6 stays in force, and definitions wait: prod/pool.yaml", stops: true},
		"rolled back, with one of the new":   {change: rolledBack, spec: "{height: 1}", reason: "UpgradeFailed", words: "and definitions wait: prod/pool.yaml", stops: true},
		"mistyped, with a field of no CRD":   {change: mistyped, spec: "{depth: 1}", reason: "ChartFailed", words: "and definitions wait: prod/pool.yaml", stops: true},
		"refused, and nothing was installed": {change: func(b *bed, p *pass) { refused(b, p); p.sync.Status.Karpenter.Identity = "" }, reason: "Forbidden", words: "rule x", stops: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), append(established(installtest.PoolCRD("weight", "v1")), running("1.8.6"))...)
			p := b.changing(c.spec)
			c.change(b, p)
			p.takes(t.Context(), p.see, p.resolveCharts, p.render, p.makePlan, p.installCharts)
			if stops := p.Fault != nil; stops != c.stops {
				t.Fatalf("fault %v, want one %t", p.Fault, c.stops)
			}
			if v := p.verdict(); v.Class != status.Stuck || v.Reason != c.reason || !strings.Contains(v.Message, c.words) {
				t.Errorf("verdict %+v, want %s with %q", v, c.reason, c.words)
			}
			if c.stops {
				return
			}
			if p.stages.Changing || !p.stages.CRDs.Ready || !p.stages.Controller.Ready {
				t.Errorf("stages %+v", p.stages)
			}
			if got := p.changesStep().Due(); len(got) != 1 || got[0].Action != plan.Create {
				t.Errorf("due %+v, want the new pool", got)
			}
		})
	}
}

// TestTheRestGoesOnWhileTheWayBackIsStalled shows that definitions are written while no replica of the previous release
// becomes ready and a person has to act.
func TestTheRestGoesOnWhileTheWayBackIsStalled(t *testing.T) {
	down := running("1.8.6")
	down.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1}
	b := newBed(t, nodeSync(unchanged), append(established(installtest.PoolCRD("weight", "v1")), down)...)
	p := b.changing("")
	identity, err := p.identityOf(b, "1.14.1")
	if err != nil {
		t.Fatal(err)
	}
	deployed := release.Release{Status: release.Deployed, Mark: release.Mark{Version: "1.8.6"}}
	b.install.Known = release.State{CRDs: deployed, Controller: deployed}
	p.sync.Status.Karpenter.Target = &v1alpha1.ChartTarget{
		Version: "1.14.1", Identity: identity, Step: v1alpha1.ChartRollingBack, Message: "Karpenter 1.14.1 did not come up",
		Since: metav1.NewTime(b.clock.now().Add(-time.Hour)),
	}
	p.takes(t.Context(), p.see, p.resolveCharts, p.render, p.makePlan, p.installCharts)
	if p.Fault != nil || p.NotUpgraded == nil || !strings.Contains(p.NotUpgraded.Error(), "the previous release, 1.8.6, does not become ready either") {
		t.Fatalf("fault %v, not upgraded for %v", p.Fault, p.NotUpgraded)
	}
	if p.stages.Changing || !p.stages.CRDs.Ready || p.stages.Controller.Ready {
		t.Errorf("stages %+v", p.stages)
	}
	if v := p.verdict(); v.Class != status.Stuck {
		t.Errorf("verdict %+v", v)
	}
}

// TestARefusalIsNotFoundOutTwice shows that the next reconcile uses what is in force at once.
func TestARefusalIsNotFoundOutTwice(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), append(established(installtest.PoolCRD("weight", "v1")), running("1.8.6"))...)
	b.install.Refusal = &release.ForbiddenError{Refusals: []string{"rule x"}}
	var karpenter *v1alpha1.KarpenterStatus
	looks := func(what string, rehearsals int) {
		t.Helper()
		p := b.changing("")
		if karpenter != nil {
			p.sync.Status.Karpenter = karpenter
		}
		p.takes(t.Context(), p.see, p.resolveCharts, p.render, p.makePlan, p.installCharts)
		karpenter = p.sync.Status.Karpenter
		if p.Fault != nil || p.NotUpgraded == nil || len(p.changesStep().Due()) != 1 {
			t.Errorf("%s: fault %v, not upgraded for %v, due %v", what, p.Fault, p.NotUpgraded, p.changesStep().Due())
		}
		if b.install.Rehearsed != rehearsals {
			t.Errorf("%s: %d rehearsals, want %d", what, b.install.Rehearsed, rehearsals)
		}
		if p.WakeAt.IsZero() {
			t.Errorf("%s: the next look is not planned", what)
		}
	}
	looks("at first", 1)
	looks("at once again", 1)
	b.clock.forward(b.pass().sync.GetRetryInterval())
	looks("when a retry is due", 2)
}

// changing returns a reconcile of a commit with a pool and Karpenter 1.14.1, while 1.8.6 is in force.
func (b *bed) changing(spec string) *pass {
	if spec == "" {
		spec = "{weight: 1}"
	}
	next := installtest.PoolCRD("weight", "v1")
	fields := next.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	fields["height"], fields["depth"] = fields["weight"], fields["weight"]
	store := shelf{"1.8.6": installtest.ChartFolder(b.t, "1.8.6", installtest.PoolCRD("weight", "v1")), "1.14.1": installtest.ChartFolder(b.t, "1.14.1", next)}
	for version, found := range store {
		found.CRDDigest, found.Digest = "sha256:crds-"+version, "sha256:"+version
	}
	b.Charts = store
	p := b.upgrading(store["1.14.1"], "1.8.6")
	p.sync.Status.Karpenter.CRDs = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.8.6"}
	p.want.Karpenter.Nodes = []string{"."}
	p.snapshot = &render.Snapshot{Revision: "main@sha1:1", FS: fstest.MapFS{
		"prod/plumbline.yaml": {Data: []byte("kind: Karpenter\n")},
		"prod/pool.yaml":      {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec: " + spec + "\n")},
	}}
	p.want.Files, p.want.Charts, p.want.Set = render.NewFiles(*p.snapshot), nil, nil
	p.live.Objects = map[render.Ref]*plan.Object{}
	return p
}

// identityOf returns the identity of a version with this reconcile's values.
func (p *pass) identityOf(b *bed, version string) (string, error) {
	found, err := b.Charts.Resolve(b.t.Context(), charts.Ref{Version: version}, charts.Access{})
	if err != nil {
		return "", err
	}
	before := p.want.Charts
	defer func() { p.want.Charts = before }()
	p.want.Charts = found
	if err := p.desiredStep().MergeValues(b.t.Context()); err != nil {
		return "", err
	}
	return p.chartStep().Identity()
}
