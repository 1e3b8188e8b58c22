package terraform_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// TestInstallRendersThePolicy: the file in manifests/ is a Terraform template, and all of its names are set.
func TestInstallRendersThePolicy(t *testing.T) {
	body := bodyOf(t, "install", "plumbline.tf")
	i := slices.IndexFunc(body.Blocks, func(b *hclsyntax.Block) bool {
		return b.Type == "resource" && b.Labels[0] == "aws_iam_role_policy"
	})
	if i < 0 {
		t.Fatal("there is no aws_iam_role_policy")
	}
	call, ok := body.Blocks[i].Body.Attributes["policy"].Expr.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "templatefile" {
		t.Fatal("the policy is no templatefile(…)")
	}
	module := &hcl.EvalContext{Variables: map[string]cty.Value{"path": cty.ObjectVal(map[string]cty.Value{
		"module": cty.StringVal(filepath.Join(examples, "install")),
	})}}
	file, diags := call.Args[0].Value(module)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	text, err := os.ReadFile(file.AsString())
	if err != nil {
		t.Fatal(err)
	}
	policy, diags := hclsyntax.ParseTemplate(text, file.AsString(), hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	names, ok := call.Args[1].(*hclsyntax.ObjectConsExpr)
	if !ok {
		t.Fatal("the names are no object")
	}
	in := &hcl.EvalContext{Variables: map[string]cty.Value{}}
	for _, item := range names.Items {
		in.Variables[hcl.ExprAsKeyword(item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr).Wrapped)] = cty.StringVal("given")
	}
	rendered, diags := policy.Value(in)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if !json.Valid([]byte(rendered.AsString())) || !strings.Contains(rendered.AsString(), ":cluster/given") {
		t.Errorf("no policy:\n%s", rendered.AsString())
	}
}
