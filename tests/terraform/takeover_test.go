package terraform_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"
)

// TestTakeoverForgetsAll: each former resource is forgotten, and not destroyed.
func TestTakeoverForgetsAll(t *testing.T) {
	var had, forgotten []string
	for _, block := range bodyOf(t, "takeover", "before", "karpenter.tf").Blocks {
		if block.Type == "resource" {
			had = append(had, block.Labels[0]+"."+block.Labels[1])
		}
	}
	for _, block := range bodyOf(t, "takeover", "after", "karpenter.tf").Blocks {
		if block.Type != "removed" {
			t.Errorf("a block %s: nothing but removed is expected", block.Type)
			continue
		}
		forgotten = append(forgotten, addressOf(t, block.Body.Attributes["from"].Expr))
		if len(block.Body.Blocks) != 1 || block.Body.Blocks[0].Type != "lifecycle" {
			t.Fatalf("%s: no lifecycle, which destroys", forgotten)
		}
		destroy, diags := block.Body.Blocks[0].Body.Attributes["destroy"].Expr.Value(nil)
		if diags.HasErrors() || destroy.True() {
			t.Errorf("%s: destroy is %#v %s", forgotten, destroy, diags)
		}
	}
	slices.Sort(had)
	slices.Sort(forgotten)
	if diff := cmp.Diff(had, forgotten); diff != "" || len(had) == 0 {
		t.Errorf("(-before +forgotten):\n%s", diff)
	}
}

// addressOf returns a reference as it is written, such as helm_release.karpenter.
func addressOf(t *testing.T, expr hclsyntax.Expression) string {
	t.Helper()
	traversal, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() || len(traversal) != 2 {
		t.Fatalf("no address of a resource: %v %s", traversal, diags)
	}
	name, ok := traversal[1].(hcl.TraverseAttr)
	if !ok {
		t.Fatalf("no address of a resource: %v", traversal)
	}
	return traversal.RootName() + "." + name.Name
}

// TestTakeoverSaysTheSameInGit: version, namespace and values of the releases are the same.
func TestTakeoverSaysTheSameInGit(t *testing.T) {
	var config struct {
		Cluster   struct{ Name string }
		Version   string
		Namespace string
		Adopt     bool
		Values    map[string]any
	}
	text, err := os.ReadFile(filepath.Join(examples, "takeover", "fleet", "plumbline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	settings, _ := config.Values["settings"].(map[string]any)
	given := func(name string) cty.Value { value, _ := settings[name].(string); return cty.StringVal(value) }
	in := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{
		"cluster_name": cty.StringVal(config.Cluster.Name), "cluster_endpoint": given("clusterEndpoint"), "queue_name": given("interruptionQueue"),
	})}}
	before := bodyOf(t, "takeover", "before", "karpenter.tf")
	version := before.Blocks[0].Body.Attributes["karpenter_version"].Expr
	if got, diags := version.Value(nil); diags.HasErrors() || got.AsString() != config.Version {
		t.Errorf("version %#v in Terraform, %s in Git: %s", got, config.Version, diags)
	}
	for _, block := range before.Blocks {
		if block.Type != "resource" {
			continue
		}
		if got, diags := block.Body.Attributes["namespace"].Expr.Value(nil); diags.HasErrors() || got.AsString() != config.Namespace {
			t.Errorf("%s: namespace %#v in Terraform, %s in Git: %s", block.Labels, got, config.Namespace, diags)
		}
		if block.Labels[1] != "karpenter" {
			continue
		}
		settings["clusterName"] = config.Cluster.Name // plumbline sets it
		if diff := cmp.Diff(valuesOf(t, block, in), config.Values); diff != "" {
			t.Errorf("values (-Terraform +Git):\n%s", diff)
		}
	}
	if !config.Adopt {
		t.Error("plumbline.yaml does not ask for the releases")
	}
}

// valuesOf returns those of a helm_release, given as [yamlencode(object)].
func valuesOf(t *testing.T, release *hclsyntax.Block, in *hcl.EvalContext) map[string]any {
	t.Helper()
	list, ok := release.Body.Attributes["values"].Expr.(*hclsyntax.TupleConsExpr)
	if !ok || len(list.Exprs) != 1 {
		t.Fatal("values are no list of one")
	}
	encode, ok := list.Exprs[0].(*hclsyntax.FunctionCallExpr)
	if !ok || encode.Name != "yamlencode" {
		t.Fatal("values are no yamlencode(…)")
	}
	object, diags := encode.Args[0].Value(in)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	text, err := ctyjson.Marshal(object, object.Type())
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}
