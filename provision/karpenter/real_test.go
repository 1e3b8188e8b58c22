package karpenter

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/modcache"
)

// real are versions whose sources the module proxy has.
var real = []string{"1.0.8", "1.3.3", "1.6.3", "1.8.6", "1.9.3", "1.12.1", "1.14.1", "1.14.3", "1.15.0"}

// folders caches the folders of modules.
var folders sync.Map

// source returns the files of a version of Karpenter's AWS provider: charts, CRDs and the controller.
func source(t *testing.T, version string) fs.FS {
	return module(t, "github.com/aws/karpenter-provider-aws@v"+version)
}

// module returns the files of a module from Go's cache, which downloads it if necessary.
func module(t *testing.T, name string) fs.FS {
	t.Helper()
	if dir, ok := folders.Load(name); ok {
		return os.DirFS(dir.(string))
	}
	folder, err := modcache.Folder(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	folders.Store(name, folder)
	return os.DirFS(folder)
}

func read(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	raw, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// crds returns the CRDs of a version.
func crds(t *testing.T, version string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files := source(t, version)
	names, err := fs.Glob(files, "pkg/apis/crds/*.yaml")
	if err != nil || len(names) < 3 {
		t.Fatalf("crds of %s: %v, %v", version, names, err)
	}
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(read(t, files, name)), crd); err != nil {
			t.Fatal(err)
		}
		found = append(found, crd)
	}
	return found
}

// chartValues returns the defaults of a version's main chart.
func chartValues(t *testing.T, version string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, source(t, version), "charts/karpenter/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func match(t *testing.T, pattern, text string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in it", pattern)
	}
	return found[1]
}

// TestTablesAsTheSourcesSay compares the tables with the controllers' own constants.
func TestTablesAsTheSourcesSay(t *testing.T) {
	for _, version := range real {
		t.Run(version, func(t *testing.T) {
			files := source(t, version)
			v, err := parse(version)
			if err != nil {
				t.Fatal(err)
			}
			checks := read(t, files, "pkg/providers/version/version.go")
			want := "1." + match(t, `MinK8sVersion = "1\.(\d+)"`, checks) + " to 1." + match(t, `MaxK8sVersion = "1\.(\d+)"`, checks)
			if got, err := KubernetesOf(version); err != nil || got.String() != want {
				t.Errorf("kubernetes %s, %v, want %s", got, err, want)
			}
			hash := match(t, `EC2NodeClassHashVersion = "(v\d+)"`, read(t, files, "pkg/apis/v1/ec2nodeclass.go"))
			if got, _ := at(ec2NodeClassHash, v); got != hash {
				t.Errorf("hash of EC2NodeClass %s, want %s", got, hash)
			}
		})
	}
}

// TestNodePoolHashAsTheSourcesSay: the NodePool is the core's, which has separate versions. The module proxy does not serve
// core 1.9.1, which 1.9.3 links.
func TestNodePoolHashAsTheSourcesSay(t *testing.T) {
	for version, core := range map[string]string{"1.0.8": "1.0.5", "1.6.3": "1.6.2", "1.8.6": "1.8.2", "1.9.3": "1.9.0", "1.12.1": "1.12.0", "1.14.1": "1.14.1", "1.14.3": "1.14.3", "1.15.0": "1.15.0"} {
		want := match(t, `NodePoolHashVersion = "(v\d+)"`, read(t, module(t, "sigs.k8s.io/karpenter@v"+core), "pkg/apis/v1/nodepool.go"))
		if got, _ := at(nodePoolHash, mustParse(t, version)); got != want {
			t.Errorf("%s: hash of NodePool %s, want %s", version, got, want)
		}
	}
}

// TestPermissionsAsTheSourcesSay: the controller's list of SDK calls contains a call from the table's version on, and
// not before.
func TestPermissionsAsTheSourcesSay(t *testing.T) {
	for _, version := range real[1:] { // 1.0 has no such list
		listed := read(t, source(t, version), "pkg/aws/sdk.go")
		for action, call := range map[string]string{
			"ec2:DescribeCapacityReservations":   "DescribeCapacityReservations(",
			"iam:ListInstanceProfiles":           "ListInstanceProfiles(",
			"ec2:DescribePlacementGroups":        "DescribePlacementGroups(",
			"ec2:DescribeInstanceStatus":         "DescribeInstanceStatus(",
			"arc-zonal-shift:GetManagedResource": "GetManagedResource(",
			"ec2:RebootInstances":                "RebootInstances(",
		} {
			due := !mustParse(t, version).LessThan(mustParse(t, since(t, action)))
			if action == "ec2:DescribeCapacityReservations" {
				due = true // behind a feature gate that is off before 1.6
			}
			if got := strings.Contains(listed, call); got != due {
				t.Errorf("%s calls %s: %t, want %t", version, action, got, due)
			}
		}
	}
}

