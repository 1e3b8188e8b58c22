package render_test

import (
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

// TestChartsAreNoDefinitions: what is unpacked below the path is passed over, and
// what was read of it counts as the Set's input.
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
