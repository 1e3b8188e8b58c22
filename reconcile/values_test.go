package reconcile

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// marker is the content of a Secret, and must not be reported.
const marker = `hunter2 "is" <marked>`

// objectMeta returns that of an object in the NodeSync's namespace.
func objectMeta(name string, labelled bool) metav1.ObjectMeta {
	object := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}
	if labelled {
		object.Labels = map[string]string{v1alpha1.ValuesLabel: "true"}
	}
	return object
}

func secretWith(name string, labelled bool, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: objectMeta(name, labelled), Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func configWith(name string, labelled bool, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: objectMeta(name, labelled), Data: data}
}

// from returns an entry of valuesFrom.
func from(kind, name string) render.ValuesFrom {
	return render.ValuesFrom{Kind: kind, Name: name, ValuesKey: "values.yaml"}
}

// TestValuesAreMerged shows that values from objects, files and plumbline.yaml are merged; later ones override earlier
// ones.
func TestValuesAreMerged(t *testing.T) {
	b := newBed(t, nodeSync(unchanged),
		configWith("first", true, map[string]string{"values.yaml": "a: first\nb: first\nc: first\nd: first\nm: {first: 1}\n"}),
		secretWith("second", true, map[string]string{"values.yaml": "b: second\nc: second\nd: second\nm: {second: 2}\n", "password": "hunter2"}),
	)
	p := b.installing()
	password := from(render.FromSecret, "second")
	password.ValuesKey, password.TargetPath = "password", "settings.password"
	absent := from(render.FromSecret, "absent")
	absent.Optional = true
	p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromConfigMap, "first"), absent, from(render.FromSecret, "second"), password}
	p.want.Karpenter.ValuesFiles = []string{"v.yaml"}
	p.want.FileValues = []map[string]any{{"c": "file", "d": "file"}}
	p.want.Karpenter.Values = map[string]any{"d": "inline"}
	if err := p.desiredStep().MergeValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": "first", "b": "second", "c": "file", "d": "inline",
		"m": map[string]any{"first": 1.0, "second": 2.0}, "settings": map[string]any{"password": "hunter2"},
	}
	if diff := cmp.Diff(want, p.want.Values.Merged); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2", "hunter2", "second"}, p.want.Values.Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

// TestAChangeOfASecretIsAChangeOfTheCharts shows this, and that the status contains nothing from which the value could
// be guessed.
func TestAChangeOfASecretIsAChangeOfTheCharts(t *testing.T) {
	secret := secretWith("s", true, map[string]string{"values.yaml": "replicas: 1\n"})
	b := newBed(t, nodeSync(unchanged), secret)
	identity := func() string {
		t.Helper()
		p := b.installing()
		p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "s")}
		if err := p.desiredStep().MergeValues(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := p.chartStep().Identity()
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := identity()
	if again := identity(); again != first {
		t.Errorf("%s and %s of the same", first, again)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["values.yaml"] = []byte("replicas: 2\n")
	if err := b.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if changed := identity(); changed == first {
		t.Error("a change goes unnoticed")
	}
}

func TestValuesThatAreNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		object client.Object
		from   render.ValuesFrom
		want   string
	}{
		"no object":    {configWith("other", true, nil), from(render.FromSecret, "s"), "values of secret s, key values.yaml: it does not exist in namespace plumbline-system: create it with label plumbline.dev/values=true"},
		"another kind": {configWith("s", true, nil), from(render.FromSecret, "s"), "it does not exist"},
		"no label":     {secretWith("s", false, map[string]string{"values.yaml": "a: b"}), from(render.FromSecret, "s"), "kubectl label Secret s -n plumbline-system plumbline.dev/values=true"},
		"no key":       {configWith("s", true, map[string]string{"other.yaml": "a: b"}), from(render.FromConfigMap, "s"), "the key does not exist"},
		"elsewhere":    {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s", Labels: map[string]string{v1alpha1.ValuesLabel: "true"}}}, from(render.FromSecret, "s"), "it does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), c.object)
			p := b.installing()
			p.want.Karpenter.ValuesFrom = []render.ValuesFrom{c.from}
			err := p.desiredStep().MergeValues(t.Context())
			if f := fault.Classify(err); f == nil || f.Class != fault.Waiting || !strings.Contains(f.Error(), c.want) {
				t.Errorf("MergeValues() = %v, want %q", err, c.want)
			}
			p.want.Karpenter.ValuesFrom[0].Optional = true
			if err := p.desiredStep().MergeValues(t.Context()); err != nil {
				t.Errorf("optional: %v", err)
			}
		})
	}
}

