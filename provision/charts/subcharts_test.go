package charts

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// TestSubcharts: the same rules apply to a chart within a chart.
func TestSubcharts(t *testing.T) {
	var asked atomic.Int32
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer host.Close()
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type": "string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const alone = "is no schema by itself"
	for name, tc := range map[string]struct{ file, text, want string }{
		"a schema of its own":     {"values.schema.json", `{"$defs": {"a": {"type": "object"}}, "properties": {"b": {"$ref": "#/$defs/a"}}}`, ""},
		"a schema of a draft":     {"values.schema.json", `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}`, ""},
		"a URL in its schema":     {"values.schema.json", `{"$ref": "` + host.URL + `/s.json"}`, alone},
		"a URL as its dialect":    {"values.schema.json", `{"$schema": "` + host.URL + `/meta.json"}`, alone},
		"a URL by its base":       {"values.schema.json", `{"$id": "` + host.URL + `/", "properties": {"a": {"$ref": "s.json"}}}`, alone},
		"a file in its schema":    {"values.schema.json", `{"$ref": "file://` + file + `"}`, alone},
		"a URN in its schema":     {"values.schema.json", `{"$ref": "urn:example:anything"}`, alone},
		"a schema that is none":   {"values.schema.json", `{"type": 7}`, alone},
		"a lookup":                {"templates/a.yaml", `{{ lookup "v1" "Secret" "" "" }}`, "calls lookup"},
		"a hook":                  {"templates/a.yaml", "kind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}\n", "is a Helm hook"},
		"a name with a space":     {"Chart.yaml", "apiVersion: v2\nname: \"a b\"\nversion: 1.0.0\n", "has a name with other characters"},
		"a name with a line feed": {"Chart.yaml", "apiVersion: v2\nname: \"a\\nb\"\nversion: 1.0.0\n", "has a name with other characters"},
	} {
		for _, where := range []string{"karpenter/", "karpenter/charts/a/", "karpenter/charts/a/charts/b/"} {
			if tc.file == "Chart.yaml" && where == "karpenter/" {
				continue // identify compares that one
			}
			t.Run(name+", in "+where, func(t *testing.T) {
				files := map[string]string{
					"karpenter/Chart.yaml":                   chartYAML,
					"karpenter/charts/a/Chart.yaml":          "apiVersion: v2\nname: a\nversion: 1.0.0\n",
					"karpenter/charts/a/charts/b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n",
				}
				if tc.file == "Chart.yaml" {
					files[where+"templates/a.yaml"] = "kind: A\n"
				}
				files[where+tc.file] = tc.text
				_, err := Render(t.Context(), nil, loaded(t, files), Rendering{
					Release: "karpenter", Namespace: "kube-system", Revision: 1,
					Values: map[string]any{"a": map[string]any{"b": map[string]any{}}},
				})
				var failed *RenderError
				var looks *LookupError
				var hook *HookError
				switch {
				case tc.want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("error %v, want %q", err, tc.want)
				case err != nil && !errors.As(err, &failed) && !errors.As(err, &looks) && !errors.As(err, &hook):
					t.Errorf("error of type %T", err)
				}
			})
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the host of a schema was asked %d times", n)
	}
}

func loaded(t *testing.T, files map[string]string) (c *chart.Chart) {
	t.Helper()
	var headers []tar.Header
	var contents [][]byte
	for name, text := range files {
		headers, contents = append(headers, tar.Header{Name: name}), append(contents, []byte(text))
	}
	read, err := loader.LoadArchive(bytes.NewReader(pack(t, headers...)(contents...)))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestNamesOfFiles: Helm writes the name of each template into the manifest, as a comment.
func TestNamesOfFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file    string
		refused bool
	}{
		"as released":           {"karpenter/templates/_helpers.tpl", false},
		"a CRD":                 {"karpenter/crds/karpenter.sh_nodepools.yaml", false},
		"a hidden file":         {"karpenter/.helmignore", false},
		"a version":             {"karpenter/docs/v1.0.0+build@1.md", false},
		"a line feed":           {"karpenter/templates/a\n---\nkind: Secret\n.yaml", true},
		"a carriage return":     {"karpenter/templates/a\rkind: Secret.yaml", true},
		"a next line":           {"karpenter/templates/a\u0085b.yaml", true},
		"a line separator":      {"karpenter/templates/a\u2028b.yaml", true},
		"a paragraph separator": {"karpenter/templates/a\u2029b.yaml", true},
		"a tab":                 {"karpenter/templates/a\tb.yaml", true},
		"a space":               {"karpenter/templates/a b.yaml", true},
		"a zero byte":           {"karpenter/templates/a\x00b.yaml", true},
		"no text":               {"karpenter/templates/a\xff.yaml", true},
		"another separator":     {`karpenter\templates\a.yaml`, true},
		"a template's braces":   {"karpenter/templates/{{ .Values }}.yaml", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkName(tc.file)
			if (err != nil) != tc.refused {
				t.Fatalf("error %v", err)
			}
			if strings.ContainsRune(tc.file, 0) {
				return // tar does not support it
			}
			_, err = open(ControllerChart, "1.14.1", func() ([]byte, error) { return chartWith(t, tc.file, nil), nil })()
			var malformed *MalformedError
			if errors.As(err, &malformed) != tc.refused {
				t.Errorf("as an archive: %v", err)
			}
		})
	}
}
