package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// TestPlaceholders: there is a warning if nothing replaces them, but not if they are shell.
func TestPlaceholders(t *testing.T) {
	warns := func(path, found, name string) []string {
		return []string{"c.yaml:1: EC2NodeClass/c: " + path + " contains the placeholder " + found + ", which is not replaced: write ${" + name + "}; unless it is CLUSTER_NAME or REGION, add its value under substitute in plumbline.yaml"}
	}
	class := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n  role: node\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"double angle brackets": {strings.Replace(class, "role: node", "role: KarpenterNodeRole-<<CLUSTER_NAME>>", 1), warns("spec.role", "<<CLUSTER_NAME>>", "CLUSTER_NAME")},
		"angle brackets":        {strings.Replace(class, "role: node", "role: <ROLE>", 1), warns("spec.role", "<ROLE>", "ROLE")},
		"a template":            {strings.Replace(class, "role: node", "role: \"{{ .Values.role }}\"", 1), warns("spec.role", "{{ .Values.role }}", "NAME")},
		"a variable of shell":   {strings.Replace(class, "role: node", "role: KarpenterNodeRole-$CLUSTER_NAME", 1), warns("spec.role", "$CLUSTER_NAME", "CLUSTER_NAME")},
		"one of Make":           {strings.Replace(class, "role: node", "role: $(ROLE)", 1), warns("spec.role", "$(ROLE)", "ROLE")},
		"ERB":                   {strings.Replace(class, "role: node", "role: <%= role %>", 1), warns("spec.role", "<%= role %>", "role")},
		"Terraform":             {strings.Replace(class, "role: node", "role: \"%{ if x }a%{ endif }\"", 1), warns("spec.role", "%{ if x }", "NAME")},
		"Azure Pipelines":       {strings.Replace(class, "role: node", "role: '#{role}#'", 1), warns("spec.role", "#{role}#", "role")},
		"turned off":            {strings.Replace(class, "{name: c}", "{name: c, annotations: {plumbline.dev/substitute: disabled}}", 1) + "  tags: {a: $NAME}\n", nil},
		"money":                 {class + "  tags: {price: $5, share: 100%}\n", nil},
		"escaped for Flux": {
			class + "  userData: |\n    #!/bin/bash\n    cd $${DIR:-/tmp} && echo $$ ${X} $${CLUSTER_NAME}\n",
			[]string{"c.yaml:1: EC2NodeClass/c: line 2 of spec.userData has $${DIR:-/tmp}, where bash reads $$ as its process ID: write ${DIR:-/tmp}; unknown names stay as they are in spec.userData, without the escape of Flux and Terraform"},
		},
		"a key":        {class + "  tags: {<<TEAM>>: data}\n", warns("spec.tags.<<TEAM>>", "<<TEAM>>", "TEAM")},
		"shell":        {class + "  userData: |\n    cat <<EOF\n    <<NAME>> {{ x }}\n    EOF\n", nil},
		"a comparison": {class + "  tags: {team: a < b > c}\n", nil},
		"ours":         {strings.Replace(class, "role: node", "role: ${CLUSTER_NAME}", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "c.yaml": tc.text}), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, set.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDefinitionsThatAreNotRead: there is a warning if their files are skipped because of their names.
func TestDefinitionsThatAreNotRead(t *testing.T) {
	set, err := renderAll(t, folder(map[string]string{
		"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"),
		"class.yaml.tpl":             class("templated"),
		"nodes/.disabled/pool.yaml":  pool("hidden"),
		"nodes/.b.yml":               pool("b"),
		"notes.yaml.txt":             "kind: NodePool, as in karpenter.sh/v1\n",
		"README.md":                  "```yaml\n" + pool("example") + "```\n",
		".github/workflows/plan.yml": "on: push\njobs: {}\n",
	}), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"class.yaml.tpl has definitions of nodes and is not read: its name does not end in .yaml, .yml or .json",
		"nodes/.b.yml has definitions of nodes and is not read: its name begins with a dot",
		"nodes/.disabled/pool.yaml has definitions of nodes and is not read: it is in a folder whose name begins with a dot",
	}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for _, name := range []string{"class.yaml.tpl", "nodes/.disabled", "nodes/.b.yml"} {
		if _, is := set.Inputs[name]; is {
			t.Errorf("%s is an input, and nothing of it counts", name)
		}
	}
}

