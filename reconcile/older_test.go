package reconcile

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// pulled is a store with one version; unsigned is why it is not verified, and verified counts the verifications.
type pulled struct {
	charts   *charts.Charts
	unsigned *error
	verified *int
}

func (p pulled) Verify(context.Context, charts.Ref, *charts.Charts, charts.Access, charts.Signers) error {
	*p.verified++
	return *p.unsigned
}

func (p pulled) Resolve(context.Context, charts.Ref, charts.Access) (*charts.Charts, error) {
	return p.charts, nil
}

// TestCRDsThatAreAhead shows that, if the controller was rolled back and the CRDs were not, definitions get the API
// server's defaults, and contain only fields that the older controller supports.
func TestCRDsThatAreAhead(t *testing.T) {
	older := installtest.PoolCRD("weight", "v1")
	cases := map[string]struct {
		brought string
		spec    string
		ahead   bool
		want    string
	}{
		"of the version":                      {brought: "1.8.6", spec: "{weight: 1}"},
		"newer":                               {brought: "1.14.1", spec: "{weight: 1}", ahead: true},
		"newer, and a field that only it has": {brought: "1.14.1", spec: "{height: 1}", ahead: true, want: "prod/pool.yaml:"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), established(installtest.PoolCRD("weight", "v1"))...)
			old := installtest.ChartFolder(t, "1.8.6", older)
			old.CRDDigest = "sha256:old"
			b.Charts = pulled{charts: old}
			p := b.pass()
			p.want.Karpenter = &render.Karpenter{Management: render.Managed, Version: "1.8.6", Namespace: "kube-system", Nodes: []string{"."}}
			p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{CRDs: &v1alpha1.ReleaseStatus{Version: c.brought}}
			p.snapshot = &render.Snapshot{Revision: "main@sha1:1", FS: fstest.MapFS{
				"prod/plumbline.yaml": {Data: []byte("kind: Karpenter\n")},
				"prod/pool.yaml":      {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec: " + c.spec + "\n")},
			}}
			p.want.Files = render.NewFiles(*p.snapshot)
			if err := p.resolveCharts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ahead := p.want.Older != nil; ahead != c.ahead || ahead == (p.want.SchemaIdentity == "sha256:old") {
				t.Errorf("goes by the CRDs that are there: %v, schema %s", ahead, p.want.SchemaIdentity)
			}
			err := p.render(t.Context())
			if got := fmtErr(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("render() = %q, want %q", got, c.want)
			}
		})
	}
}

// established returns the CRDs of all kinds; that of NodePools as given, and with one newer field.
func established(pools *apiextensionsv1.CustomResourceDefinition) []client.Object {
	fields := pools.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	fields["height"] = fields["weight"]
	claims := installtest.PoolCRD("weight", "v1")
	claims.Name = cluster.NodeClaimCRD
	all := []*apiextensionsv1.CustomResourceDefinition{pools, claims}
	for _, crd := range applytest.CRDs() {
		if crd.Name != pools.Name {
			all = append(all, crd.DeepCopy())
		}
	}
	var objects []client.Object
	for _, crd := range all {
		objects = append(objects, installtest.Serve(crd))
	}
	return objects
}
