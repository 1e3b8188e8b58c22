package karpenter

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inVersion matches the version of Karpenter that a user installs: in plumbline.yaml, and in sentences.
var inVersion = regexp.MustCompile(`(?m)^[ +-]*version: (\d+\.\d+\.\d+)$|list prices of Karpenter (\d+\.\d+\.\d+)|Karpenter (\d+\.\d+\.\d+) knows|karpenter-provider-aws/v(\d+\.\d+\.\d+)/`)

const (
	// linked is the version whose libraries plumbline links. It is older than newest while only the tables of a version
	// are there.
	linked = "1.15.0"
	// usual is the version that documents and examples name, and whose controller the sandbox runs by default. It is older
	// than linked until the sandbox runs that.
	usual = "1.15.0"
)

// others are the files that contain another version on purpose.
var others = map[string]string{
	"docs/reference/support-matrix.md": "1.16.0", // one that is too new
	"docs/tutorial.md":                 "1.8.6",  // the tutorial upgrades it
	"docs/how-to/what-if.md":           linked,   // list prices are linked in

	"examples/rings/argocd/prod-eu/Chart.yaml": "0.1.0", // that of the chart itself
}

// TestFilesNameTheLinked: modules use the version that plumbline links, and documents, examples and the sandbox the
// usual one. docs/development/raise-karpenter.md lists what a new one changes.
func TestFilesNameTheLinked(t *testing.T) {
	const root = "../../"
	named := 0
	check := func(file, is string, pattern *regexp.Regexp) int {
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		all := pattern.FindAllStringSubmatch(string(text), -1)
		for _, found := range all {
			version := strings.Join(found[1:], "")
			if version != is && version != others[file] {
				t.Errorf("%s: %q, and the version is %s", file, strings.TrimSpace(found[0]), is)
			}
		}
		return len(all)
	}
	for file, names := range map[string]struct{ is, pattern string }{
		"go.mod":                             {linked, `(?:karpenter-provider-aws|sigs\.k8s\.io/karpenter) v(\S+)`},
		"render/schema/embedded.go":          {linked, `EmbeddedVersion = "(\S+)"`},
		"render/karpenter.go":                {usual, `such as (\d+\.\d+\.\d+)`},
		"provision/charts/ref.go":            {usual, `such as (\d+\.\d+\.\d+)`},
		"tests/sandbox/binaries/catalog.go":  {usual, `KarpenterVersion\s+= "(\S+)"`},
		"tests/sandbox/bin/karpenter/go.mod": {usual, `(?:karpenter-provider-aws|sigs\.k8s\.io/karpenter) v(\S+)`},
	} {
		if check(file, names.is, regexp.MustCompile(names.pattern)) == 0 {
			t.Errorf("%s names no version", file)
		}
	}
	for _, folder := range []string{"docs", "examples", "manifests/SPEC.md"} {
		err := filepath.WalkDir(root+folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if slices.Contains([]string{".md", ".yaml"}, filepath.Ext(path)) {
				named += check(strings.TrimPrefix(filepath.ToSlash(path), root), usual, inVersion)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if named == 0 {
		t.Error("no document names a version")
	}
}

// TestSandboxServesWhatKarpenterSupports: the sandbox's table of controllers, from which it takes the version of Kubernetes
// to serve, is the same as the table here.
func TestSandboxServesWhatKarpenterSupports(t *testing.T) {
	text, err := os.ReadFile("../../tests/sandbox/binaries/karpenter.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`\{"(\d+\.\d+\.\d+)", "1\.(\d+)"\}`).FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		if supports, err := KubernetesOf(row[1]); err != nil || row[2] != strconv.Itoa(supports.Newest) {
			t.Errorf("the newest Kubernetes of Karpenter %s is 1.%s in the sandbox, and 1.%d here (%v)", row[1], row[2], supports.Newest, err)
		}
	}
	if len(rows) == 0 {
		t.Error("the sandbox has no controller")
	}
}
