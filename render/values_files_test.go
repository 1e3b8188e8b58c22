package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// readValues reads the files with values of prod.
func readValues(t *testing.T, files map[string]string) ([]map[string]any, *render.Files, error) {
	t.Helper()
	snap := folder(files)
	karpenter, err := render.ReadKarpenter(snap, "prod")
	if err != nil {
		t.Fatal(err)
	}
	read := render.NewFiles(snap)
	values, err := karpenter.ReadValues(read, "prod")
	return values, read, err
}

func TestReadValues(t *testing.T) {
	values, read, err := readValues(t, map[string]string{
		"prod/plumbline.yaml": plumblineYAML + "valuesFiles: [./values.yaml, ../shared.yaml, ./empty.yaml]\n",
		"prod/values.yaml":    "replicas: 1\naffinity: null\nsettings: {clusterName: demo}\n",
		"shared.yaml":         "logLevel: debug\n",
		"prod/empty.yaml":     "# nothing\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"replicas": int64(1), "affinity": nil, "settings": map[string]any{"clusterName": "demo"}}, {"logLevel": "debug"}, nil,
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	changed := folder(map[string]string{"prod/values.yaml": "replicas: 2\n", "shared.yaml": "logLevel: debug\n", "prod/empty.yaml": "# nothing\n"})
	if unchanged, err := read.Inputs().Unchanged(changed); err != nil || unchanged {
		t.Errorf("a commit that changes one goes unnoticed: %t, %v", unchanged, err)
	}
}

func TestReadValuesThatAreNone(t *testing.T) {
	head := plumblineYAML + "valuesFiles: [./values.yaml]\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"missing":            {"", []string{`prod/plumbline.yaml: valuesFiles entry "./values.yaml" is not in the repository`}},
		"no YAML":            {"a: [", []string{"prod/values.yaml"}},
		"a list":             {"- a\n", []string{"prod/values.yaml:1: it holds no map of values"}},
		"two documents":      {"a: 1\n---\nb: 1\n", []string{"prod/values.yaml:3: it holds 2 documents"}},
		"a definition":       {pool("batch"), []string{"prod/values.yaml:2: it is a NodePool and not values: as one of valuesFiles it would be no definition any more"}},
		"another cluster":    {"settings:\n  clusterName: other\n", []string{"prod/values.yaml:2: settings.clusterName is \"other\" and cluster.name is \"demo\": Karpenter knows its instances by this name only, so that of two clusters with the same name each ends the other's nodes within seconds, as orphans of its own"}},
		"a name for the pod": {"controller: {env: [{name: CLUSTER_NAME, value: other}]}\n", []string{"prod/values.yaml:1: controller.env[0] (CLUSTER_NAME) is \"other\" and cluster.name is \"demo\""}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"prod/plumbline.yaml": head}
			if tc.text != "" {
				files["prod/values.yaml"] = tc.text
			}
			_, _, err := readValues(t, files)
			expectErrors(t, err, tc.want)
		})
	}
}

// TestValuesFilesAreNoDefinitions, though they lie among them.
func TestValuesFilesAreNoDefinitions(t *testing.T) {
	set, err := renderAll(t, folder(map[string]string{
		"prod/plumbline.yaml": plumblineYAML + "valuesFiles: [./values.yaml]\n",
		"prod/values.yaml":    "replicas: 1\n",
		"prod/pool.yaml":      pool("general"),
		"prod/class.yaml":     class("default"),
	}), "prod", embedded(t))
	if err != nil || len(set.Objects) != 2 {
		t.Errorf("%v, %v", set, err)
	}
}
