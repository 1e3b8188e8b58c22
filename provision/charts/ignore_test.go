package charts

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestYield: of what is wanted nothing is left in the fields that are somebody
// else's.
func TestYield(t *testing.T) {
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
		// differs are the paths that are not as they were, with what they are.
		differs map[string]any
	}{
		"nothing":      {nil, nil},
		"replicas":     {[]Ignore{replicas()}, map[string]any{"/spec/replicas": float64(5)}},
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
			if err := yield(got, lives, c.ignored); err != nil {
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

// TestASchemaIsNobodyElses: not even that of who owns it.
func TestASchemaIsNobodyElses(t *testing.T) {
	const text = "kind: CustomResourceDefinition\nspec: {versions: [{name: v1}], conversion: {strategy: %s}}"
	wanted, live := parsed(t, fmt.Sprintf(text, "None")), parsed(t, fmt.Sprintf(text, "Webhook"))
	live.Object["spec"].(map[string]any)["versions"] = []any{}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "cert-manager", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:versions":{},"f:conversion":{"f:strategy":{}}}}`)}})
	if err := yield(wanted, live, []Ignore{{Kind: crdKind, Managers: []string{"cert-manager"}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parsed(t, fmt.Sprintf(text, "Webhook")).Object, wanted.Object); diff != "" {
		t.Errorf("wanted is (-want +got):\n%s", diff)
	}
}

// TestReplicasAreLeftToWhoeverScales by a repair and an upgrade, unless Git asks
// for another number.
func TestReplicasAreLeftToWhoeverScales(t *testing.T) {
	cases := map[string]struct {
		change func(*bed)
		want   float64
	}{
		"a repair":          {func(b *bed) { field(b.api.objects[deploymentPath], "spec")["minReadySeconds"] = 7 }, 5},
		"other values":      {func(b *bed) { b.into.Values = map[string]any{"settings": map[string]any{"batchIdleDuration": "2s"}} }, 5},
		"the same, in Git":  {func(b *bed) { b.into.Values = map[string]any{"replicas": 2} }, 5},
		"another version":   {func(b *bed) { b.charts = stored("1.15.0", crdArchive(b.T, "1.15.0"), controllerArchive(b.T, "1.15.0")) }, 5},
		"another number":    {func(b *bed) { b.into.Values = map[string]any{"replicas": 3} }, 3},
		"it was never made": {func(b *bed) { delete(b.api.objects, deploymentPath) }, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			field(b.api.objects[deploymentPath], "spec")["replicas"] = float64(5)
			c.change(b)
			result, err := b.controller()
			if err != nil || !result.Changed {
				t.Fatalf("ensure = %+v, %v", result, err)
			}
			if got := field(b.api.objects[deploymentPath], "spec")["replicas"]; got != c.want {
				t.Errorf("%v replicas, want %v", got, c.want)
			}
		})
	}
}

// TestWhatIsIgnoredIsNeitherComparedNorWritten.
func TestWhatIsIgnoredIsNeitherComparedNorWritten(t *testing.T) {
	b := newBed(t)
	b.both()
	b.into.Ignored = []Ignore{{Kind: "Deployment", JSONPointers: []string{"/spec/minReadySeconds"}}}
	spec := func() map[string]any { return field(b.api.objects[deploymentPath], "spec") }
	spec()["minReadySeconds"] = float64(7)
	if result, err := b.controller(); err != nil || result.Step != Keep {
		t.Fatalf("ensure = %+v, %v; want nothing done", result, err)
	}
	b.into.Values = map[string]any{"replicas": 3}
	if result, err := b.controller(); err != nil || result.Step != Upgrade {
		t.Fatalf("ensure = %+v, %v", result, err)
	}
	if spec()["minReadySeconds"] != float64(7) || spec()["replicas"] != float64(3) {
		t.Errorf("afterwards it is %v", spec())
	}
	b.into.Ignored = nil
	if result, err := b.controller(); err != nil || result.Step != Repair || spec()["minReadySeconds"] != float64(3) {
		t.Errorf("ignored no more: %+v, %v; it is %v", result, err, spec())
	}
}
