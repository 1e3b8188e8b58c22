package schema

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestReleasedCRDsAreLight: no CRD of Karpenter is close to the limits.
func TestReleasedCRDsAreLight(t *testing.T) {
	crds, _, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		var w weight
		for _, version := range crd.Spec.Versions {
			w.schema(version.Name+":", version.Schema.OpenAPIV3Schema)
		}
		t.Logf("%s: %d KiB of %d KiB, %d KiB of it at %s; %d values of defaults of %d", crd.Name, w.sum>>10, maxWeight>>10, w.most>>10, w.path, w.defaults, maxDefaults)
		if w.sum == 0 || w.sum > maxWeight/5 || w.defaults > maxDefaults/5 {
			t.Errorf("%s weighs %d bytes, and %d is the limit", crd.Name, w.sum, maxWeight)
		}
	}
}

// withPatterns returns the CRD of NodePools whose labels must match patterns.
func withPatterns(t *testing.T, patterns ...string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, _, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Name != "nodepools.karpenter.sh" {
			continue
		}
		labels := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"].Properties["metadata"].Properties["labels"]
		for _, pattern := range patterns {
			labels.AdditionalProperties.Schema.AllOf = append(labels.AdditionalProperties.Schema.AllOf, apiextensionsv1.JSONSchemaProps{Pattern: pattern})
		}
		return []*apiextensionsv1.CustomResourceDefinition{crd}
	}
	t.Fatal("no NodePools")
	return nil
}

// bombs returns short patterns that compile to large programs.
func bombs() map[string][]string {
	repeated := func(i int) string {
		return fmt.Sprintf("^(%s%d)$", strings.Repeat("(a{0,30}){0,30}|", 1000), i)
	}
	var many, chained []string
	for i := range 2000 {
		many = append(many, fmt.Sprintf("^a%d$", i))
	}
	for i := range 80 {
		class := ""
		for j := range 30 {
			class += string(rune(0x4e00 + 2*(80*j+i)))
		}
		chained = append(chained, "(["+class+"]x)*")
	}
	return map[string][]string{
		"repetitions of repetitions": {repeated(1), repeated(2), repeated(3), repeated(4)},
		"classes of Unicode":         {`^` + strings.Repeat(`(?i)[\pL\pN\pS]`, 4000) + `$`},
		"repeated classes":           {`^\pL{1000}$`},
		"many patterns":              many,
		"choices with long tails":    {"^" + strings.Join(chained, "") + "$"},
	}
}

// TestPatternsThatAreTooMuch: they are refused by CRD and path before any of them is compiled.
func TestPatternsThatAreTooMuch(t *testing.T) {
	for name, patterns := range bombs() {
		t.Run(name, func(t *testing.T) {
			crds := withPatterns(t, patterns...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := New(crds)
			runtime.ReadMemStats(&after)
			var heavy *HeavyError
			at := "v1: spec.template.metadata.labels.*.allOf["
			if len(patterns) > 100 {
				at = "v1: spec.disruption.budgets[].schedule" // each of them is light
			}
			if !errors.As(err, &heavy) || heavy.CRD != "nodepools.karpenter.sh" || !strings.HasPrefix(heavy.Path, at) {
				t.Errorf("error %v", err)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 32<<20 {
				t.Errorf("%d MiB were taken to refuse it", taken>>20)
			}
		})
	}
}

// TestUnservedVersionsAreWeighed: the API server compiles their patterns, too.
func TestUnservedVersionsAreWeighed(t *testing.T) {
	crds := withPatterns(t, bombs()["repeated classes"]...)
	crds[0].Spec.Versions[0].Served = false
	var heavy *HeavyError
	if _, err := New(crds); !errors.As(err, &heavy) {
		t.Errorf("error %v", err)
	}
}

// TestWeightIsNoLessThanWhatIsTaken: the weight of patterns of many kinds is at least the memory that they take.
func TestWeightIsNoLessThanWhatIsTaken(t *testing.T) {
	alternatives := make([]string, 400)
	for i := range alternatives {
		alternatives[i] = fmt.Sprintf("%cx[0-9]", 0x4e00+2*i)
	}
	for name, pattern := range map[string]string{
		"nothing":                  ``,
		"a word":                   `^a$`,
		"a label":                  `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`,
		"a quantity":               `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`,
		"repetitions":              "^((a{0,30}){0,30}|b)$",
		"a repetition":             `^[a-z]{1,253}$`,
		"classes":                  `^\pL\pN{1,50}$`,
		"classes of any case":      `^` + strings.Repeat(`(?i)\pL`, 100) + `$`,
		"alternatives":             "^(" + strings.Join(alternatives, "|") + ")$",
		"choices with long tails":  bombs()["choices with long tails"][0],
		"groups that may be empty": "^" + strings.Repeat("(a?", 200) + strings.Repeat(")?", 200) + "$",
		"boundaries":               "^" + strings.Repeat(`\b$`, 300),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			compiled := regexp.MustCompile(pattern)
			runtime.GC()
			runtime.ReadMemStats(&after)
			if taken, weighed := int(after.HeapAlloc)-int(before.HeapAlloc), weightOf(pattern); taken > weighed {
				t.Errorf("it takes %d bytes, and weighs %d", taken, weighed)
			}
			runtime.KeepAlive(compiled)
		})
	}
}

// TestDefaultsThatMultiply: ten items in each of ten items, and so on, are a kilobyte, and a billion values once they
// are filled in.
func TestDefaultsThatMultiply(t *testing.T) {
	crds := withPatterns(t)
	below := apiextensionsv1.JSONSchemaProps{Type: "string"}
	for range 9 {
		items := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": below}}
		below = apiextensionsv1.JSONSchemaProps{
			Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items},
			Default: &apiextensionsv1.JSON{Raw: []byte("[" + strings.Repeat("{}, ", 9) + "{}]")},
		}
	}
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["many"] = below
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := New(crds)
	runtime.ReadMemStats(&after)
	var heavy *HeavyError
	if !errors.As(err, &heavy) || !heavy.Defaults || heavy.Path != "v1: spec.many" {
		t.Errorf("error %v", err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
		t.Errorf("%d MiB were taken to refuse it", taken>>20)
	}
}
