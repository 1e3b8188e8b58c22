package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/render/schema"
)

// The goldens of this file are responses of a real API server with the CRDs of LTSVersion, which have more rules than
// those of EmbeddedVersion:
//
//	go test ./render/schema -run Truth -update -kubeconfig …
//
// queries one again. It creates and deletes objects and CRDs.
var (
	update     = flag.Bool("update", false, "rewrite the goldens")
	kubeconfig = flag.String("kubeconfig", "", "an empty cluster to ask, with -update")
)

// truth is the API server's response for an object.
type truth struct {
	// Fields is the managedFields entry after a server-side apply.
	Fields json.RawMessage `json:"fields,omitempty"`
	// Spec with defaults.
	Spec any `json:"spec,omitempty"`
	// Causes of a refusal.
	Causes []string `json:"causes,omitempty"`
}

func newValidator(t *testing.T) *schema.Validator {
	t.Helper()
	crds, err := schema.EmbeddedOf(schema.LTSVersion)
	if err != nil {
		t.Fatal(err)
	}
	validator, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

func TestTruthAccepted(t *testing.T) {
	validator := newValidator(t)
	each(t, "accepted", func(t *testing.T, objects []*unstructured.Unstructured, server *server) truth {
		object := objects[0]
		if server != nil {
			return server.apply(object)
		}
		if errs := validator.Validate(t.Context(), object); len(errs) > 0 {
			t.Errorf("refused: %v", errs)
		}
		set, err := validator.FieldSet(object)
		if err != nil {
			t.Fatal(err)
		}
		defaulted := object.DeepCopy()
		validator.Default(defaulted)
		return truth{Fields: fieldsOf(t, set), Spec: defaulted.Object["spec"]}
	})
}

func TestTruthRefused(t *testing.T) {
	validator := newValidator(t)
	each(t, "refused", func(t *testing.T, objects []*unstructured.Unstructured, server *server) truth {
		if server != nil {
			return truth{Causes: server.refuse(objects[0])}
		}
		return truth{Causes: causes(validator.Validate(t.Context(), objects[0]))}
	})
}

func TestTruthTransitions(t *testing.T) {
	validator := newValidator(t)
	each(t, "transitions", func(t *testing.T, objects []*unstructured.Unstructured, server *server) truth {
		if server != nil {
			return truth{Causes: server.replace(objects[0], objects[1])}
		}
		old := objects[0].DeepCopy()
		validator.Default(old)
		found := causes(validator.ValidateUpdate(t.Context(), objects[1], old))
		if by := objects[1].DeepCopy(); len(validator.Validate(t.Context(), by)) == 0 {
			validator.Default(by)
			if diff := cmp.Diff(found, causes(validator.ValidateTransition(t.Context(), by, old))); diff != "" {
				t.Errorf("of an object that is valid by itself ValidateTransition finds others (-all +transitions):\n%s", diff)
			}
		}
		return truth{Causes: found}
	})
}

// each runs a case for each file of a folder and compares it with its golden.
func each(t *testing.T, folder string, run func(*testing.T, []*unstructured.Unstructured, *server) truth) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	var real *server
	if *update {
		real = newServer(t, *kubeconfig)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			got := run(t, read(t, file), real)
			golden := strings.TrimSuffix(file, ".yaml") + ".golden.json"
			if *update {
				text, err := json.MarshalIndent(got, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(wanted(t, golden), plain(t, got)); diff != "" {
				t.Errorf("the API server says otherwise (-server +ours):\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, part := range bytes.Split(text, []byte("---\n")) {
		asJSON, err := yaml.YAMLToJSON(part)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(asJSON); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func wanted(t *testing.T, golden string) any {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func plain(t *testing.T, got truth) any {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func fieldsOf(t *testing.T, set *fieldpath.Set) json.RawMessage {
	t.Helper()
	text, err := set.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func causes(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Field+": "+err.ErrorBody())
	}
	slices.Sort(all)
	return all
}