// since returns the table's version for an action.
func since(t *testing.T, action string) string {
	t.Helper()
	for _, p := range permissions {
		if p.is.Action == action {
			return p.since
		}
	}
	t.Fatalf("no %s in the table", action)
	return ""
}

// TestChartsOwnValues: each chart knows its own defaults, and every value that its templates read.
func TestChartsOwnValues(t *testing.T) {
	reads := regexp.MustCompile(`\.Values\.([A-Za-z0-9.]+)`)
	for _, version := range real {
		t.Run(version, func(t *testing.T) {
			chart := chartValues(t, version)
			if found := Unknown(chart, chart); len(found) > 0 {
				t.Errorf("its own defaults: %v", found)
			}
			files := source(t, version)
			names, err := fs.Glob(files, "charts/karpenter/templates/*")
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			for _, name := range names {
				for _, found := range reads.FindAllStringSubmatch(read(t, files, name), -1) {
					if unknown := Unknown(nest(strings.Split(found[1], "."), "x"), chart); len(unknown) > 0 {
						t.Errorf("%s reads %s: %v", path.Base(name), found[1], unknown)
					}
				}
			}
		})
	}
}

// TestSettingsAreGone: no later chart has a removed setting, and each has the replacement.
func TestSettingsAreGone(t *testing.T) {
	for _, version := range real {
		chart := chartValues(t, version)
		v := mustParse(t, version)
		for _, s := range settings {
			if _, variable := s.variable(); !variable && s.in(chart) && !v.LessThan(mustParse(t, s.Since)) {
				t.Errorf("%s has %s, gone since %s", version, s.Path, s.Since)
			}
		}
	}
	webhooks := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return !strings.HasPrefix(s.Path, "webhook.") || s.Since != "1.1.0" })
	for _, s := range webhooks {
		if !s.in(chartValues(t, "1.0.8")) {
			t.Errorf("1.0.8 does not have %s, which goes in %s", s.Path, s.Since)
		}
	}
}

// nest returns nested maps with one value.
func nest(keys []string, value any) map[string]any {
	for _, key := range slices.Backward(keys) {
		value = map[string]any{key: value}
	}
	made, _ := value.(map[string]any)
	return made
}

// TestMetricsAsTheSourcesSay: the constructor of each metric has the added labels from the table's version on, and not
// before.
func TestMetricsAsTheSourcesSay(t *testing.T) {
	// identifiers are what the sources call the labels and values.
	identifiers := map[string]string{
		"consolidation_policy": "ConsolidationPolicy", "termination_mode": "TerminationMode", "nodepool": "NodePool",
		"dynamic_resources": "podDynamicResourcesLabel", "decision=terminate-first": "TerminateFirstDecision", "decision=reboot": "RebootDecision",
	}
	files := map[string]string{
		"karpenter_nodeclaims_disrupted_total": "pkg/metrics/metrics.go", "karpenter_nodeclaims_unhealthy_disrupted_total": "pkg/controllers/disruption/metrics.go",
		"karpenter_voluntary_disruption_decisions_total": "pkg/controllers/disruption/types.go", "karpenter_cloudprovider_errors_total": "pkg/cloudprovider/metrics/cloudprovider.go",
	}
	before := map[string]string{"karpenter_nodeclaims_unhealthy_disrupted_total": "pkg/controllers/node/health/metrics.go"}
	for _, r := range metrics {
		file := cmp.Or(files[r.is.Metric], "pkg/controllers/metrics/pod/controller.go")
		was := definition(t, "1.14.3", cmp.Or(before[r.is.Metric], file), r.is)
		is := definition(t, r.since, file, r.is)
		for _, added := range slices.Concat(r.is.Labels, r.is.Values) {
			if id := identifiers[added]; id == "" || strings.Contains(was, id) || !strings.Contains(is, id) {
				t.Errorf("%s: %q: in 1.14.3 %t, in %s %t", r.is.Metric, added, strings.Contains(was, id), r.since, strings.Contains(is, id))
			}
		}
	}
}

// definition returns the text that defines a metric of the core, or the file if only values of a label were added.
func definition(t *testing.T, core, file string, m MetricChange) string {
	t.Helper()
	text := read(t, module(t, "sigs.k8s.io/karpenter@v"+core), file)
	if len(m.Labels) == 0 {
		return text
	}
	for _, subsystem := range []string{"nodeclaims_", "cloudprovider_", "pods_"} {
		if name, ok := strings.CutPrefix(m.Metric, "karpenter_"+subsystem); ok {
			return match(t, `(?s)Name:\s+"`+name+`",(.*?)\n\t*\)`, text)
		}
	}
	t.Fatalf("%s: unknown subsystem", m.Metric)
	return ""
}
