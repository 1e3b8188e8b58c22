package survey

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// TestWhoseEditItWas: the editor is the last writer of those that own a field that differs from the chart.
func TestWhoseEditItWas(t *testing.T) {
	image := fieldpath.MakePathOrDie("spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "controller"), "image")
	entry := func(manager, operation string, second int64, fields string) metav1.ManagedFieldsEntry {
		at := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const (
		owned     = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"controller\"}":{"f:image":{}}}}}}}`
		elsewhere = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"sidecar\"}":{"f:image":{}}}}}}}`
	)
	rules := fieldpath.MakePathOrDie("rules")
	columns := fieldpath.MakePathOrDie("spec", "versions", fieldpath.KeyByFields("name", "v1"), "additionalPrinterColumns")
	cases := map[string]struct {
		fields   []fieldpath.Path
		managers []metav1.ManagedFieldsEntry
		want     string
	}{
		"one of several": {
			[]fieldpath.Path{image},
			[]metav1.ManagedFieldsEntry{entry("plumbline", "Update", 1, `{"f:spec":{"f:replicas":{}}}`), entry("kubectl-set", "Update", 2, owned), entry("kube-controller-manager", "Update", 3, `{"f:status":{"f:replicas":{}}}`)},
			`Deployment karpenter: spec.template.spec.containers[name="controller"].image was edited by kubectl-set (Update)`,
		},
		"the last of two": {
			[]fieldpath.Path{rules},
			[]metav1.ManagedFieldsEntry{entry("late", "Apply", 3, `{"f:rules":{}}`), entry("early", "Update", 2, `{"f:rules":{}}`)},
			"Deployment karpenter: rules was edited by late (Apply)",
		},
		"the whole that it is a part of": {
			[]fieldpath.Path{columns},
			[]metav1.ManagedFieldsEntry{entry("kubectl-patch", "Update", 2, `{"f:spec":{"f:versions":{}}}`)},
			`Deployment karpenter: spec.versions[name="v1"].additionalPrinterColumns was edited by kubectl-patch (Update)`,
		},
		"nobody owns it": {
			[]fieldpath.Path{image},
			[]metav1.ManagedFieldsEntry{entry("istio", "Update", 2, elsewhere)},
			`Deployment karpenter: spec.template.spec.containers[name="controller"].image was changed by an unknown client`,
		},
		"many fields": {
			[]fieldpath.Path{fieldpath.MakePathOrDie("d"), fieldpath.MakePathOrDie("c"), fieldpath.MakePathOrDie("b"), fieldpath.MakePathOrDie("a")},
			[]metav1.ManagedFieldsEntry{entry("k9s", "Update", 2, `{"f:b":{}}`)},
			"Deployment karpenter: a, b, c and 1 more was edited by k9s (Update)",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := edited("Deployment karpenter", c.fields, c.managers)
			if diff := cmp.Diff(c.want, got.String()); err != nil || diff != "" {
				t.Errorf("edited() (-want +got):\n%s%v", diff, err)
			}
		})
	}
	gone := Drifts([]Drift{{Object: "Role kube-system/karpenter", Deleted: true}, {Object: "Service kube-system/karpenter", Fields: []string{"spec.ports"}}})
	if want := "Role kube-system/karpenter was deleted by an unknown client; Service kube-system/karpenter: spec.ports was changed by an unknown client"; gone != want {
		t.Errorf("Drifts() = %q, want %q", gone, want)
	}
}

