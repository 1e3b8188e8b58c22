package charts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/cli/values"
	"sigs.k8s.io/yaml"
)

// TestMergeIsHelms: the same files result in the same values as with `helm -f a -f b`.
func TestMergeIsHelms(t *testing.T) {
	files := []string{
		"replicas: 1\nsettings: {a: 1, b: {c: x, d: [1, 2]}}\naffinity: {x: 1}\n",
		"settings: {b: {c: y, d: [3]}}\naffinity: null\nnew: {k: null}\n",
		"replicas: null\nsettings: {b: {e: 0.5}}\nnew: scalar\n",
	}
	dir := t.TempDir()
	var options values.Options
	var layers []Layer
	for i, text := range files {
		name := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		options.ValueFiles = append(options.ValueFiles, name)
		layers = append(layers, Layer{Text: text})
	}
	want, err := options.MergeValues(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Merge(layers...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Values{Merged: want}, got); diff != "" {
		t.Errorf("(-helm +got):\n%s", diff)
	}
}

func TestMergeAtATarget(t *testing.T) {
	tests := map[string]struct {
		path, text string
		want       any
	}{
		"a text":            {"settings.interruptionQueue", "queue-a\n", map[string]any{"settings": map[string]any{"interruptionQueue": "queue-a", "kept": "k"}}},
		"a number":          {"replicas", "3", map[string]any{"replicas": int64(3), "settings": map[string]any{"kept": "k"}}},
		"a number in words": {"tag", `"3"`, map[string]any{"tag": "3", "settings": map[string]any{"kept": "k"}}},
		"within a list":     {"controller.env[0].value", "v", map[string]any{"controller": map[string]any{"env": []any{map[string]any{"value": "v"}}}, "settings": map[string]any{"kept": "k"}}},
		"a comma":           {"tag", `a\,b`, map[string]any{"tag": "a,b", "settings": map[string]any{"kept": "k"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Merge(Layer{Text: "settings: {kept: k}"}, Layer{Text: test.text, TargetPath: test.path})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, any(got.Merged)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestASecretSetsOneValue: text after an unescaped comma would be another path, which messages print.
func TestASecretSetsOneValue(t *testing.T) {
	for name, c := range map[string]struct {
		path, text string
		refused    bool
	}{
		"a text":                {"logLevel", "info", false},
		"an escaped comma":      {"logLevel", `info\,settings.hunter=2`, false},
		"a second path":         {"logLevel", "info,settings.hunter=2", true},
		"a second path in it":   {"settings.a", "info,settings.hunter=2", true},
		"a second item":         {"controller.env[0].value", "v,controller.env[1].hunter=2", true},
		"within a list":         {"controller.env[0].value", "v", false},
		"a list in braces":      {"tags", "{a,b}", false},
		"a quoted text":         {"logLevel", `"info"`, false},
		"a quoted second path":  {"logLevel", `"info,settings.hunter=2"`, true},
		"the same path, deeper": {"logLevel", "info,logLevel.hunter=2", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Merge(Layer{Origin: "secret s, key k", Text: c.text, TargetPath: c.path, Sealed: "uid/1"})
			if (err != nil) != c.refused || err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("Merge() = %v", err)
			}
		})
	}
}

// TestWhatASecretHoldsIsNotHashed: neither a label nor the status can be used to guess the content of a Secret.
func TestWhatASecretHoldsIsNotHashed(t *testing.T) {
	known := func(text, version string) (string, Installation) {
		t.Helper()
		merged, err := Merge(
			Layer{Origin: "secret s", Text: text, Sealed: version}, Layer{Origin: "plumbline.yaml", Values: map[string]any{"replicas": 1, "logLevel": "debug"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{strings.TrimPrefix(text, "password: ")}; !slices.Equal(want, merged.Secrets) {
			t.Errorf("secrets %v, want %v: what Git says is none", merged.Secrets, want)
		}
		into := Installation{Namespace: "kube-system", Cluster: "c", Region: "r", Values: merged.Merged, Sealed: merged.Sealed}
		chart, err := (&Charts{Version: "1.14.1"}).Chart(ControllerChart, into)
		if err != nil {
			t.Fatal(err)
		}
		fingerprint, err := chart.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		if chart.Values["password"] != merged.Secrets[0] {
			t.Errorf("the chart gets %v", chart.Values)
		}
		return fingerprint, into.Public()
	}
	oneSum, one := known("password: hunter2", "uid/1")
	sameSum, same := known("password: swordfish", "uid/1")
	if oneSum != sameSum || cmp.Diff(one, same) != "" {
		t.Errorf("they tell what the Secret holds: %v, %v; %v, %v", oneSum, sameSum, one, same)
	}
	otherSum, other := known("password: hunter2", "uid/2")
	if oneSum == otherSum || cmp.Diff(one, other) == "" {
		t.Error("a change of the Secret goes unnoticed")
	}
}

func TestLayersThatCannotBeMerged(t *testing.T) {
	for name, layer := range map[string]Layer{
		"no map":       {Text: "hunter2"},
		"no YAML":      {Text: "a: b: hunter2"},
		"a list":       {Text: "[hunter2]"},
		"two at once":  {Text: "hunter1,hunter2", TargetPath: "a"},
		"another path": {Text: "hunter2", TargetPath: "a[x]"},
	} {
		t.Run(name, func(t *testing.T) {
			layer.Origin = "secret s, key values.yaml"
			_, open := Merge(layer)
			layer.Sealed = "uid/1"
			_, sealed := Merge(layer)
			for _, err := range []error{open, sealed} {
				var wrong *LayerError
				if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "values of secret s, key values.yaml: ") {
					t.Errorf("Merge() = %v", err)
				}
			}
			if sealed != nil && strings.Contains(sealed.Error(), "hunter") {
				t.Errorf("it says what is in the Secret: %v", sealed)
			}
		})
	}
}

func TestNumbersOfASecretAreHiddenAsTheyArePrinted(t *testing.T) {
	merged, err := Merge(Layer{Text: "a: 12345678\nb: 0.25\nc: true\nd: null\ne: {f: [x]}", Sealed: "v"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0.25", "12345678", "x"}, merged.Secrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := yaml.Marshal(merged.Merged["a"]); err != nil || strings.TrimSpace(string(text)) != "12345678" {
		t.Errorf("%s, %v", text, err)
	}
}