// TestPatchesThatChangeNothing: there is a warning, but not for patches that move or delete what they match.
func TestPatchesThatChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		kustomization string
		want          []string
	}{
		"a name that is not there": {
			"resources: [a.yaml]\npatches:\n- target: {kind: NodePool, name: b}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {kind: NodePool, name: b}"},
		},
		"in the old form": {
			"resources: [a.yaml]\npatchesJson6902:\n- target: {group: karpenter.sh, version: v1, kind: NodePool, name: b}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {group: karpenter.sh, version: v1, kind: NodePool, name: b}"},
		},
		"one that matches":            {"resources: [a.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n", nil},
		"one that matches a new name": {"resources: [a.yaml]\nnamePrefix: eu-\npatches:\n- target: {kind: NodePool, name: a}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n", nil},
		"labels that are not there": {
			"resources: [a.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: '- {op: add, path: /metadata/labels, value: {x: z}}'\n- target: {labelSelector: none=here}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {labelSelector: none=here}"},
		},
		"a name from a base with a prefix": {
			"resources: [base]\npatches:\n- target: {kind: NodePool, name: c}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n- target: {kind: NodePool, name: gone}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {kind: NodePool, name: gone}"},
		},
		"one that takes its own label off": {
			"resources: [labelled]\npatches:\n- target: {labelSelector: x=z}\n  patch: '- {op: remove, path: /metadata/labels}'\n", nil,
		},
		"one that deletes": {"resources: [a.yaml, b.yaml]\npatches:\n- target: {kind: NodePool, name: b}\n  patch: '{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: b}, $patch: delete}'\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{
				"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"), "b.yaml": pool("b"), "kustomization.yaml": c.kustomization,
				"base/kustomization.yaml": "namePrefix: eu-\nresources: [c.yaml]\n", "base/c.yaml": pool("c"),
				"labelled/kustomization.yaml": "labels: [{pairs: {x: z}}]\nresources: [d.yaml]\n", "labelled/d.yaml": pool("d"),
			}), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, set.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// localPool returns a NodePool that kustomize leaves out.
func localPool(name string) string {
	return strings.Replace(pool(name), "  name: "+name, "  name: "+name+"\n  annotations: {config.kubernetes.io/local-config: \"true\"}", 1)
}

