package render_test

import (
	"strings"
	"testing"
)

// TestDefinitionsThatABuildLeavesOut: a build can set the annotation without containing its name. A review shows an
// unchanged file of the definition.
func TestDefinitionsThatABuildLeavesOut(t *testing.T) {
	source := strings.Replace(pool("b"), "  template:\n", "  template:\n    metadata: {name: b, annotations: {config.kubernetes.io/local-config: \"true\"}}\n", 1)
	replaced := func(from, to string) string {
		return "resources: [b.yaml]\nreplacements: [{source: {kind: NodePool, fieldPath: " + from + "}, targets: [{select: {kind: NodePool}, fieldPaths: [" + to + "], options: {create: true}}]}]\n"
	}
	patched := func(op string) string {
		return "resources: [b.yaml]\npatches: [{target: {kind: NodePool}, patch: '- {op: " + op + ", from: /spec/template/metadata/annotations, path: /metadata/annotations}'}]\n"
	}
	const label = "{config.kubernetes.io/local-config: \"true\"}"
	for name, tc := range map[string]struct{ kustomization, file string }{
		"by annotations that are copied": {replaced("spec.template.metadata.annotations", "metadata.annotations"), "x/kustomization.yaml"},
		"by metadata that is copied":     {replaced("spec.template.metadata", "metadata"), "x/kustomization.yaml"},
		"by a patch that copies":         {patched("copy"), "x/kustomization.yaml"},
		"by a patch that moves":          {patched("move"), "x/kustomization.yaml"},
		"by a label with fields":         {"resources: [b.yaml]\nlabels: [{pairs: " + label + ", fields: [{path: metadata/annotations, create: true}]}]\n", "x/b.yaml"},
		"by labels as configured":        {"resources: [b.yaml]\ncommonLabels: " + label + "\nconfigurations: [c.yaml]\n", "x/b.yaml"},
		"in what it has below":           {"resources: [../base]\n", "base/b.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{
				"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": source,
				"x/kustomization.yaml": tc.kustomization, "x/c.yaml": "commonLabels: [{path: metadata/annotations, create: true}]\n",
				"base/kustomization.yaml": "resources: [b.yaml]\nlabels: [{pairs: " + label + ", fields: [{path: metadata/annotations, create: true}]}]\n", "base/b.yaml": pool("b"),
			}), ".", nil)
			expectErrors(t, err, []string{tc.file + ": NodePool/b has the annotation config.kubernetes.io/local-config, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or delete the definition from Git to remove it"})
		})
	}
}

// TestAnOriginIsAFileThatWasBuilt: copied metadata contains an origin, which may be any file. One that the build has no
// object from is ignored.
func TestAnOriginIsAFileThatWasBuilt(t *testing.T) {
	for written, want := range map[string]string{
		"path: ../a.yaml": "x/kustomization.yaml", "path: gone.yaml": "x/kustomization.yaml", "configuredIn: ../plumbline.yaml": "x/kustomization.yaml",
		"path: c.yaml": "x/kustomization.yaml", "other: 1": "x/kustomization.yaml",
	} {
		source := strings.Replace(pool("b"), "  template:\n", "  template:\n    metadata: {annotations: {config.kubernetes.io/origin: \""+written+"\"}}\n", 1)
		set, err := renderAll(t, folder(map[string]string{
			"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": source, "x/c.yaml": pool("c"),
			"x/kustomization.yaml": "resources: [b.yaml, c.yaml]\npatches: [{target: {name: b}, patch: '- {op: move, from: /spec/template/metadata/annotations, path: /metadata/annotations}'}]\n",
		}), ".", nil)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		for _, object := range set.Objects {
			if object.Ref.Name == "b" && object.Origin.File != want {
				t.Errorf("%s: the definition is said to be in %s, want %s", written, object.Origin.File, want)
			}
		}
	}
}

// TestDefinitionsThatBecomeAnotherKind: an excluded object of another kind is not plumbline's, unless it was a
// definition before.
func TestDefinitionsThatBecomeAnotherKind(t *testing.T) {
	const local = "config.kubernetes.io/local-config: \"true\""
	annotated := strings.Replace(pool("b"), "  template:\n", "  template:\n    metadata: {name: b, annotations: {"+local+"}}\n", 1)
	const move = "- {op: move, from: /spec/template/metadata/annotations, path: /metadata/annotations}"
	patched := func(ops ...string) string {
		return "resources: [b.yaml, c.yaml]\nconfigMapGenerator: [{name: made, literals: [a=b], options: {annotations: {" + local + "}}}]\npatches:\n- target: {kind: NodePool}\n  patch: |\n    " + strings.Join(ops, "\n    ") + "\n"
	}
	for name, tc := range map[string]struct{ kustomization, kind string }{
		"by a JSON patch":     {patched("- {op: replace, path: /apiVersion, value: v1}", "- {op: replace, path: /kind, value: ConfigMap}", move), "ConfigMap"},
		"by a copy":           {patched("- {op: copy, from: /metadata/name, path: /kind}", move), "b"},
		"by a replacement":    {"resources: [b.yaml]\nreplacements:\n- {source: {kind: NodePool, fieldPath: metadata.name}, targets: [{select: {kind: NodePool}, fieldPaths: [kind]}]}\n- {source: {name: b, fieldPath: spec.template.metadata.annotations}, targets: [{select: {name: b}, fieldPaths: [metadata.annotations], options: {create: true}}]}\n", "b"},
		"as a patch is let":   {patched("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}") + "  options: {allowKindChange: true}\n- target: {kind: ConfigMap, name: b}\n  patch: |\n    " + move + "\n", "ConfigMap"},
		"in what is below it": {"resources: [../base]\nnamePrefix: my-\n", "ConfigMap"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{
				"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": annotated, "x/kustomization.yaml": tc.kustomization,
				"x/c.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  annotations: {" + local + "}\n",
				"base/b.yaml": annotated, "base/kustomization.yaml": strings.Replace(patched("- {op: replace, path: /apiVersion, value: v1}", "- {op: replace, path: /kind, value: ConfigMap}", move), ", c.yaml", "", 1),
			}), ".", nil)
			want := " has the annotation config.kubernetes.io/local-config, by which kustomize leaves it out, and no file has this " + tc.kind + ": where the build changes a definition's kind, its nodes would be drained; remove what changes it"
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x/kustomization.yaml: "+tc.kind+"/") {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestWhatABuildMayLeaveOut: objects that serve a build and are not definitions.
func TestWhatABuildMayLeaveOut(t *testing.T) {
	const local = "{config.kubernetes.io/local-config: \"true\"}"
	set, err := renderAll(t, folder(map[string]string{
		"plumbline.yaml": plumblineYAML + "nodes: [x]\n", "x/b.yaml": pool("b"),
		"x/c.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, annotations: " + local + "}\ndata: {weight: \"7\"}\n",
		"x/kustomization.yaml": "resources: [b.yaml, c.yaml]\nnamePrefix: my-\nconfigMapGenerator: [{name: made, literals: [a=b], options: {annotations: " + local + "}}]\n",
	}), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Objects) != 1 || set.Objects[0].Ref.Name != "my-b" || set.Objects[0].Origin.File != "x/b.yaml" {
		t.Errorf("objects: %+v", set.Objects)
	}
}