// TestValuesOfAnotherNodeSync shows that a commit of another NodeSync's repository cannot use a Secret that is labelled
// for values, not even as an optional one.
func TestValuesOfAnotherNodeSync(t *testing.T) {
	for names, refused := range map[string]bool{"": true, "prod-us": true, "prod": false, "prod-us, prod": false} {
		t.Run(names, func(t *testing.T) {
			secret := secretWith("s", true, map[string]string{"values.yaml": "a: " + marker})
			secret.Annotations = map[string]string{v1alpha1.NodeSyncsAnnotation: names}
			b := newBed(t, nodeSync(unchanged), secret)
			for _, optional := range []bool{false, true} {
				p := b.installing()
				entry := from(render.FromSecret, "s")
				entry.Optional = optional
				p.want.Karpenter.ValuesFrom = []render.ValuesFrom{entry}
				err := p.desiredStep().MergeValues(t.Context())
				var is *grant.RefusedError
				if errors.As(err, &is) != refused || !refused && err != nil {
					t.Errorf("MergeValues() = %v", err)
				}
				if refused && (p.want.Values.Merged != nil || strings.Contains(err.Error(), "hunter2")) {
					t.Errorf("it was read: %v, %v", p.want.Values.Merged, err)
				}
			}
		})
	}
}

// TestInstalledChartsStayWhereValuesAreMissing shows that a deleted Secret blocks neither definitions nor removals.
func TestInstalledChartsStayWhereValuesAreMissing(t *testing.T) {
	one := release.Release{Status: release.Deployed, Mark: release.Mark{Version: "1.14.1"}}
	b := newBed(t, nodeSync(unchanged), installtest.Installed()...)
	b.install.Known = release.State{CRDs: one, Controller: one}
	p := b.installing()
	p.want.Charts = nil
	p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "gone")}
	if err := p.resolveCharts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.installCharts(t.Context()); err != nil || len(b.install.Asked) > 0 {
		t.Errorf("%v; Helm was asked %v", err, b.install.Asked)
	}
	v := p.verdict()
	if v.Class != status.Working || v.Reason != v1alpha1.ReasonWaiting || !strings.Contains(v.Message, "secret gone, key values.yaml: it does not exist") {
		t.Errorf("verdict: %+v", v)
	}
}

// TestConfigureReadsValuesFiles shows that values files are the commit's own: an unreadable one is an error of the
// commit.
func TestConfigureReadsValuesFiles(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	head := "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: c, region: eu-west-1}\nversion: 1.14.1\n"
	p.snapshot = &render.Snapshot{FS: fstest.MapFS{
		"prod/plumbline.yaml": {Data: []byte(head + "valuesFiles: [./v.yaml]\n")}, "prod/v.yaml": {Data: []byte("replicas: 3\n")},
	}}
	if err := p.desire((*evaluate.DesiredStep).Configure)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]any{{"replicas": int64(3)}}, p.want.FileValues); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := p.want.Files.Inputs()["prod/v.yaml"]; !ok {
		t.Errorf("it is no input: %v", p.want.Files.Inputs())
	}
	p.snapshot.FS.(fstest.MapFS)["prod/v.yaml"].Data = []byte("- a\n")
	if f := fault.Classify(p.desire((*evaluate.DesiredStep).Configure)(t.Context())); f == nil || f.Reason != v1alpha1.ReasonInvalid {
		t.Errorf("configure() = %v", f)
	}
}

// TestNothingChangedAsksNothing shows that, once the charts are installed, neither Helm nor the API server is queried:
// if they failed, the second reconcile would. Values come from the cache; that the charts do too is tested for the
// Store.
func TestNothingChangedAsksNothing(t *testing.T) {
	objects := append(installtest.Installed(), secretWith("s", true, map[string]string{"values.yaml": "replicas: 3\n"}))
	b := newBed(t, nodeSync(unchanged), objects...)
	found := installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1"))
	found.CRDDigest, found.Digest = "sha256:c", "sha256:d"
	b.Charts = pulled{charts: found}
	look := func() {
		t.Helper()
		p := b.installing()
		p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "s")}
		if err := p.resolveCharts(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if p.sync.Status.Karpenter.Identity, err = p.chartStep().Identity(); err != nil {
			t.Fatal(err)
		}
		if err := p.installCharts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if got := b.install.Asked[charts.ControllerChart]; got != 1 {
		t.Errorf("Helm was asked %d times at first, want once", got)
	}
	b.Cluster.Helm, b.Cluster.Uncached = nil, nil
	look()
}
