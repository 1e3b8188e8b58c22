package reconcile

import (
	"errors"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestGates shows that a change that must not be made is refused before anything is changed, and that the status
// reports this.
func TestGates(t *testing.T) {
	cases := map[string]struct {
		from, to   string
		live, next *apiextensionsv1.CustomResourceDefinition
		field      string
		change     func(*bed, *pass)
		want       string
	}{
		"a Kubernetes that it does not know": {change: func(b *bed, _ *pass) { b.install.Kubernetes = "v1.36.3" }, to: "1.8.6", want: "knows kubernetes"},
		"a version that must not be skipped": {from: "1.0.1", want: "set version 1.0."},
		"a Kubernetes newer than the tables": {change: func(b *bed, _ *pass) { b.install.Kubernetes = "v1.99.0" }, want: "accept it in plumbline.yaml: acceptUntested: [kubernetes 1.99]"},
		"a Karpenter newer than the tables":  {to: "1.99.0", want: "acceptUntested: [karpenter 1.99.0]"},
		"a fork":                             {to: "1.14.1+acme.3", want: "acceptUntested: [karpenter 1.14.1+acme.3]"},
		"a fork that is accepted": {to: "1.14.1+acme.3", change: func(_ *bed, p *pass) {
			p.want.Karpenter.AcceptUntested = []string{"karpenter 1.14.1+acme.3"}
		}},
		"a fork of which another build is accepted": {to: "1.14.1+acme.3", want: "not a release of upstream", change: func(_ *bed, p *pass) {
			p.want.Karpenter.AcceptUntested = []string{"karpenter 1.14.1", "karpenter 1.14.1+acme.2"}
		}},
		"both, and both are accepted": {to: "1.99.0", change: func(b *bed, p *pass) {
			b.install.Kubernetes = "v1.99.0"
			p.want.Karpenter.AcceptUntested = []string{"karpenter 1.99.0", "kubernetes 1.99"}
		}},
		"other values on a Kubernetes newer than the tables": {from: "1.14.1", change: func(b *bed, _ *pass) { b.install.Kubernetes = "v1.99.0" }},
		"a value that it does not have":                      {change: func(_ *bed, p *pass) { p.want.Values.Merged = map[string]any{"replica": 3} }, want: "replica: the chart has no such value; did you mean replicas?"},
		"a right that is missing":                            {change: func(b *bed, _ *pass) { b.install.Refusal = &release.ForbiddenError{Refusals: []string{"rule x"}} }, want: "rule x"},
		"a stored version that goes":                         {live: installtest.PoolCRD("weight", "v1beta1"), want: "stores objects as v1beta1"},
		"a new field in the same commit":                     {next: installtest.PoolCRD("height", "v1"), field: "height", want: "Karpenter 1.14.1 cannot be rolled back to 1.8.6: NodePool/general: spec.height: Forbidden: unknown field"},
		"nothing":                                            {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			from, to := "1.8.6", "1.14.1"
			if c.from != "" {
				from = c.from
			}
			if c.to != "" {
				to = c.to
			}
			live, next := installtest.PoolCRD("weight", "v1"), installtest.PoolCRD("weight", "v1")
			if c.live != nil {
				live = c.live
				live.Status.StoredVersions = []string{live.Spec.Versions[0].Name}
			}
			if c.next != nil {
				next = c.next
			}
			b := newBed(t, nodeSync(unchanged), append([]client.Object{live}, installtest.Installed()[:1]...)...)
			p := b.upgrading(installtest.ChartFolder(t, to, next), from)
			if c.field != "" {
				p.want.Set.Objects = []render.Object{poolWith(c.field)}
			}
			if c.change != nil {
				c.change(b, p)
			}
			err := p.installCharts(t.Context())
			target := p.sync.Status.Karpenter.Target
			if c.want == "" {
				if err != nil || target.Step != v1alpha1.ChartCRDs {
					t.Fatalf("at %+v, error %v", target, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("installCharts() = %v, want %q", err, c.want)
			}
			if target == nil || target.Step != v1alpha1.ChartChecking || len(b.install.Asked) > 0 {
				t.Errorf("target %+v, Helm was asked %v; want nothing moved", target, b.install.Asked)
			}
			if version := p.sync.Status.Karpenter.Version; version != from {
				t.Errorf("version in force is %q", version)
			}
		})
	}
}

// TestWhatIsHeldUntestedNamesALine shows that the message names a line that plumbline.yaml accepts, and that what
// already runs there is only warned about.
func TestWhatIsHeldUntestedNamesALine(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.PoolCRD("weight", "v1"), installtest.Installed()[0])
	b.install.Kubernetes = "v1.99.0"
	p := b.upgrading(installtest.ChartFolder(t, "1.99.0", installtest.PoolCRD("weight", "v1")), "1.14.1")
	err := p.installCharts(t.Context())
	if f := fault.Classify(err); f == nil || f.Reason != v1alpha1.ReasonHeld {
		t.Fatalf("installCharts() = %v, want it held", err)
	}
	_, line, _ := strings.Cut(err.Error(), "in plumbline.yaml: ")
	line, _, _ = strings.Cut(line, "]")
	read, err := render.ReadKarpenter(render.Snapshot{FS: files(strings.Replace(karpenterYAML, "1.14.1", "1.99.0", 1) + line + "]\n")}, "./prod")
	if err != nil {
		t.Fatalf("%q is no line of plumbline.yaml: %v", line, err)
	}
	if err := karpenter.CheckTested("v1.99.0", "1.99.0", read.AcceptUntested); err != nil {
		t.Errorf("%q accepts too little: %v", line, err)
	}
	b = newBed(t, nodeSync(unchanged), installtest.PoolCRD("weight", "v1"), installtest.Installed()[0])
	b.install.Kubernetes = "v1.99.0"
	p = b.upgrading(installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1")), "1.14.1")
	err = p.installCharts(t.Context())
	if err != nil || len(p.Notes) == 0 || p.Notes[0].Reason != "Untested" {
		t.Errorf("what runs already: %v, events %v", err, p.Notes)
	}
}

// upgrading returns a reconcile that has evaluated the commit, and finds another version in force.
func (b *bed) upgrading(to *charts.Charts, from string) *pass {
	p := b.pass()
	p.sync.Spec.Guard.AllowUnverifiedAccount = true // AWS was not queried
	p.want.Karpenter = &render.Karpenter{Management: render.Managed, Version: to.Version, Namespace: "kube-system", AcceptUnread: render.UnreadIAM}
	p.want.Charts, p.want.Set, p.live = to, &render.Set{}, plan.Live{}
	p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{
		Namespace: "kube-system", Version: from, Identity: "before",
		Controller: &v1alpha1.ReleaseStatus{Revision: 1, Version: from},
	}
	return p
}

// TestARefusalStandsForAWhile shows that a refusal is cached: computing it takes many requests.
func TestARefusalStandsForAWhile(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.Installed()[0])
	to := installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1"))
	b.install.Refusal = errors.New("no")
	checks := func(what, want string) {
		t.Helper()
		p := b.upgrading(to, "1.8.6")
		err := p.installCharts(t.Context())
		if got := fmtErr(err); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	checks("at first", "no")
	b.install.Refusal = errors.New("still not")
	checks("at once again", "no")
	b.clock.forward(b.pass().sync.GetRetryInterval())
	checks("when a retry is due", "still not")
	b.install.Refusal = nil
	b.clock.forward(b.pass().sync.GetRetryInterval())
	checks("once it is mended", "")
}

// TestAHoldStandsForAWhile shows that a hold is cached until a person releases it, or another commit is pushed.
func TestAHoldStandsForAWhile(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), installtest.PoolCRD("weight", "v1"), installtest.Installed()[0])
	to := installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("height", "v1"))
	looks := func(what string, rehearsals int, held bool, change func(*pass)) {
		t.Helper()
		p := b.upgrading(to, "1.8.6")
		p.want.Set.Objects = []render.Object{poolWith("height")}
		p.sync.Status.LastAttemptedRevision = "main@sha1:1"
		if change != nil {
			change(p)
		}
		err := p.installCharts(t.Context())
		if got := strings.Contains(fmtErr(err), "cannot be rolled back"); got != held || !held && err != nil {
			t.Errorf("%s: held %v, error %v", what, got, err)
		}
		if b.install.Rehearsed != rehearsals {
			t.Errorf("%s: %d rehearsals, want %d", what, b.install.Rehearsed, rehearsals)
		}
	}
	another := func(p *pass) { p.sync.Status.LastAttemptedRevision = "main@sha1:2" }
	again := func(p *pass) { p.sync.Status.LastHandledReconcileAt = "now" }
	looks("at first", 1, true, nil)
	looks("at once again", 1, true, nil)
	looks("another commit", 2, true, another)
	looks("asked for", 3, true, func(p *pass) { another(p); again(p) })
	b.clock.forward(b.pass().sync.GetRetryInterval())
	looks("when a retry is due", 4, true, another)
	looks("with a word", 5, false, func(p *pass) {
		another(p)
		p.sync.Annotations = map[string]string{v1alpha1.NoWayBackAnnotation: "1.14.1"}
	})
}