// TestAnEmptiedFileIsRefused: a definition that is lost by accident does not count as removed.
func TestAnEmptiedFileIsRefused(t *testing.T) {
	const empty = "x/b.yaml: the file is empty, and its definitions would be removed with their nodes: restore its text, or delete the file to remove them"
	local := func(at string) string {
		return at + ": NodePool/b has the annotation config.kubernetes.io/local-config, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or delete the definition from Git to remove it"
	}
	hollow := func(line int, what string) []string {
		return []string{fmt.Sprintf("x/b.yaml:%d: %s, and what it defined would be removed with its nodes: restore its text, or delete the document or the file to remove it", line, what)}
	}
	const list = "apiVersion: v1\nkind: List\nitems: []\n"
	for name, tc := range map[string]struct {
		kustomization, text string
		want                []string
	}{
		"null":                                     {"", "null\n", hollow(1, "the document is null")},
		"null beside comments":                     {"", "# no pools\n---\n~ # none\n", hollow(3, "the document is null")},
		"null beside a definition":                 {"", pool("b") + "---\nnull\n", hollow(1+strings.Count(pool("b"), "\n")+1, "the document is null")},
		"null, listed by a kustomization":          {"resources: [b.yaml]\n", "null\n", hollow(1, "the document is null")},
		"null, built by a kustomization":           {"namePrefix: my-\nresources: [b.yaml]\n", "null\n", hollow(1, "the document is null")},
		"a list without items":                     {"", "---\n" + list, hollow(2, "the List has no items")},
		"a list of pools without any":              {"", strings.Replace(list, "List", "NodePoolList", 1), hollow(1, "the NodePoolList has no items")},
		"a list without items, listed":             {"resources: [b.yaml]\n", list, hollow(1, "the List has no items")},
		"a list without items, built":              {"namePrefix: my-\nresources: [b.yaml]\n", list, hollow(1, "the List has no items")},
		"a patch that is null":                     {"resources: [../base]\npatches: [{path: b.yaml}]\n", "null\n", []string{"x/b.yaml: the patch is empty, and what it set would be reverted: restore its text, or remove it from the kustomization"}},
		"no bytes":                                 {"", "", []string{empty}},
		"blanks":                                   {"", " \n\t\n", []string{empty}},
		"a byte order mark":                        {"", "\ufeff\n", []string{empty}},
		"listed by a kustomization":                {"resources: [b.yaml]\n", "", []string{empty}},
		"built by a kustomization":                 {"namePrefix: my-\nresources: [b.yaml]\n", " ", []string{empty}},
		"left out of a list of files":              {"resources: [b.yaml]\n", localPool("b"), []string{local("x/b.yaml:5")}},
		"left out of a build":                      {"namePrefix: my-\nresources: [b.yaml]\n", localPool("b"), []string{local("x/b.yaml:5")}},
		"left out of a build of what it has below": {"namePrefix: my-\nresources: [../base]\n", localPool("b"), []string{local("base/b.yaml:5")}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": tc.text}
			if tc.kustomization != "" {
				files["x/kustomization.yaml"] = tc.kustomization
			}
			if strings.Contains(tc.kustomization, "../base") {
				files["base/kustomization.yaml"], files["base/b.yaml"] = "nameSuffix: -x\nresources: [b.yaml]\n", tc.text
			}
			if strings.Contains(tc.kustomization, "patches") {
				files["base/b.yaml"] = pool("b")
			}
			_, err := renderAll(t, folder(files), ".", nil)
			expectErrors(t, err, tc.want)
		})
	}
}

