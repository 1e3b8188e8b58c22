package render_test

import (
	"strings"
	"testing"
)

// TestDefinitionsThatABuildLeavesOut: the annotation may come there without being written
// under its name. A review sees that the file of a definition is as it was.
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
			expectErrors(t, err, []string{tc.file + ": NodePool/b has the annotation config.kubernetes.io/local-config, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or take the definition out of Git to remove it"})
		})
	}
}

// TestAnOriginIsAFileThatWasBuilt: metadata that is copied brings an origin along, which may
// be any file. One that the build had no object from is not believed.
func TestAnOriginIsAFileThatWasBuilt(t *testing.T) {
	for written, want := range map[string]string{
		"path: ../a.yaml": "x/kustomization.yaml", "path: gone.yaml": "x/kustomization.yaml", "configuredIn: ../plumbline.yaml": "x/kustomization.yaml",
		"path: c.yaml": "x/c.yaml", "other: 1": "x/kustomization.yaml",
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
