package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// theirs returns objects that another tool has installed in a namespace.
func theirs(namespace, version string, labels map[string]any) map[string]any {
	helms := map[string]any{
		"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "karpenter-" + version,
	}
	for key, value := range labels {
		helms[key] = value
	}
	of := func(release string) map[string]any {
		return map[string]any{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
	}
	secret := func(release string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name": "sh.helm.release.v1." + release + ".v1", "namespace": namespace,
			"labels": map[string]any{"owner": "helm", "name": release, "version": "1", "status": "deployed"},
		}}
	}
	secrets := "/api/v1/namespaces/" + namespace + "/secrets/sh.helm.release.v1."
	return map[string]any{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh": map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "nodepools.karpenter.sh", "labels": helms, "annotations": of("karpenter-crd")},
		},
		"/apis/apps/v1/namespaces/" + namespace + "/deployments/karpenter": map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "karpenter", "namespace": namespace, "labels": helms, "annotations": of("karpenter")},
		},
		secrets + "karpenter.v1": secret("karpenter"), secrets + "karpenter-crd.v1": secret("karpenter-crd"),
	}
}

// TestAdopt: it prints what is installed and what plumbline.yaml must contain, and writes the latter with --write. It
// only reads the cluster.
func TestAdopt(t *testing.T) {
	const git = "# ours\napiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: prod-eu, region: eu-west-1}\nversion: 1.14.3 # the newest\n"
	flux := map[string]any{"helm.toolkit.fluxcd.io/name": "karpenter", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	cases := map[string]struct {
		git   string
		there map[string]any
		code  int
		says  []string
		// written is the file with --write; empty if it does not change.
		written string
	}{
		"nothing": {git: git, code: exitDone, says: []string{"no other tool has installed anything of Karpenter here"}},
		"as Git has it": {
			git: git, there: theirs("kube-system", "1.14.3", nil), code: exitChanges,
			says:    []string{"Helm release kube-system/karpenter-crd", "Helm release kube-system/karpenter ", "revision 1", "adopt: true"},
			written: git + "adopt: true\n",
		},
		"an older one": {
			git: git, there: theirs("kube-system", "1.12.1", nil), code: exitChanges,
			says: []string{"changes Karpenter from 1.12.1 to 1.14.3"}, written: git + "adopt: true\n",
		},
		"one that cannot be skipped from": {
			git: git, there: theirs("kube-system", "1.0.1", nil), code: exitChanges,
			says: []string{"version: 1.0.1"}, written: strings.Replace(git, "1.14.3", "1.0.1", 1) + "adopt: true\n",
		},
		"elsewhere": {
			git: git, there: theirs("karpenter", "1.14.3", nil), code: exitChanges,
			says: []string{"Helm release karpenter/karpenter", "namespace: karpenter"}, written: git + "adopt: true\nnamespace: karpenter\n",
		},
		"not asked for": {git: git + "adopt: false\n", there: theirs("kube-system", "1.14.3", nil), code: exitChanges, written: git + "adopt: true\n"},
		"Flux":          {git: git, there: theirs("kube-system", "1.14.3", flux), code: exitFailed, says: []string{"Not adopted: Flux's HelmRelease flux-system/karpenter reconciles"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t)
			for path, object := range c.there {
				s.objects[path] = object
			}
			dir := folder(t, map[string]string{"plumbline.yaml": c.git})
			got := plumbline(t, "adopt", dir, "--kubeconfig", kubeconfig)
			if got.code != c.code {
				t.Errorf("code %d, want %d: %s%s", got.code, c.code, got.out, got.err)
			}
			for _, words := range c.says {
				if !strings.Contains(got.out, words) {
					t.Errorf("prints\n%s\nwant %q in it", got.out, words)
				}
			}
			plumbline(t, "adopt", dir, "--write", "--kubeconfig", kubeconfig)
			want := c.written
			if want == "" {
				want = c.git
			}
			file, err := os.ReadFile(filepath.Join(dir, "plumbline.yaml"))
			if err != nil || string(file) != want {
				t.Errorf("plumbline.yaml is\n%s\nwant\n%s%v", file, want, err)
			}
			if c.written != "" {
				if again := plumbline(t, "adopt", dir, "--kubeconfig", kubeconfig); again.code != exitDone || !strings.Contains(again.out, "already requests the adoption") {
					t.Errorf("once it is written: code %d, %s%s", again.code, again.out, again.err)
				}
			}
			for _, request := range s.asked {
				if !strings.HasPrefix(request, "GET ") {
					t.Errorf("it sent %s", request)
				}
			}
		})
	}
}

// TestPlanShowsWhatIsTakenOver: before an adoption, a plan shows the existing objects, their owners and the effect.
func TestPlanShowsWhatIsTakenOver(t *testing.T) {
	flux := map[string]any{"helm.toolkit.fluxcd.io/name": "karpenter", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	cases := map[string]struct {
		adopt     bool
		installed bool
		there     map[string]any
		code      int
		says      string
	}{
		"asked for":         {adopt: true, there: theirs("kube-system", "1.14.3", nil), code: exitChanges, says: "Adopted at version 1.14.3"},
		"not asked for":     {there: theirs("kube-system", "1.14.3", nil), code: exitFailed, says: "Refused until plumbline.yaml contains\nadopt: true"},
		"Flux":              {adopt: true, there: theirs("kube-system", "1.14.3", flux), code: exitFailed, says: "Refused: Flux's HelmRelease flux-system/karpenter"},
		"nothing":           {adopt: true, code: exitDone},
		"ours by now":       {installed: true, there: theirs("kube-system", "1.14.3", nil), code: exitDone},
		"may not be looked": {adopt: true, there: nil, code: exitDone, says: "warning: unknown whether Karpenter is installed already"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync("prod")
			sync.Status.Karpenter = nil
			if c.installed {
				sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Namespace: "kube-system", Version: "1.14.3", Identity: "i"}
			}
			s, kubeconfig := serve(t, sync)
			for path, object := range c.there {
				s.objects[path] = object
			}
			if strings.HasPrefix(name, "may not") {
				s.refused["/api/v1/namespaces/kube-system/secrets"] = 403
			}
			flags := genericclioptions.NewConfigFlags(true)
			flags.KubeConfig = &kubeconfig
			reached, err := connect(t.Context(), flags)
			if err != nil {
				t.Fatal(err)
			}
			adoption, warning := adoptionOf(t.Context(), reached, sync, &render.Karpenter{Management: render.Managed, Namespace: "kube-system", Version: "1.14.3", Adopt: c.adopt})
			made := &planned{Plan: &plan.Plan{}, adoption: adoption}
			if warning != "" {
				made.Warnings = []string{warning}
			}
			report := newPlanReport(made)
			var out strings.Builder
			if err := report.print(&out); err != nil {
				t.Fatal(err)
			}
			code := exitDone
			if exit := (*exitError)(nil); errors.As(report.exit(), &exit) {
				code = exit.code
			}
			if code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("code %d, want %d; prints\n%s", code, c.code, out.String())
			}
			if told := strings.Contains(out.String(), "Helm release kube-system/karpenter"); told == (c.there == nil || c.installed) {
				t.Errorf("what is there is told: %t\n%s", told, out.String())
			}
		})
	}
}
