package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// fleet is what lives: a pool whose class follows the newest AMI, and one whose
// class pins it.
func fleet() plan.Live {
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
	add := func(version, kind, name string, spec map[string]any) {
		object := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
		live.Objects[render.Ref{Kind: kind, Name: name}] = plan.NewObject(&unstructured.Unstructured{Object: object})
	}
	for class, alias := range map[string]string{"newest": "al2023@latest", "pinned": "al2023@v20260101"} {
		add("karpenter.k8s.aws/v1", render.EC2NodeClass, class, map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": alias}}})
		ref := map[string]any{"group": "karpenter.k8s.aws", "kind": render.EC2NodeClass, "name": class}
		add("karpenter.sh/v1", render.NodePool, "on-"+class, map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": ref}}})
	}
	live.NodeClaims = []plan.NodeClaim{{Pool: "on-pinned"}, {Pool: "on-pinned"}, {Pool: "on-newest"}}
	return live
}

// embeddedCluster has the CRDs that this program was built with.
func embeddedCluster(t *testing.T) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	crds, err := embeddedTarget("")
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, crd := range crds {
		builder.WithObjects(crd)
	}
	return builder.Build()
}

// embeddedTarget are the CRDs that this program was built with.
func embeddedTarget(string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, _, err := schema.Embedded()
	return crds, err
}

func TestForecastUpgrade(t *testing.T) {
	const latest = "cannot be known: EC2NodeClass newest follows al2023@latest, whose AMI may be another one by then"
	cases := map[string]struct {
		inForce, git string
		external     bool
		want         map[string]string // by pool; nil: no upgrade
		refused      string
	}{
		"another hash":       {inForce: "1.8.6", git: "1.14.1", want: map[string]string{"on-newest": latest, "on-pinned": "annotated again, not replaced"}},
		"the same hash":      {inForce: "1.12.1", git: "1.14.1", want: map[string]string{"on-newest": latest, "on-pinned": "untouched"}},
		"a hop is skipped":   {inForce: "1.0.1", git: "1.14.1", want: map[string]string{"on-newest": latest, "on-pinned": "annotated again, not replaced"}, refused: "set version 1.0.14"},
		"the version stays":  {inForce: "1.14.1", git: "1.14.1"},
		"nothing in force":   {git: "1.14.1"},
		"somebody else's is": {inForce: "1.8.6", external: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Karpenter: &v1alpha1.KarpenterStatus{Version: c.inForce}}}
			seen := &preview.Preview{Live: fleet(), Desired: desired.Desired{Karpenter: &render.Karpenter{Version: c.git, Management: render.Managed}}}
			if c.external {
				seen.Karpenter.Management = render.External
			}
			whole := &planned{}
			if err := whole.forecast(t.Context(), embeddedCluster(t), sync, seen, embeddedTarget); err != nil {
				t.Fatal(err)
			}
			got := whole.upgrade
			if (got == nil) != (c.want == nil) {
				t.Fatalf("forecast: %+v", got)
			}
			if got == nil {
				return
			}
			said := map[string]string{}
			for _, pool := range got.Pools {
				said[pool.Pool] = pool.Means
			}
			if diff := cmp.Diff(c.want, said); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Refused, c.refused) || (got.Refused == "") != (c.refused == "") {
				t.Errorf("refused: %q", got.Refused)
			}
		})
	}
}

// TestForecastPrints: a line for each pool, by name, and the exit code of a change
// though no definition changes.
func TestForecastPrints(t *testing.T) {
	sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Karpenter: &v1alpha1.KarpenterStatus{Version: "1.8.6"}}}
	seen := &preview.Preview{Live: fleet(), Desired: desired.Desired{Karpenter: &render.Karpenter{Version: "1.14.1", Management: render.Managed}}}
	whole := &planned{Plan: &plan.Plan{}}
	if err := whole.forecast(t.Context(), embeddedCluster(t), sync, seen, embeddedTarget); err != nil {
		t.Fatal(err)
	}
	report := newPlanReport(whole)
	var out strings.Builder
	if err := report.print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-upgrade.table", out.String())
	var exit *exitError
	if !errors.As(report.exit(), &exit) || exit.code != exitChanges {
		t.Errorf("exit: %v", exit)
	}
}