// TestPreserve: fields of other owners keep their live values.
func TestPreserve(t *testing.T) {
	const wanted = `
kind: Deployment
metadata: {name: karpenter, labels: {a.b/c: ours}}
spec:
  replicas: 2
  template:
    spec:
      tolerations: [{key: ours}]
      containers:
      - name: controller
        image: ours
        resources: {limits: {cpu: "1"}}
        ports: [{name: http, containerPort: 8080}]
`
	const live = `
kind: Deployment
metadata: {name: karpenter, labels: {a.b/c: theirs}}
spec:
  replicas: 5
  template:
    spec:
      containers:
      - name: sidecar
        image: theirs
      - name: controller
        image: theirs
        resources: {limits: {cpu: "9"}}
        ports: [{name: http, containerPort: 8080, protocol: TCP, hostPort: 7}]
`
	const owned = `{"f:metadata":{"f:labels":{"f:a.b/c":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{` +
		`"k:{\"name\":\"controller\"}":{".":{},"f:image":{},"f:ports":{"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{"f:hostPort":{}}}},` +
		`"k:{\"name\":\"sidecar\"}":{".":{},"f:image":{}}}}}}}`
	cases := map[string]struct {
		ignored []Ignore
		// differs are the paths that have changed, with their values.
		differs map[string]any
	}{
		"nothing":      {nil, nil},
		"replicas":     {[]Ignore{Replicas()}, map[string]any{"/spec/replicas": float64(5)}},
		"another kind": {[]Ignore{{Kind: "Role", JSONPointers: []string{"/spec/replicas"}}}, nil},
		"another name": {[]Ignore{{Kind: "Deployment", Name: "other", JSONPointers: []string{"/spec/replicas"}}}, nil},
		"by name":      {[]Ignore{{Kind: "Deployment", Name: "karpenter", JSONPointers: []string{"/metadata/labels/a.b~1c"}}}, map[string]any{"/metadata/labels/a.b~1c": "theirs"}},
		"what is not there goes, and what nobody wants stays away": {
			[]Ignore{{Kind: "Deployment", JSONPointers: []string{"/spec/template/spec/tolerations", "/spec/template/spec/hostNetwork", "/spec/none/at/all", "/spec/template/spec/tolerations/3"}}},
			map[string]any{"/spec/template/spec/tolerations": nil},
		},
		"by number": {
			[]Ignore{{Kind: "Deployment", JSONPointers: []string{"/spec/template/spec/containers/0/image"}}},
			map[string]any{"/spec/template/spec/containers/0/image": "theirs"},
		},
		"by manager": {
			[]Ignore{{Kind: "Deployment", Managers: []string{"injector"}}},
			map[string]any{"/metadata/labels/a.b~1c": "theirs", "/spec/template/spec/containers/0/image": "theirs"},
		},
		"by another manager": {[]Ignore{{Kind: "Deployment", Managers: []string{"somebody"}}}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, want, lives := parsed(t, wanted), parsed(t, wanted), parsed(t, live)
			lives.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "injector", Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(owned)}})
			before := lives.DeepCopy()
			if err := Preserve(got, lives, c.ignored); err != nil {
				t.Fatal(err)
			}
			for pointer, is := range c.differs {
				path := steps(pointer)
				var parent any = want.Object
				for _, step := range path[:len(path)-1] {
					parent = reach(parent, step)
				}
				fields, last := parent.(map[string]any), *path[len(path)-1].FieldName
				if fields[last] = is; is == nil {
					delete(fields, last)
				}
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("wanted is (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, lives.Object); diff != "" {
				t.Errorf("what lives was changed:\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestASchemaIsNobodyElses: the CRD's schema is never left to another owner, not even to the one that owns it.
func TestASchemaIsNobodyElses(t *testing.T) {
	const text = "kind: CustomResourceDefinition\nspec: {versions: [{name: v1}], conversion: {strategy: %s}}"
	wanted, live := parsed(t, fmt.Sprintf(text, "None")), parsed(t, fmt.Sprintf(text, "Webhook"))
	live.Object["spec"].(map[string]any)["versions"] = []any{}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "cert-manager", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:versions":{},"f:conversion":{"f:strategy":{}}}}`)}})
	if err := Preserve(wanted, live, []Ignore{{Kind: crdKind, Managers: []string{"cert-manager"}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parsed(t, fmt.Sprintf(text, "Webhook")).Object, wanted.Object); diff != "" {
		t.Errorf("wanted is (-want +got):\n%s", diff)
	}
}