// TestTheFirstHopIsFromWhatSomebodyInstalled shows that a running controller counts, whoever installed it.
func TestTheFirstHopIsFromWhatSomebodyInstalled(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		image  string
		want   string
	}{
		"by its label":              {labels: map[string]string{"app.kubernetes.io/version": "1.0.2"}, want: "set version 1.0.14"},
		"by its chart":              {labels: map[string]string{"helm.sh/chart": "karpenter-1.0.2"}, want: "set version 1.0.14"},
		"by its image":              {image: "example.com:5000/karpenter/controller:1.0.2@sha256:ab", want: "set version 1.0.14"},
		"a tag of somebody's own":   {image: "example.com/controller:latest"},
		"one from where a hop goes": {labels: map[string]string{"app.kubernetes.io/version": "1.0.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := installtest.Installed()[0].(*appsv1.Deployment)
			deployment.Labels = maps.Clone(cluster.ControllerLabels())
			maps.Copy(deployment.Labels, c.labels)
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: c.image}}
			b := newBed(t, nodeSync(unchanged), deployment)
			p := b.upgrading(installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1")), "")
			err := p.installCharts(t.Context())
			if got := fmtErr(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("installCharts() = %q, want %q", got, c.want)
			}
		})
	}
}

// poolWith returns a NodePool with one field.
func poolWith(field string) render.Object {
	return render.Object{Ref: render.Ref{Kind: render.NodePool, Name: "general"}, Desired: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "general"}, "spec": map[string]any{field: int64(1)},
	}}}
}

func fmtErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
