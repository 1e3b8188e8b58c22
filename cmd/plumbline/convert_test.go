package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	betaPoolFile = `# the web's nodes
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: web
spec:
  template:
    spec:
      requirements: []
      kubelet: {maxPods: 20}
      nodeClassRef:
        name: web
`
	betaClassFile = `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: web
spec:
  amiFamily: AL2023
  role: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
`
	currentPoolFile = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name:   current}\nspec: {}\n"
)

// tree writes files into a folder and goes there.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestConvertFolder: without --write nothing changes; with it files change in place, and once.
func TestConvertFolder(t *testing.T) {
	tree(t, map[string]string{
		"nodes/pools/web.yaml": betaPoolFile, "nodes/class.yaml": betaClassFile, "nodes/current.yaml": currentPoolFile,
		"nodes/.git/old.yaml": betaPoolFile, "nodes/README.md": "karpenter.sh/v1beta1",
	})
	got := plumbline(t, "convert", "nodes")
	if got.code != exitChanges || !strings.HasSuffix(got.out, "\n2 definitions in 2 files: --write writes them\n") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
	for _, want := range []string{
		"nodes/pools/web.yaml:2: NodePool/web becomes NodePool/web\n",
		"  moved     spec.template.spec.kubelet (line 10) → spec.kubelet in EC2NodeClass/web\n",
		"  added     spec.template.spec.expireAfter: 720h; the default of v1beta1",
		"--- a/nodes/pools/web.yaml\n+++ b/nodes/pools/web.yaml\n", "\n+  kubelet: {maxPods: 20}\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in:\n%s", want, got.out)
		}
	}
	if content(t, "nodes/pools/web.yaml") != betaPoolFile || content(t, "nodes/class.yaml") != betaClassFile {
		t.Error("it changed without --write")
	}

	if got := plumbline(t, "convert", "nodes", "--write"); got.code != exitDone || !strings.HasSuffix(got.out, "\n2 definitions in 2 files: written\n") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
	if text := content(t, "nodes/pools/web.yaml"); !strings.HasPrefix(text, "# the web's nodes\napiVersion: karpenter.sh/v1\n") || strings.Contains(text, "maxPods") {
		t.Errorf("it became:\n%s", text)
	}
	if text := content(t, "nodes/class.yaml"); !strings.Contains(text, "kubelet: {maxPods: 20}") {
		t.Errorf("it became:\n%s", text)
	}
	if content(t, "nodes/current.yaml") != currentPoolFile || content(t, "nodes/.git/old.yaml") != betaPoolFile {
		t.Error("another file changed")
	}
	if info, err := os.Stat("nodes/class.yaml"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if got := plumbline(t, "convert", "nodes", "--write"); got.code != exitDone || got.out != "nothing to convert\n" {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
}

// TestConvertOutputs: JSON and YAML have what becomes of each field, and the difference.
func TestConvertOutputs(t *testing.T) {
	tree(t, map[string]string{"class.yaml": betaClassFile})
	got := plumbline(t, "convert", "class.yaml", "-o", "json")
	var report convertReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitChanges {
		t.Fatalf("%v, code %d, says %s%s", err, got.code, got.out, got.err)
	}
	if len(report.Files) != 1 || len(report.Files[0].Objects) != 1 || !strings.Contains(report.Files[0].Diff, "+    - alias: al2023@latest") || report.Written {
		t.Errorf("it is %+v", report)
	}
	if fields := report.Files[0].Objects[0].Fields; len(fields) != 6 || fields[1].Path != "spec.amiFamily" || fields[1].Line != 6 {
		t.Errorf("fields are %+v", fields)
	}
	if got := plumbline(t, "convert", "class.yaml", "-o", "yaml"); got.code != exitChanges || !strings.HasPrefix(got.out, "files:\n- diff: |\n") {
		t.Errorf("code %d, says %s", got.code, got.out)
	}
}

// TestConvertDecides: nothing is written while a decision is open, and a flag can make it.
func TestConvertDecides(t *testing.T) {
	template := "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: web}\nspec:\n" +
		"  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"
	tree(t, map[string]string{"nodes/web.yaml": betaPoolFile, "nodes/class.yaml": betaClassFile, "nodes/old/template.yaml": template})
	got := plumbline(t, "convert", "nodes", "--write")
	if got.code != exitFailed || !strings.Contains(got.out, "nothing is written, because 2 fields or files must be decided") ||
		!strings.Contains(got.out, "  decision  spec.instanceProfile") || !strings.Contains(got.out, "EC2NodeClass/web: nodes/class.yaml:1 defines it, too") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
	if content(t, "nodes/web.yaml") != betaPoolFile || content(t, "nodes/old/template.yaml") != template {
		t.Error("it was written")
	}
	got = plumbline(t, "convert", "nodes/old", "--write", "--role", "nodes")
	if got.code != exitDone || !strings.Contains(content(t, "nodes/old/template.yaml"), "\n  role: nodes\n") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
}

// TestConvertBadInput: what cannot be read, is refused or named, and nothing changes.
func TestConvertBadInput(t *testing.T) {
	tree(t, map[string]string{
		"broken/a.yaml":          "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n  bad: x\n",
		"twice/a.yaml":           betaPoolFile + "metadata: {name: again}\n",
		"bomb/a.yaml":            "a: &a [karpenter.sh/v1beta1" + strings.Repeat(",0", 200) + "]\nb: &b [" + strings.Repeat("*a,", 200) + "]\nc: [" + strings.Repeat("*b,", 200) + "]\n",
		"huge/a.yaml":            betaPoolFile + strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 1200),
		"huge/crd.yaml":          strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 1200),
		"chart/templates/a.yaml": "{{ if true }}\napiVersion: karpenter.sh/v1beta1\nkind: NodePool\n",
		"links/real.yaml":        betaClassFile,
		"outside.yaml":           betaClassFile,
	})
	for link, target := range map[string]string{
		"links/twin.yaml": "real.yaml", "links/outside.yaml": "../outside.yaml", "links/gone.yaml": "gone", "folder": "links", "file.yaml": "outside.yaml",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo("links/pipe.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such file":     {[]string{"absent"}, "absent: no such file"},
		"not YAML":         {[]string{"broken"}, "broken/a.yaml:3: not converted: file: not YAML"},
		"a key twice":      {[]string{"twice"}, `twice/a.yaml:13: not converted: file: key "metadata" is written twice, first in line 4`},
		"a bomb":           {[]string{"bomb"}, "bomb/a.yaml:"},
		"huge":             {[]string{"huge"}, "huge/a.yaml: not converted: file: it has more than 1048576 bytes"},
		"a Helm template":  {[]string{"chart"}, "chart/templates/a.yaml: not converted: Helm template: convert what `helm template` prints"},
		"a link elsewhere": {[]string{"links"}, "links/outside.yaml: not converted: symbolic link: it leads to "},
		"a pipe":           {[]string{"links/pipe.yaml"}, "links/pipe.yaml is neither a file nor a folder"},
		"two identities":   {[]string{"links", "--role", "a", "--instance-profile", "b"}, "none of the others can be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{"convert"}, c.args...)...)
			if got.code != exitFailed || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
			}
		})
	}
	if got := plumbline(t, "convert", "links"); strings.Count(got.out, "becomes") != 1 {
		t.Errorf("a file is converted twice, or not: %s", got.out)
	}
	// The target of a link is written, and the link stays.
	if got := plumbline(t, "convert", "file.yaml", "--write"); got.code != exitDone {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
	if target, err := os.Readlink("file.yaml"); err != nil || target != "outside.yaml" || !strings.Contains(content(t, "outside.yaml"), "karpenter.k8s.aws/v1\n") {
		t.Errorf("the link leads to %s, %v", target, err)
	}
	if got := plumbline(t, "convert", "folder", "--write"); got.code != exitDone || !strings.Contains(got.out, "folder/real.yaml:1: ") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
}

