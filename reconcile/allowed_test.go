package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func allowing(allow *v1alpha1.ChartAllow) func(*v1alpha1.NodeSync) {
	return func(sync *v1alpha1.NodeSync) { sync.Spec.Charts = &v1alpha1.ChartAccess{Allow: allow} }
}

// TestWhatIsNotAllowedIsNotAskedFor shows that what plumbline.yaml requests and the NodeSync does not allow is refused
// before any repository is contacted.
func TestWhatIsNotAllowedIsNotAskedFor(t *testing.T) {
	const public = "oci://public.ecr.aws/karpenter"
	values := func(path ...string) map[string]any {
		all := map[string]any{}
		if err := unstructured.SetNestedField(all, "x", path...); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for name, c := range map[string]struct {
		allow     *v1alpha1.ChartAllow
		karpenter render.Karpenter
		refused   string // empty: the repository is contacted
	}{
		"by default":             {nil, render.Karpenter{Repository: public}, ""},
		"another repository":     {nil, render.Karpenter{Repository: "oci://evil.example.com/karpenter"}, "repository oci://evil.example.com/karpenter"},
		"External":               {nil, render.Karpenter{Repository: "oci://evil.example.com/karpenter", Management: render.External}, "repository oci://evil.example.com/karpenter"},
		"charts in Git":          {nil, render.Karpenter{Repository: "./charts"}, "repository ./charts"},
		"charts that may be":     {&v1alpha1.ChartAllow{Repositories: []string{"./charts"}}, render.Karpenter{Repository: "./charts"}, ""},
		"an image":               {nil, render.Karpenter{Repository: public, Values: values("controller", "image", "tag")}, "values.controller.image.tag"},
		"an image that may be":   {&v1alpha1.ChartAllow{Values: []string{"controller.image"}}, render.Karpenter{Values: values("controller", "image", "tag")}, ""},
		"another version":        {&v1alpha1.ChartAllow{Versions: ">=1.15"}, render.Karpenter{Repository: public}, "version 1.14.1"},
		"a role":                 {nil, render.Karpenter{Repository: public, Cluster: render.Cluster{ControllerRole: "arn:aws:iam::1:role/admin"}}, "cluster.controllerRole arn:aws:iam::1:role/admin"},
		"a value of no chart":    {nil, render.Karpenter{Repository: public, Values: values("setings")}, ""},
		"that beside one closed": {nil, render.Karpenter{Repository: public, Values: map[string]any{"setings": "x", "hostNetwork": true}}, "values.hostNetwork"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(allowing(c.allow)))
			p := b.pass()
			k := c.karpenter
			k.Version = "1.14.1"
			if k.Management == "" {
				k.Management = render.Managed
			}
			p.want.Karpenter, p.snapshot = &k, &render.Snapshot{Revision: "main@sha1:1"}
			err := p.resolveCharts(t.Context())
			if k.Management == render.External {
				err = p.want.Unpulled
			}
			var refused *allowance.RefusedError
			var away *charts.UnreachableError
			switch {
			case c.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.refused) || len(b.charts.asked) > 0):
				t.Errorf("%v, having asked for %v, want %q refused", err, b.charts.asked, c.refused)
			case c.refused == "" && (!errors.As(err, &away) || len(b.charts.asked) != 1):
				t.Errorf("%v, having asked for %v", err, b.charts.asked)
			}
		})
	}
}

// TestChartsOfOtherDigests shows that other digests are refused: a repository may serve anything under a version.
func TestChartsOfOtherDigests(t *testing.T) {
	for digest, refused := range map[string]bool{"sha256:main": false, "sha256:evil": true} {
		b := newBed(t, nodeSync(allowing(&v1alpha1.ChartAllow{Digests: []string{"sha256:crd", "sha256:main"}})))
		found := installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1"))
		found.CRDDigest, found.Digest = "sha256:crd", digest
		b.Charts = pulled{charts: found}
		p := b.pass()
		p.want.Karpenter, p.snapshot = &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system"}, &render.Snapshot{Revision: "main@sha1:1"}
		err := p.resolveCharts(t.Context())
		var is *allowance.RefusedError
		if errors.As(err, &is) != refused || !refused && err != nil {
			t.Errorf("%s: %v", digest, err)
		}
	}
}

// releasedPools returns the CRD of NodePools as Karpenter releases it.
func releasedPools(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return crds[slices.IndexFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == "nodepools.karpenter.sh" })]
}

