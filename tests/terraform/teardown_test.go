package terraform_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"go.yaml.in/yaml/v3"
)

// onTheWayDown returns the commands of a file that terraform destroy runs, and whether a change would run them, too.
func onTheWayDown(t *testing.T, path ...string) (commands []string, replaced bool) {
	t.Helper()
	for _, block := range bodyOf(t, path...).Blocks {
		for _, inner := range block.Body.Blocks {
			when, ok := inner.Body.Attributes["when"]
			if inner.Type != "provisioner" || !ok || hcl.ExprAsKeyword(when.Expr) != "destroy" {
				continue
			}
			_, triggers := block.Body.Attributes["triggers_replace"]
			replaced = replaced || triggers
			command, diags := inner.Body.Attributes["command"].Expr.Value(nil)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			commands = append(commands, command.AsString())
		}
	}
	return commands, replaced
}

// TestTeardownGoesFirst: what the nodes need is destroyed after them, and a change terminates none.
func TestTeardownGoesFirst(t *testing.T) {
	for _, path := range [][]string{{"teardown", "nodes", "main.tf"}, {"install", "plumbline", "main.tf"}} {
		commands, replaced := onTheWayDown(t, path...)
		if len(commands) != 1 || replaced || !strings.HasPrefix(commands[0], "plumbline teardown ") || !strings.Contains(commands[0], " --yes ") {
			t.Errorf("%v: on the way down %q is run, and replaced is %v", path, commands, replaced)
		}
	}
	var after []string
	for _, block := range bodyOf(t, "teardown", "teardown.tf").Blocks {
		list, ok := block.Body.Attributes["depends_on"].Expr.(*hclsyntax.TupleConsExpr)
		if !ok {
			t.Fatal("depends_on is no list")
		}
		for _, one := range list.Exprs {
			traversal, _ := hcl.AbsTraversalForExpr(one)
			after = append(after, traversal.RootName()+"."+traversal[1].(hcl.TraverseAttr).Name)
		}
	}
	if want := []string{"helm_release.karpenter", "helm_release.karpenter_crd", "module.karpenter", "module.eks", "module.vpc"}; !slices.Equal(after, want) {
		t.Errorf("after the nodes go %v, want %v", after, want)
	}
}

// TestTheJobVerifies: AWS is queried after the destroy, even if that has failed.
func TestTheJobVerifies(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "teardown", "verify-gone.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Jobs map[string]struct {
			Steps []struct {
				Run, If string
			}
		}
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	steps := job.Jobs["destroy"].Steps
	last := steps[len(steps)-1]
	if !strings.Contains(steps[len(steps)-2].Run, "terraform destroy") || !strings.HasPrefix(last.Run, "plumbline verify ") || last.If != "always()" {
		t.Errorf("the steps are %+v", steps)
	}
}

// TestDestroyTearsDownFirst uses the real Terraform, and a plumbline that records its calls.
func TestDestroyTearsDownFirst(t *testing.T) {
	r := newRoot(t)
	order, err := os.ReadFile("testdata/teardown-order.tf")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Dir, "main.tf"), string(order))
	module, err := os.ReadFile(filepath.Join(examples, "teardown", "nodes", "main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Dir, "nodes", "main.tf"), string(module))
	log, bin := filepath.Join(t.TempDir(), "log"), t.TempDir()
	called := func(exit string) {
		t.Helper()
		path := filepath.Join(bin, "plumbline")
		write(t, path, "#!/bin/sh\necho \"$KUBECONFIG $*\" >> "+log+"\nexit "+exit+"\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.Environment = append(r.Environment, "PATH="+bin+":/usr/bin:/bin", "TF_VAR_log="+log)
	r.run(t, "init")
	r.run(t, "validate")
	r.run(t, "apply", "-auto-approve")
	r.run(t, "apply", "-auto-approve", "-var", "region=eu-west-2")
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Fatal("something ran before the destroy")
	}
	call := "/theirs teardown nodes -n plumbline-system --yes --timeout 1h --cluster prod-eu --region eu-west-2 --down-to definitions"
	called("4")
	if said, err := r.Run(t.Context(), "destroy", "-auto-approve"); err == nil {
		t.Errorf("a teardown that fails is not told: %s", said)
	}
	went := func() []string {
		t.Helper()
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	if got := went(); !slices.Equal(got, []string{call}) {
		t.Errorf("after a teardown that fails went %q", got)
	}
	called("0")
	r.run(t, "destroy", "-auto-approve")
	if got := went(); len(got) != 6 || got[1] != call || !slices.Contains(got[2:], "vpc") {
		t.Errorf("went %q, want plumbline first, and then the rest", got)
	}
}
