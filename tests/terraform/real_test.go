package terraform_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTakeoverIsForgotten: Terraform validates the original releases, and with their replacement it forgets both and
// destroys none. It does not query the cluster (-refresh=false): there is none.
func TestTakeoverIsForgotten(t *testing.T) {
	r := newRoot(t, "takeover/variables.tf", "takeover/before/karpenter.tf")
	for _, name := range []string{"cluster_name", "cluster_endpoint", "cluster_certificate_authority_data", "queue_name"} {
		r.Environment = append(r.Environment, "TF_VAR_"+name+"=given")
	}
	write(t, filepath.Join(r.Dir, "provider.tf"), `provider "helm" {}`)
	here, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, "fmt", "-check", "-recursive", here)
	r.run(t, "init")
	r.run(t, "validate")
	state, err := os.ReadFile("testdata/both-releases.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Dir, "terraform.tfstate"), string(state))
	if had := strings.Fields(r.run(t, "state", "list")); len(had) != 2 {
		t.Fatalf("the state has %v, want both releases", had)
	}
	r.take(t, "takeover/after/karpenter.tf")
	r.run(t, "validate")
	planned := r.run(t, "plan", "-refresh=false")
	for _, want := range []string{
		"# helm_release.karpenter will no longer be managed by Terraform, but will not be destroyed",
		"# helm_release.karpenter_crd will no longer be managed by Terraform, but will not be destroyed",
		"Plan: 0 to add, 0 to change, 0 to destroy.",
	} {
		if !strings.Contains(planned, want) {
			t.Errorf("the plan does not say %q:\n%s", want, planned)
		}
	}
	r.run(t, "apply", "-refresh=false", "-auto-approve")
	if left := r.run(t, "state", "list"); left != "" {
		t.Errorf("the state has still %s", left)
	}
}

// TestInstallDrainsOnlyWhenDestroyed uses a kubectl that records its calls instead of a cluster.
func TestInstallDrainsOnlyWhenDestroyed(t *testing.T) {
	r := newRoot(t, "install/plumbline/main.tf")
	asked := filepath.Join(t.TempDir(), "asked")
	kubectl := t.TempDir()
	write(t, filepath.Join(kubectl, "kubectl"), "#!/bin/sh\necho \"$KUBECONFIG $*\" >> "+asked+"\n[ \"$3\" != - ] || { cat; echo; } >> "+asked+"\n")
	if err := os.Chmod(filepath.Join(kubectl, "kubectl"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(kubectl, "plumbline"), "#!/bin/sh\necho \"$KUBECONFIG plumbline $*\" >> "+asked+"\n")
	if err := os.Chmod(filepath.Join(kubectl, "plumbline"), 0o755); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "manifests")
	write(t, filepath.Join(overlay, "kustomization.yaml"), "resources: []\n")
	r.Environment = append(r.Environment, "PATH="+kubectl+":/usr/bin:/bin", "TF_VAR_kubeconfig=/theirs", "TF_VAR_manifests="+overlay,
		"TF_VAR_repository=https://git.example.com/acme/fleet.git", "TF_VAR_path=./clusters/prod-eu",
		"TF_VAR_cluster_name=prod-eu", "TF_VAR_region=eu-west-1")
	r.run(t, "init")
	r.run(t, "validate")
	since := func(want ...string) {
		t.Helper()
		text, err := os.ReadFile(asked)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Join(want, "\n"), strings.TrimSpace(string(text))); diff != "" {
			t.Errorf("kubectl (-want +got):\n%s", diff)
		}
		write(t, asked, "")
	}
	nodesync := func(path string) string {
		return `{"apiVersion":"plumbline.dev/v1alpha1","kind":"NodeSync","metadata":{"name":"nodes","namespace":"plumbline-system"},` +
			`"spec":{"onDelete":"Drain","path":"` + path + `","source":{"git":{"url":"https://git.example.com/acme/fleet.git"}}}}`
	}
	r.run(t, "apply", "-auto-approve")
	since("/theirs apply -k "+overlay, "/theirs apply -f -", nodesync("./clusters/prod-eu"))
	r.run(t, "apply", "-auto-approve")
	since()
	r.run(t, "apply", "-auto-approve", "-var", "path=./clusters/other")
	since("/theirs apply -f -", nodesync("./clusters/other"))
	write(t, filepath.Join(overlay, "kustomization.yaml"), "resources: []\nimages: []\n")
	r.run(t, "apply", "-auto-approve", "-var", "path=./clusters/other")
	since("/theirs apply -k " + overlay)
	r.run(t, "destroy", "-auto-approve")
	since("/theirs plumbline teardown nodes -n plumbline-system --yes --timeout 1h --cluster prod-eu --region eu-west-1")
}