// TestAFileOfCommentsIsWarnedOf: a definition that is commented out counts as removed, with a warning on each render,
// also from the cache.
func TestAFileOfCommentsIsWarnedOf(t *testing.T) {
	want := []string{"x/b.yaml: the file has no definition, only comments or empty documents: what was defined there counts as removed; delete the file if that is meant"}
	for name, tc := range map[string]struct{ kustomization, text string }{
		"comments":                  {"", "# " + strings.ReplaceAll(strings.TrimSpace(pool("b")), "\n", "\n# ") + "\n"},
		"an empty document":         {"", "---\n# none\n---\n"},
		"empty documents":           {"", "---\n---\n# none\n---\n"},
		"listed by a kustomization": {"resources: [b.yaml]\n", "# none\n"},
		"built by a kustomization":  {"namePrefix: my-\nresources: [b.yaml, c.yaml]\n", "---\n# none\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": tc.text, "x/c.yaml": pool("c")}
			if tc.kustomization != "" {
				files["x/kustomization.yaml"] = tc.kustomization
			}
			cache := &render.Cache{}
			for range 2 {
				set, err := renderAll(t, folder(files), ".", nil, render.WithCache(cache))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, set.Warnings); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestAKustomizationOfNothingIsWarnedOf: there is a warning even if others render something.
func TestAKustomizationOfNothingIsWarnedOf(t *testing.T) {
	const why = "/kustomization.yaml: the kustomization renders no object: what it had counts as removed; remove its folder if that is intended"
	for name, tc := range map[string]struct {
		kustomization string
		want          []string
	}{
		"an empty list":         {"resources: []\n", []string{"x" + why}},
		"of a base":             {"resources: [../base]\n", []string{"x" + why}},
		"with a name":           {"namePrefix: my-\nresources: []\n", []string{"x" + why}},
		"with a patch":          {"resources: []\npatches: [{target: {kind: NodePool}, patch: '[{\"op\": \"add\", \"path\": \"/spec/weight\", \"value\": 1}]'}]\n", []string{"x" + why}},
		"something":             {"namePrefix: my-\nresources: [b.yaml]\n", nil},
		"a file without any":    {"namePrefix: my-\nresources: [c.yaml]\n", []string{"x/c.yaml: the file has no definition, only comments or empty documents: what was defined there counts as removed; delete the file if that is meant"}},
		"something and nothing": {"namePrefix: my-\nresources: [b.yaml, ../base]\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/kustomization.yaml": tc.kustomization,
				"x/b.yaml": pool("b"), "x/c.yaml": "# none\n", "base/kustomization.yaml": "resources: []\n",
			}
			cache := &render.Cache{}
			for range 2 {
				set, err := renderAll(t, folder(files), ".", nil, render.WithCache(cache))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, set.Warnings); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestAnEmptiedPatch: a patch is not reverted because its text was lost. kustomize ignores an empty file among patches.
func TestAnEmptiedPatch(t *testing.T) {
	const patched = "resources: [b.yaml]\npatches: [{path: p.yaml, target: {kind: NodePool}}]\n"
	files := func(kustomization, patch string) map[string]string {
		return map[string]string{
			"plumbline.yaml": plumblineYAML + "nodes: [x]\n", "x/kustomization.yaml": kustomization, "x/b.yaml": pool("b"), "x/p.yaml": patch,
			"c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: p.yaml}]\n", "c/p.yaml": patch,
		}
	}
	const why = "the patch is empty, and what it set would be reverted: restore its text, or remove it from the kustomization"
	for name, tc := range map[string]struct{ kustomization, text, want string }{
		"no bytes":       {patched, "", "x/p.yaml: " + why},
		"blanks":         {patched, " \n", "x/p.yaml: " + why},
		"of a component": {"resources: [b.yaml]\ncomponents: [../c]\n", "", "c/p.yaml: " + why},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(files(tc.kustomization, tc.text)), ".", nil)
			expectErrors(t, err, []string{tc.want})
		})
	}
	set, err := renderAll(t, folder(files(patched, "# none\n---\n")), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"x/p.yaml: the patch has only comments or empty documents: what it set counts as removed; remove it from the kustomization if that is meant"}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNobodyForgesAnOrigin: the file in messages is the one that contains the object.
func TestNobodyForgesAnOrigin(t *testing.T) {
	const why = "it sets the annotation config.kubernetes.io/origin, in which kustomize records where an object is from: remove it"
	for name, tc := range map[string]struct{ kustomization, patch, at string }{
		"for all":       {kustomization: "resources: [b.yaml]\ncommonAnnotations: {config.kubernetes.io/origin: \"path: c.yaml\"}\n", at: "x/kustomization.yaml:2: commonAnnotations: "},
		"by a patch":    {kustomization: "resources: [b.yaml]\npatches: [{path: p.yaml}]\n", patch: "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: b, annotations: {\"config.kubernetes.io\\u002forigin\": \"path: c.yaml\"}}\n", at: "x/p.yaml: "},
		"by a pointer":  {kustomization: "resources: [b.yaml]\npatches: [{path: p.yaml, target: {kind: NodePool}}]\n", patch: `[{"op": "add", "path": "/metadata/annotations/config.kubernetes.io~1origin", "value": "path: c.yaml"}]`, at: "x/p.yaml: "},
		"by what it is": {kustomization: "resources: [b.yaml]\nreplacements: [{source: {kind: NodePool, fieldPath: metadata.name}, targets: [{select: {kind: NodePool}, fieldPaths: ['metadata.annotations.[config.kubernetes.io/origin]'], options: {create: true}}]}]\n", at: "x/kustomization.yaml:2: replacements[0].targets[0].fieldPaths[0]: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": pool("b"), "x/kustomization.yaml": tc.kustomization}
			if tc.patch != "" {
				files["x/p.yaml"] = tc.patch
			}
			_, err := renderAll(t, folder(files), ".", nil)
			expectErrors(t, err, []string{tc.at + why})
		})
	}
	// In a definition it is an ordinary annotation: kustomize overwrites it.
	files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [x]\n", "x/b.yaml": strings.Replace(pool("b"), "  name: b", "  name: b\n  annotations: {config.kubernetes.io/origin: \"path: c.yaml\"}", 1), "x/kustomization.yaml": "resources: [b.yaml]\nnamePrefix: my-\n"}
	set, err := renderAll(t, folder(files), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Objects[0].Origin.File; got != "x/b.yaml" {
		t.Errorf("the definition is said to be in %s", got)
	}
}

