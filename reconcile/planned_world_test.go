package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// nextRevision is the first revision of a fakeSource.
const nextRevision = "main@sha1:0000000000000000000000000000000000000001"

// plannedWorld is a repository and a cluster.
type plannedWorld struct {
	files  fstest.MapFS
	sync   *v1alpha1.NodeSync
	server *applytest.Server
	// inForce is the version whose controller runs; empty if none does.
	inForce string
	others  []client.Object
	// recorded is the record of what was applied; nil if it is lost.
	recorded *apply.Record
	// asksPermit makes Helm check whether what the charts render to is allowed.
	asksPermit bool
}

// plannedShelf is shared by all generated worlds, because it is slow to create.
type plannedShelf struct {
	charts   shelf
	identity string
}

// newPlannedShelf returns the charts of three versions, with the same CRDs.
func newPlannedShelf(t *testing.T) *plannedShelf {
	t.Helper()
	s := &plannedShelf{charts: shelf{}}
	for _, version := range []string{"1.13.0", "1.14.1", "1.99.0"} {
		s.charts[version] = wholeCharts(t, version)
	}
	w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), files: fstest.MapFS{"prod/plumbline.yaml": {Data: []byte(plannedYAML)}}}
	p := w.bed(t, s).pass()
	p.takes(t.Context(), p.fetch, p.desire((*evaluate.DesiredStep).Configure), p.see, p.resolveCharts)
	var err error
	if s.identity, err = p.chartStep().Identity(); p.Fault != nil || err != nil || s.identity == "" {
		t.Fatalf("identity %q of the charts: %v, %v", s.identity, p.Fault, err)
	}
	return s
}

// wholeCharts returns charts with the CRDs of all kinds.
func wholeCharts(t *testing.T, version string) *charts.Charts {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, chart := range []string{"karpenter-crd", "karpenter"} {
		write(chart+"/Chart.yaml", []byte("apiVersion: v2\nname: "+chart+"\nversion: "+version+"\n"))
	}
	write("karpenter/values.yaml", []byte("replicas: 2\nlogLevel: info\nsettings:\n  clusterName: \"\"\n"))
	write("karpenter/templates/nothing.yaml", nil)
	for _, crd := range applytest.CRDs() {
		crd := crd.DeepCopy()
		crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		raw, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		write("karpenter-crd/templates/"+crd.Name+".yaml", []byte(strings.ReplaceAll(strings.ReplaceAll(string(raw), "{{", "{ {"), "}}", "} }")))
	}
	found, err := charts.FromFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	found.CRDDigest, found.Digest = "sha256:crds", "sha256:"+version
	return found
}

// plannedYAML is a valid plumbline.yaml.
const plannedYAML = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: prod-eu, region: eu-west-1}
version: 1.14.1
nodes: [./nodes]
`

// plannedClass is a valid EC2NodeClass.
const plannedClass = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1234}]
  securityGroupSelectorTerms: [{id: sg-1234}]
`

// install installs Karpenter according to plannedYAML.
func (w *plannedWorld) install(identity string) *v1alpha1.KarpenterStatus {
	release := &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}
	k := &v1alpha1.KarpenterStatus{
		Management: "Managed", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1", Version: release.Version, Identity: identity,
		CRDs: release, Controller: release.DeepCopy(),
	}
	w.sync.Status.Karpenter, w.inForce = k, release.Version
	return k
}

// bed returns the daemon in this world.
func (w *plannedWorld) bed(t *testing.T, shared *plannedShelf) *bed {
	t.Helper()
	objects := append([]client.Object{}, w.others...)
	for _, crd := range append(applytest.CRDs(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: cluster.NodeClaimCRD}}) {
		crd := crd.DeepCopy()
		crd.UID = types.UID(crd.Name)
		objects = append(objects, installtest.Serve(crd))
	}
	if w.inForce != "" {
		objects = append(objects, running(w.inForce))
	}
	b := newBed(t, w.sync, objects...)
	b.source.files = w.files
	b.Charts = shared.charts
	b.install.AsksPermit = w.asksPermit
	if w.inForce != "" {
		deployed := release.Release{Status: release.Deployed, Mark: release.Mark{Version: w.inForce}}
		b.install.Known = release.State{CRDs: deployed, Controller: deployed}
	}
	if w.recorded != nil {
		b.recordApplied(*w.recorded)
	}
	c := definitionsOn(b.client, w.server)
	b.uses(c)
	return b
}

// definitionsOn makes a Server answer for definitions.
func definitionsOn(c client.WithWatch, server *applytest.Server) client.WithWatch {
	ours := func(kind string) bool {
		_, known := render.KindOf(strings.TrimSuffix(kind, "List"))
		return known
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if ours(object.GetObjectKind().GroupVersionKind().Kind) {
				return server.Get(ctx, key, object, options...)
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			kind := list.GetObjectKind().GroupVersionKind().Kind
			into, whole := list.(*unstructured.UnstructuredList)
			switch {
			case !ours(kind):
				return c.List(ctx, list, options...)
			case !whole:
				return server.List(ctx, list, options...)
			}
			for ref, object := range server.Objects() {
				if strings.TrimSuffix(kind, "List") == ref.Kind {
					into.Items = append(into.Items, *object)
				}
			}
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if ours(object.GetObjectKind().GroupVersionKind().Kind) {
				return server.Patch(ctx, object, patch, options...)
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, applied runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			object := &unstructured.Unstructured{}
			data, err := json.Marshal(applied)
			if err == nil {
				err = object.UnmarshalJSON(data)
			}
			switch of := (&client.ApplyOptions{}).ApplyOptions(options); {
			case err != nil:
				return err
			case ours(object.GetKind()):
				return server.ApplyAs(ctx, object, of.FieldManager, of.Force != nil && *of.Force)
			}
			return c.Apply(ctx, applied, options...)
		},
	})
}

func poolText(name, class, requirements string) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements: [%s]
`, name, class, requirements)
}

func claimOf(pool string, uid types.UID, i int) *karpv1.NodeClaim {
	name := fmt.Sprintf("%s-%d", pool, i)
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("claim-" + name),
			Labels:          map[string]string{karpv1.NodePoolLabelKey: pool, "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: pool, UID: uid}},
		},
		Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: render.EC2NodeClass, Name: "default"}},
	}
}
