package render_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// pool returns a NodePool that the schema accepts.
func pool(name string) string {
	return `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: ` + name + `
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
`
}

// class returns an EC2NodeClass that the schema accepts.
func class(name string) string {
	return `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: ` + name + `
spec:
  role: KarpenterNodeRole-${CLUSTER_NAME}
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
`
}

// placed returns the objects of a Set, each with its origin.
func placed(set *render.Set) []string {
	var all []string
	for _, object := range set.Objects {
		all = append(all, object.Ref.String()+" "+object.Origin.String())
	}
	return all
}

func TestSources(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"the folder itself": {
			map[string]string{"plumbline.yaml": plumblineYAML, "b.yml": pool("b"), "a.yaml": class("a"), "c.json": `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"c"}}`},
			[]string{"EC2NodeClass/a a.yaml:1", "NodePool/b b.yml:1", "NodePool/c c.json:1"},
		},
		"sub folders, and nothing else in them": {
			map[string]string{
				"plumbline.yaml": plumblineYAML, "x/y/a.yaml": pool("a"), "x/README.md": "no", "x/.hidden.yaml": "no", ".github/b.yaml": "no", "x/script.sh": "no",
			},
			[]string{"NodePool/a x/y/a.yaml:1"},
		},
		"many documents": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": "# head\n---\n" + pool("b") + "---\n\n" + pool("a") + "---\n# tail\n"},
			[]string{"NodePool/a a.yaml:14", "NodePool/b a.yaml:3"},
		},
		"lists": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: karpenter.sh/v1\n  kind: NodePool\n  metadata: {name: b}\n- apiVersion: karpenter.sh/v1\n  kind: NodePool\n  metadata: {name: a}\n"},
			[]string{"NodePool/a a.yaml:7", "NodePool/b a.yaml:4"},
		},
		"a list of one kind": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePoolList\nmetadata: {}\nitems:\n- apiVersion: karpenter.sh/v1\n  kind: NodePool\n  metadata: {name: b}\n"},
			[]string{"NodePool/b a.yaml:5"},
		},
		"only what nodes names": {
			map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [./x, y/b.yaml, x/]\n", "x/a.yaml": pool("a"), "y/b.yaml": pool("b"), "y/c.yaml": pool("c"), "d.yaml": "no"},
			[]string{"NodePool/a x/a.yaml:1", "NodePool/b y/b.yaml:1"},
		},
		"a kustomization in a sub folder": {
			map[string]string{
				"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"),
				"k/kustomization.yml": "namePrefix: my-\nresources: [b.yaml]\n", "k/b.yaml": pool("b"), "k/unused.yaml": "no", "k/deep/unused.yaml": "no",
			},
			[]string{"NodePool/a a.yaml:1", "NodePool/my-b k/b.yaml"},
		},
		"a kustomization that lists files": {
			map[string]string{
				"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [b.yaml, ../base]\n",
				"k/b.yaml": "# the second\n" + pool("b"), "k/unused.yaml": "no", "base/plumbline.yaml": "no", "base/Kustomization": "resources: [a.json, local.yaml]\n",
				"base/a.json":     `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"a"}}`,
				"base/local.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: local\n  annotations: {config.kubernetes.io/local-config: \"true\"}\n",
			},
			[]string{"NodePool/a base/a.json:1", "NodePool/b k/b.yaml:2"},
		},
		"nulls and an empty status": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a, creationTimestamp: null}\nstatus: {}\n"},
			[]string{"NodePool/a a.yaml:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(tc.files), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, placed(set)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourcesRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"an entry that is gone": {
			map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [./x, a.yaml]\n", "a.yaml": pool("a")},
			[]string{`plumbline.yaml: nodes entry "./x" is not in the repository`},
		},
		"another cluster below": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"), "other/plumbline.yaml": plumblineYAML, "other/b.yaml": pool("b")},
			[]string{"other/plumbline.yaml: a second plumbline.yaml below ."},
		},
		"a kustomization by its file": {
			map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [k/kustomization.yaml]\n", "k/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"},
			[]string{"k/kustomization.yaml:2: Kustomization is refused: name its folder under nodes, not the file"},
		},
		"a kustomization that reaches out": {
			map[string]string{"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "resources:\n- https://example.com/a.yaml\n"},
			[]string{`k/kustomization.yaml:2: resources[0]: "https://example.com/a.yaml" is not in this repository`},
		},
		"a kustomization that lists a broken file": {
			map[string]string{"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": "a: 1\nb: [\n"},
			[]string{"k/a.yaml:2: not YAML"},
		},
		"a kustomization that lists a file twice": {
			map[string]string{"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "resources: [a.yaml, ./a.yaml]\n", "k/a.yaml": pool("a")},
			[]string{"k/kustomization.yaml: kustomize cannot build it: "},
		},
		"two kustomizations": {
			map[string]string{"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "resources: [a.yaml]\n", "k/kustomization.yml": "", "k/a.yaml": pool("a")},
			[]string{"k/kustomization.yaml: kustomize cannot build it: "},
		},
		"a kustomization that cannot be built": {
			map[string]string{"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "k/a.yaml": "a: [\n"},
			[]string{"k/kustomization.yaml: kustomize cannot build it: "},
		},
		"a bomb": {
			map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"},
			[]string{"a.yaml:3: aliases make more of this text than it has bytes for: write it out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(tc.files), ".", nil)
			expectErrors(t, err, tc.want)
		})
	}
}

func TestSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("a/plumbline.yaml", plumblineYAML)
	write("shared/pool.yaml", pool("shared"))
	link("../shared/pool.yaml", "a/pool.yaml")
	snap := render.Snapshot{FS: os.DirFS(dir)}
	set, err := renderAll(t, snap, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"NodePool/shared a/pool.yaml:1"}, placed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	link(".", "a/loop")
	link("nowhere", "a/broken.yaml")
	_, err = renderAll(t, snap, "a", nil)
	expectErrors(t, err, []string{"a/broken.yaml: it is a symbolic link that leads to no file", "a/loop: it is a symbolic link that leads to no file"})
}
