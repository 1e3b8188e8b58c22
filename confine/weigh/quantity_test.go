package weigh_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	aws "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	core "sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

func TestQuantity(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"none":                       {"", ""},
		"a number":                   {"1000", ""},
		"a fraction":                 {"0.5", ""},
		"with a unit":                {"16Gi", ""},
		"exa":                        {"5E", ""},
		"exbi":                       {"1Ei", ""},
		"an exponent":                {"12e6", ""},
		"with signs":                 {"-12E-6", ""},
		"a percentage":               {"5%", ""},
		"the largest":                {"9223372036854775807.999999999Ki", ""},
		"no quantity":                {"one", ""},
		"a word that ends in digits": {"node1", ""},
		"a sentence":                 {"The limits of a pool, which say how large it may grow at the most: none by default.", ""},
		"digits":                     {strings.Repeat("9", 900_000), "this one has 900000"},
		"leading zeros":              {strings.Repeat("0", 900_000) + "1", "this one has 900001"},
		"digits of a fraction":       {"0." + strings.Repeat("9", 100), "this one has 102"},
		"an exponent of ten digits":  {"1e1000000000", `this one is "1e1000000000"`},
		"of many digits":             {"1E" + strings.Repeat("9", 40), "at most 99"},
		"the other way":              {"1e-1000000", "at most 99"},
		"with a plus":                {"1e+100", "at most 99"},
		"among blanks":               {" 1e100 ", "at most 99"},
		"an expression":              {"100 + (vcpus * 30) + (max_pods > 110 ? max_pods * 11 : max_pods * 8) + 10", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := weigh.Quantity(tc.text)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestQuantities(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"volumeSize": "1e1000"}, "limits": map[string]any{"a": "1e1000"}},
		"spec": map[string]any{
			"limits": map[string]any{"cpu": "1e100", "memory": "5Gi", "pods": int64(7)},
			"tags":   map[string]any{"volumeSize": "12e4567"},
			"blockDeviceMappings": []any{
				map[string]any{"ebs": map[string]any{"volumeSize": "20Gi"}},
				map[string]any{"ebs": map[string]any{"volumeSize": "20e200"}},
			},
			"kubelet": map[string]any{
				"kubeReserved":           map[string]any{"cpu": "1e300"},
				"evictionMinimumReclaim": map[string]any{"pid.available": "1e300"},
			},
			"role": "12e4567",
			"versions": []any{map[string]any{"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"limits": map[string]any{"description": "1 and more of " + strings.Repeat("x", 100)},
			}}}},
		},
	}
	want := []string{"spec.blockDeviceMappings[1].ebs.volumeSize", "spec.kubelet.evictionMinimumReclaim.pid.available", "spec.kubelet.kubeReserved.cpu", "spec.limits.cpu"}
	var got []string
	for _, one := range weigh.Quantities(object) {
		got = append(got, one.Path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("quantities (-want +got):\n%s", diff)
	}
}

// TestEveryQuantityIsWeighed: excessive quantities are found in every field of the types into which definitions and
// charts are decoded.
func TestEveryQuantityIsWeighed(t *testing.T) {
	for _, read := range []any{
		karpv1.NodePool{},
		aws.EC2NodeClass{},
		appsv1.Deployment{},
		corev1.Service{},
		corev1.ServiceAccount{},
		policyv1.PodDisruptionBudget{},
		rbacv1.ClusterRole{},
	} {
		kind := reflect.TypeOf(read)
		objects := heavy(kind, nil)
		if count := len(objects); count == 0 && (kind.Name() == "NodePool" || kind.Name() == "EC2NodeClass" || kind.Name() == "Deployment") {
			t.Errorf("%s: no quantity was found in the type", kind.Name())
		}
		for path, object := range objects {
			if len(weigh.Quantities(object.(map[string]any))) == 0 {
				t.Errorf("%s: a quantity in %s is not weighed", kind.Name(), path)
			}
		}
	}
}

// TestACRDHasNoQuantities: a CRD's schema has fields named like those of a quantity, and a description of each.
func TestACRDHasNoQuantities(t *testing.T) {
	for _, crd := range slices.Concat(core.CRDs, awsapis.CRDs) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			t.Fatal(err)
		}
		if unfit := weigh.Quantities(object); len(unfit) > 0 {
			t.Errorf("%s: %+v", crd.Name, unfit[0])
		}
	}
}

// heavy returns values of a type by the path of the one field that each sets: an excessive quantity. Metadata and
// status are skipped.
func heavy(kind reflect.Type, above []reflect.Type) map[string]any {
	found := map[string]any{}
	for _, one := range above {
		if one == kind {
			return found
		}
	}
	above = append(above[:len(above):len(above)], kind)
	switch {
	case kind == reflect.TypeFor[resource.Quantity]():
		found[""] = "1e100"
	case kind.Kind() == reflect.Pointer:
		return heavy(kind.Elem(), above)
	case kind.Kind() == reflect.Slice:
		for path, value := range heavy(kind.Elem(), above) {
			found["[]"+path] = []any{value}
		}
	case kind.Kind() == reflect.Map:
		for path, value := range heavy(kind.Elem(), above) {
			found[".key"+path] = map[string]any{"key": value}
		}
	case kind.Kind() == reflect.Struct:
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			for path, value := range heavy(field.Type, above) {
				switch {
				case options == "inline" || name == "" && field.Anonymous:
					found[path] = value
				case name != "metadata" && name != "status" && name != "-" && name != "":
					found["."+name+path] = map[string]any{name: value}
				}
			}
		}
	}
	return found
}

func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"1", "16Gi", "0.5", "-12E-6", "1e99", "9e-99", " 1e+9 ", "1e1000000000", strings.Repeat("9", 64), strings.Repeat("9", 61) + "e99", "1ee5", "1E5E"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if weigh.Quantity(text) != nil {
			return
		}
		began := time.Now()
		if quantity, err := resource.ParseQuantity(strings.TrimSpace(text)); err == nil {
			_, _ = quantity.Cmp(resource.MustParse("5")), quantity.String()
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%q took %s to read", text, took)
		}
	})
}