// TestDefinitionsThatAKustomizationLeavesOut: anything outside of a definition's file that sets kustomize's annotation
// on it is refused where it is set.
func TestDefinitionsThatAKustomizationLeavesOut(t *testing.T) {
	const why = "it sets the annotation config.kubernetes.io/local-config, by which kustomize leaves definitions out, and their nodes would be drained: remove it, or the definitions"
	const merge = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: b, annotations: {config.kubernetes.io/local-config: \"true\"}}\n"
	const pointer = "- op: add\n  path: /metadata/annotations\n  value: {}\n- op: add\n  path: /metadata/annotations/config.kubernetes.io~1local-config\n  value: \"true\"\n"
	for name, tc := range map[string]struct {
		kustomization string
		more          map[string]string
		at            string
	}{
		"for all":                    {kustomization: "commonAnnotations: {config.kubernetes.io/local-config: \"true\"}\nresources: [b.yaml]\n", at: "x/kustomization.yaml:1: commonAnnotations: "},
		"by a patch in place":        {kustomization: "resources: [b.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(strings.TrimSpace(pointer), "\n", "\n    ") + "\n  target: {kind: NodePool}\n", at: "x/kustomization.yaml:3: patches[0].patch: "},
		"by a patch":                 {kustomization: "resources: [b.yaml]\npatches: [{path: p.yaml}]\n", more: map[string]string{"x/p.yaml": merge}, at: "x/p.yaml: "},
		"by a JSON patch":            {kustomization: "resources: [b.yaml]\npatches: [{path: p.yaml, target: {kind: NodePool}}]\n", more: map[string]string{"x/p.yaml": pointer}, at: "x/p.yaml: "},
		"by a replacement":           {kustomization: "resources: [b.yaml]\nreplacements: [{source: {kind: NodePool, fieldPath: metadata.name}, targets: [{select: {kind: NodePool}, fieldPaths: ['metadata.annotations.config\\.kubernetes\\.io/local-config'], options: {create: true}}]}]\n", at: "x/kustomization.yaml:2: replacements[0].targets[0].fieldPaths[0]: "},
		"by a replacement elsewhere": {kustomization: "resources: [b.yaml]\nreplacements: [{path: r.yaml}]\n", more: map[string]string{"x/r.yaml": "source: {kind: NodePool, fieldPath: metadata.name}\ntargets: [{select: {kind: NodePool}, fieldPaths: [\"metadata.annotations.[config.kubernetes.io/local\\u002dconfig]\"], options: {create: true}}]\n"}, at: "x/r.yaml: "},
		"by a component":             {kustomization: "resources: [b.yaml]\ncomponents: [../c]\n", more: map[string]string{"c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: p.yaml}]\n", "c/p.yaml": merge}, at: "c/p.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": pool("b"), "x/kustomization.yaml": tc.kustomization}
			for name, text := range tc.more {
				files[name] = text
			}
			_, err := renderAll(t, folder(files), ".", nil)
			if err == nil || !strings.Contains(err.Error(), tc.at) || !strings.Contains(err.Error(), why) {
				t.Errorf("%v, want %q with the reason", err, tc.at)
			}
		})
	}
}