// TestConvertWithoutPermission: a file that may not be written stays, and so do all others.
func TestConvertWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	tree(t, map[string]string{"a.yaml": betaPoolFile, "b.yaml": betaClassFile})
	if err := os.Chmod("a.yaml", 0o440); err != nil {
		t.Fatal(err)
	}
	got := plumbline(t, "convert", ".", "--write")
	if got.code != exitFailed || !strings.Contains(got.err, "a.yaml: permission denied") {
		t.Errorf("code %d, says %s%s", got.code, got.out, got.err)
	}
	if content(t, "a.yaml") != betaPoolFile || content(t, "b.yaml") != betaClassFile {
		t.Error("a file changed")
	}
}

// TestConvertLineBreaks: the line breaks and the byte order mark of a file stay.
func TestConvertLineBreaks(t *testing.T) {
	crlf := "\ufeff" + strings.ReplaceAll(betaClassFile, "\n", "\r\n")
	tree(t, map[string]string{"class.yaml": crlf})
	if got := plumbline(t, "convert", "class.yaml", "--write"); got.code != exitDone {
		t.Fatalf("code %d, says %s%s", got.code, got.out, got.err)
	}
	text := []byte(content(t, "class.yaml"))
	if !bytes.HasPrefix(text, []byte("\ufeffapiVersion: karpenter.k8s.aws/v1\r\n")) || bytes.Count(text, []byte("\n")) != bytes.Count(text, []byte("\r\n")) {
		t.Errorf("it became %q", text)
	}
}