// TestSecretsAndChartsInGit shows that a chart in Git is rendered without Secrets unless the NodeSync lists its digest:
// whoever can change it could read them, in any encoding and bit by bit.
func TestSecretsAndChartsInGit(t *testing.T) {
	pinned := []string{"sha256:crd", "sha256:main"}
	for name, c := range map[string]struct {
		repository string
		from       string // kind of valuesFrom; empty for none
		digests    []string
		own        render.Digests
		refused    string
		other      bool // the CRD differs from the released one
	}{
		"a Secret":                         {repository: "./charts", from: render.FromSecret, refused: `would let everyone who can change the chart with digest sha256:main read the Secret (to allow it: spec.charts.allow.digests: ["sha256:main"])`},
		"a Secret, by digests of a commit": {repository: "./charts", from: render.FromSecret, own: render.Digests{CRD: "sha256:crd", Controller: "sha256:main"}, refused: "would let everyone who can change the chart"},
		"a Secret, by other digests":       {repository: "./charts", from: render.FromSecret, digests: []string{"sha256:crd", "sha256:before"}, refused: "a chart with digest sha256:main is none of those"},
		"a Secret, by these digests":       {repository: "./charts", from: render.FromSecret, digests: pinned},
		"a Secret, and a registry":         {repository: "oci://public.ecr.aws/karpenter", from: render.FromSecret},
		"a ConfigMap":                      {repository: "./charts", from: render.FromConfigMap},
		"no values from elsewhere":         {repository: "./charts"},
		"a CRD of their own":               {repository: "./charts", other: true, refused: `CustomResourceDefinition nodepools.karpenter.sh of a chart in Git is not the one that this plumbline knows of Karpenter ` + schema.EmbeddedVersion},
		"a CRD of their own, by digest":    {repository: "./charts", other: true, digests: pinned},
		"a CRD of a registry's own":        {repository: "oci://public.ecr.aws/karpenter", other: true},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{"values.yaml": "replicas: 1\n"}
			b := newBed(t, nodeSync(allowing(&v1alpha1.ChartAllow{Repositories: []string{c.repository}, Digests: c.digests})), secretWith("s", true, values), configWith("s", true, values))
			crd := releasedPools(t)
			if c.other {
				crd = installtest.PoolCRD("weight", "v1")
			}
			found := installtest.ChartFolder(t, schema.EmbeddedVersion, crd)
			found.CRDDigest, found.Digest = pinned[0], pinned[1]
			b.Charts = pulled{charts: found}
			p := b.pass()
			p.want.Karpenter = &render.Karpenter{Management: render.Managed, Version: schema.EmbeddedVersion, Namespace: "kube-system", Repository: c.repository, Digests: c.own}
			if c.from != "" {
				p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(c.from, "s")}
			}
			p.snapshot = &render.Snapshot{Revision: "main@sha1:1"}
			err := p.resolveCharts(t.Context())
			var is *allowance.RefusedError
			if errors.As(err, &is) != (c.refused != "") || c.refused == "" && err != nil || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want %q", err, c.refused)
			}
		})
	}
}

// TestEverythingIsWarnedOfOnce shows that the warning comes with the first reconcile after each change of the NodeSync.
func TestEverythingIsWarnedOfOnce(t *testing.T) {
	for name, c := range map[string]struct {
		values   []string
		observed int64
		warned   bool
	}{
		"everything":        {[]string{"podLabels", "*"}, -1, true},
		"everything, again": {[]string{"*"}, 1, false},
		"some values":       {[]string{"podLabels"}, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(sync *v1alpha1.NodeSync) {
				allowing(&v1alpha1.ChartAllow{Values: c.values})(sync)
				sync.Status.ObservedGeneration = c.observed
			}))
			p := b.pass()
			p.want.Karpenter, p.snapshot = &render.Karpenter{Management: render.Managed, Version: "1.14.1"}, &render.Snapshot{Revision: "main@sha1:1"}
			if err := p.resolveCharts(t.Context()); err == nil {
				t.Fatal("the registry was not asked")
			}
			if warned := len(p.Notes) == 1 && p.Notes[0].Reason == "AllowsEverything"; warned != c.warned {
				t.Errorf("notes: %v", p.Notes)
			}
		})
	}
}

// TestWhatTheChartsRenderToIsAsked shows that the installer checks the rendered objects against the NodeSync.
func TestWhatTheChartsRenderToIsAsked(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	p.want.Karpenter = &render.Karpenter{Management: render.Managed}
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "karpenter"}}}
	for _, chart := range []string{charts.CRDChart, charts.ControllerChart} {
		err := p.chartStep().Permit(release.Rendered{Chart: chart, Version: "1.14.1", Namespace: "kube-system", Objects: []*unstructured.Unstructured{job}})
		var refused *allowance.RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("a CronJob in chart %s: %v", chart, err)
		}
	}
}

// TestASecretDoesNotLeaveTheController shows that no value from a Secret gets into user data, which a committer may
// read, or to AWS: whichever labelled Secret a commit names, and however.
func TestASecretDoesNotLeaveTheController(t *testing.T) {
	for name, c := range map[string]struct {
		key, target string
		allow       *v1alpha1.ChartAllow
		refused     string
	}{
		"one value":          {"token", "settings.clusterEndpoint", nil, "values.settings.clusterEndpoint"},
		"a variable":         {"token", "controller.env[0].value", nil, "values.controller.env"},
		"a map":              {"values.yaml", "", nil, "values.settings.interruptionQueue"},
		"one that stays":     {"token", "settings.batchMaxDuration", nil, ""},
		"an owner allows it": {"token", "settings.interruptionQueue", &v1alpha1.ChartAllow{Values: []string{"settings.interruptionQueue"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret := secretWith("s", true, map[string]string{"token": "10s", "values.yaml": "settings: {interruptionQueue: 10s}"})
			b := newBed(t, nodeSync(allowing(c.allow)), secret)
			p := b.installing()
			from := from(render.FromSecret, "s")
			from.ValuesKey, from.TargetPath = c.key, c.target
			p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from}
			if err := p.desiredStep().MergeValues(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := evaluate.CheckRequest(p.sync, p.want.Karpenter, p.want.Values, "")
			var refused *allowance.RefusedError
			if is := errors.As(err, &refused); is != (c.refused != "") || is && !strings.Contains(err.Error(), "valuesFrom a Secret for "+c.refused) {
				t.Errorf("refused: %v, want %q", err, c.refused)
			}
		})
	}
}
