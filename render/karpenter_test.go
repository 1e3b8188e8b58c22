package render_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

func TestChartRepository(t *testing.T) {
	for name, tc := range map[string]struct {
		repository, path, want string
		inside                 bool
	}{
		"a registry":      {"oci://host/a", "prod", "oci://host/a", false},
		"below":           {"./charts", "./clusters/prod/", "clusters/prod/charts", true},
		"shared":          {"../../charts", "clusters/prod", "charts", true},
		"the folder":      {".", "clusters/prod", "clusters/prod", true},
		"the one above":   {"..", "clusters/prod", "clusters", true},
		"of the root":     {"./charts", "./", "charts", true},
		"the root itself": {"./", "", ".", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &render.Karpenter{Repository: tc.repository}
			got, inside, err := k.ChartRepository(tc.path)
			if err != nil || got != tc.want || inside != tc.inside {
				t.Errorf("%q, %t, %v; want %q, %t", got, inside, err, tc.want, tc.inside)
			}
		})
	}
}

// TestChartsAreNoDefinitions: unpacked charts below the path are skipped, but files of them that were read are inputs
// of the Set.
func TestChartsAreNoDefinitions(t *testing.T) {
	files := map[string]string{
		"prod/plumbline.yaml":                plumblineYAML + "repository: ./charts\n",
		"prod/pool.yaml":                     pool("general"),
		"prod/class.yaml":                    class("default"),
		"prod/charts/karpenter/Chart.yaml":   "name: karpenter\n",
		"prod/charts/karpenter/a/b.yaml":     "{{ not yaml }}\n",
		"prod/charts/karpenter-1.14.1.tgz":   "archive",
		"prod/charts/karpenter-crd/large":    strings.Repeat("x", 2<<20),
		"prod/charts-of-another/nodes.yaml":  pool("other"),
		"prod/charts/plumbline.yaml":         "a second one\n",
		"prod/charts/karpenter-2.0.0.tgz":    "another",
		"prod/charts/karpenter-crd/Chart.md": "",
	}
	snap := folder(files)
	read := render.NewFiles(snap)
	for _, name := range []string{"prod/charts/karpenter-1.14.1.tgz", "prod/charts/karpenter-crd/large"} {
		if _, err := fs.ReadFile(read, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fs.Stat(read, "prod/charts/absent"); err == nil {
		t.Fatal("there is no such file")
	}
	set, err := renderAll(t, snap, "prod", embedded(t), render.WithInputs(read.Inputs()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range set.Objects {
		names = append(names, object.Ref.String())
	}
	if diff := cmp.Diff([]string{"EC2NodeClass/default", "NodePool/general", "NodePool/other"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{
		"prod/charts/karpenter-1.14.1.tgz": true, "prod/charts/absent": true, "prod/charts/karpenter-crd/large": true,
		"prod/charts/karpenter-2.0.0.tgz": false, "prod/charts/karpenter/Chart.yaml": false,
	} {
		if _, got := set.Inputs[name]; got != want {
			t.Errorf("%s is an input: %t, want %t", name, got, want)
		}
		files[name] += "changed"
		if unchanged, err := set.Inputs.Unchanged(folder(files)); err != nil || unchanged == want {
			t.Errorf("%s changed: unchanged = %t, %v", name, unchanged, err)
		}
		files[name] = strings.TrimSuffix(files[name], "changed")
		if files[name] == "" {
			delete(files, name)
		}
	}
}

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
		"a definition":       {pool("batch"), []string{"prod/values.yaml:2: it contains a NodePool, not chart values: as one of valuesFiles it would no longer be a definition"}},
		"another cluster":    {"settings:\n  clusterName: other\n", []string{"prod/values.yaml:2: settings.clusterName is \"other\" and cluster.name is \"demo\": Karpenter identifies its instances by this name only: of two clusters with the same name, each terminates the other's nodes within seconds, as orphans of its own"}},
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

// TestValuesFilesAreNoDefinitions: they may be in the same folder.
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

// TestShownDigest: people read and type one short word, which differs if any of the first 130 bits does.
func TestShownDigest(t *testing.T) {
	raw := sha256.Sum256([]byte("a plan"))
	of := func(sum [32]byte) string { return render.ShownDigest("sha256:" + hex.EncodeToString(sum[:])) }
	shown := of(raw)
	if len(shown) != 26 || strings.Trim(shown, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("shown as %q", shown)
	}
	for bit := range 130 {
		other := raw
		other[bit/8] ^= 0x80 >> (bit % 8)
		if of(other) == shown {
			t.Errorf("bit %d is not in %s", bit, shown)
		}
	}
}

// TestNamesDigest: a digest is named in full, in one of its two forms.
func TestNamesDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("1f0c9a3b", 8)
	shown := render.ShownDigest(digest)
	for typed, want := range map[string]bool{
		digest: true, shown: true,
		"": false, "sha256:": false, digest[:19]: false, digest[:len(digest)-1]: false, digest + "0": false,
		shown[:25]: false, shown + "a": false, strings.ToUpper(shown): false, digest[len("sha256:"):]: false,
	} {
		if got := render.NamesDigest(typed, digest); got != want {
			t.Errorf("%q names it: %t", typed, got)
		}
	}
	if render.NamesDigest("", "") {
		t.Error("nothing names nothing")
	}
}
