package schema_test

import (
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render/schema"
)

// least returns a NodePool with only the required fields.
func least(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return read(t, "testdata/accepted/pool-least.yaml")[0]
}

func TestUnknownFields(t *testing.T) {
	validator := newValidator(t)
	for name, tc := range map[string]struct {
		path []string
		want string
	}{
		"in spec":         {[]string{"spec", "limit"}, "spec.limit: Forbidden: unknown field: did you mean limits?"},
		"deep":            {[]string{"spec", "template", "spec", "kubelet"}, "spec.template.spec.kubelet: Forbidden: unknown field: this version of Karpenter does not have it"},
		"in metadata":     {[]string{"metadata", "label"}, "metadata.label: Forbidden: unknown field: this version of Karpenter does not have it"},
		"beside the spec": {[]string{"data"}, "data: Forbidden: unknown field: this version of Karpenter does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			object := least(t)
			if err := unstructured.SetNestedField(object.Object, "x", tc.path...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want}, causes(validator.Validate(t.Context(), object))); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{tc.want}, causes(validator.ValidateUpdate(t.Context(), object, least(t)))); diff != "" {
				t.Errorf("updated (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidationLeavesTheObjectAlone(t *testing.T) {
	validator := newValidator(t)
	object, old := least(t), least(t)
	validator.Validate(t.Context(), object)
	validator.ValidateUpdate(t.Context(), object, old)
	validator.ValidateTransition(t.Context(), object, old)
	if _, err := validator.FieldSet(object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(least(t).Object, object.Object); diff != "" {
		t.Errorf("the object was changed:\n%s", diff)
	}
	if diff := cmp.Diff(least(t).Object, old.Object); diff != "" {
		t.Errorf("the old object was changed:\n%s", diff)
	}
}

// TestWhatWasWrongBefore: what was invalid may stay unchanged, by OpenAPI and by rule, but not get worse: so a CRD that
// becomes stricter blocks no update.
func TestWhatWasWrongBefore(t *testing.T) {
	validator := newValidator(t)
	wrong := least(t)
	for path, value := range map[string]any{"weight": int64(1000), "template.spec.nodeClassRef.name": ""} {
		if err := unstructured.SetNestedField(wrong.Object, value, append([]string{"spec"}, strings.Split(path, ".")...)...); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(validator.Validate(t.Context(), wrong)); got != 2 {
		t.Fatalf("%d errors when created, want 2", got)
	}
	changed := wrong.DeepCopy()
	changed.SetLabels(map[string]string{"a": "b"})
	if errs := validator.ValidateUpdate(t.Context(), changed, wrong); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	if err := unstructured.SetNestedField(changed.Object, int64(2000), "spec", "weight"); err != nil {
		t.Fatal(err)
	}
	want := []string{"spec.weight: Invalid value: 2000: spec.weight in body should be less than or equal to 100"}
	if diff := cmp.Diff(want, causes(validator.ValidateUpdate(t.Context(), changed, wrong))); diff != "" {
		t.Errorf("made worse (-want +got):\n%s", diff)
	}
}

// TestStatusIsNobodysField: an apply through the main resource never writes the status of a kind that has it as a
// subresource.
func TestStatusIsNobodysField(t *testing.T) {
	validator := newValidator(t)
	object := least(t)
	want, err := validator.FieldSet(object)
	if err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = map[string]any{"nodes": int64(3)}
	got, err := validator.FieldSet(object)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equals(want) {
		t.Errorf("field set %s, want %s", got, want)
	}
}

func TestMetadataOfTheWrongType(t *testing.T) {
	validator := newValidator(t)
	for name, metadata := range map[string]any{"missing": nil, "a word": "x", "labels a list": map[string]any{"name": "x", "labels": []any{}}} {
		t.Run(name, func(t *testing.T) {
			object := least(t)
			object.Object["metadata"] = metadata
			if len(validator.Validate(t.Context(), object)) == 0 {
				t.Error("accepted")
			}
		})
	}
}

func TestUnknownKind(t *testing.T) {
	validator := newValidator(t)
	object := least(t)
	object.SetAPIVersion("karpenter.sh/v2")
	want := []string{`kind: Invalid value: "NodePool": no CRD of this version of Karpenter defines NodePool in karpenter.sh/v2`}
	if diff := cmp.Diff(want, causes(validator.Validate(t.Context(), object))); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, causes(validator.ValidateUpdate(t.Context(), object, object))); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	var unknown *schema.UnknownKindError
	if _, err := validator.FieldSet(object); !errors.As(err, &unknown) {
		t.Errorf("field set: error %v, want *UnknownKindError", err)
	}
	before := object.DeepCopy()
	validator.Default(object)
	if diff := cmp.Diff(before.Object, object.Object); diff != "" {
		t.Errorf("defaults were set:\n%s", diff)
	}
}

func TestNewRefusesCRDs(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		crds []*apiextensionsv1.CustomResourceDefinition
		want string
	}{
		"twice": {[]*apiextensionsv1.CustomResourceDefinition{crds[0], crds[0]}, "two CRDs define"},
		"without a schema": {func() []*apiextensionsv1.CustomResourceDefinition {
			bare := crds[0].DeepCopy()
			bare.Spec.Versions[0].Schema = nil
			return []*apiextensionsv1.CustomResourceDefinition{bare}
		}(), "has no schema"},
		"not structural": {func() []*apiextensionsv1.CustomResourceDefinition {
			loose := crds[0].DeepCopy()
			loose.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{}
			return []*apiextensionsv1.CustomResourceDefinition{loose}
		}(), "not structural"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schema.New(tc.crds); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestEmbedded(t *testing.T) {
	crds, version, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range crds {
		names = append(names, crd.Name)
	}
	want := []string{
		"ec2nodeclasses.karpenter.k8s.aws", "nodeclaims.karpenter.sh", "nodepools.karpenter.sh",
		"nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("CRDs (-want +got):\n%s", diff)
	}
	for _, module := range []string{"sigs.k8s.io/karpenter", "github.com/aws/karpenter-provider-aws"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		if linked := strings.TrimSpace(string(out)); linked != "v"+version {
			t.Errorf("%s is linked in %s, and EmbeddedVersion says %s", module, linked, version)
		}
	}
}

// TestEmbeddedOf: the CRDs of the LTS line have the same kinds, and its own fields: most clusters run it.
func TestEmbeddedOf(t *testing.T) {
	newest, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, crd := range newest {
		kinds[crd.Name] = true
	}
	for version, want := range map[string]string{
		schema.EmbeddedVersion: "enclaveOptions",
		schema.LTSVersion:      "kubelet.maxPods",
		"1.13.0":               "",
	} {
		crds, err := schema.EmbeddedOf(version)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, crd := range crds {
			if !kinds[crd.Name] {
				t.Errorf("%s: %s", version, crd.Name)
			}
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			if _, is := spec.Properties["enclaveOptions"]; is {
				got = "enclaveOptions"
			}
			if _, is := spec.Properties["kubelet"].Properties["maxPods"]; is {
				got = "kubelet.maxPods"
			}
		}
		if got != want || want != "" && len(crds) != len(kinds) {
			t.Errorf("%s: %d CRDs with %q, want %q", version, len(crds), got, want)
		}
	}
}

func TestManyAtATime(t *testing.T) {
	validator := newValidator(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			object := least(t)
			validator.Default(object)
			if errs := validator.Validate(t.Context(), object); len(errs) > 0 {
				t.Error(errs)
			}
			if _, err := validator.FieldSet(object); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
