package binaries_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

func TestVersionsAreThoseOfTheModules(t *testing.T) {
	source, err := binaries.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		name    binaries.Name
		module  string
		version string
	}{
		"kubernetes":        {binaries.Kubernetes, "k8s.io/kubernetes", binaries.KubernetesVersion},
		"older kubernetes":  {binaries.OlderKubernetes, "k8s.io/kubernetes", binaries.OlderKubernetesVersion},
		"gitea":             {binaries.Gitea, "code.gitea.io/gitea", binaries.GiteaVersion},
		"source-controller": {"flux", "github.com/fluxcd/source-controller", binaries.SourceControllerVersion},
		"kustomize-controller": {
			"flux", "github.com/fluxcd/kustomize-controller", binaries.KustomizeControllerVersion,
		},
		"helm-controller": {binaries.HelmController, "github.com/fluxcd/helm-controller", binaries.HelmControllerVersion},
		"notification-controller": {
			"flux", "github.com/fluxcd/notification-controller", binaries.NotificationControllerVersion,
		},
		"argo cd":   {binaries.ArgoCD, "github.com/argoproj/argo-cd/v3", binaries.ArgoCDVersion},
		"terraform": {binaries.Terraform, "github.com/hashicorp/terraform", binaries.TerraformVersion},
		"helm for terraform": {
			binaries.TerraformProviderHelm, "github.com/hashicorp/terraform-provider-helm", binaries.TerraformProviderHelmVersion,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkVersion(t, source, c.name, c.module, c.version) })
	}
	for _, version := range binaries.KarpenterReleases() {
		t.Run("karpenter "+version, func(t *testing.T) {
			checkVersion(t, source, binaries.KarpenterOf(version), "github.com/aws/karpenter-provider-aws", version)
		})
	}
}

func checkVersion(t *testing.T, source string, name binaries.Name, module, version string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(source, string(name), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(mod)
	if want == nil {
		t.Fatalf("%s is not in the go.mod of %s", module, name)
	}
	if diff := cmp.Diff(string(want[1]), version); diff != "" {
		t.Errorf("version of %s (-go.mod +catalog):\n%s", module, diff)
	}
}

// A stand-in for the module of helm, which has the simplest recipe: this tests the cache, not the program.
func standIn(t *testing.T) *binaries.Builder {
	t.Helper()
	source := t.TempDir()
	write(t, filepath.Join(source, "helm", "go.mod"), "module standin\n\ngo 1.26\n\nrequire helm.sh/helm/v3 v3.0.0\n\nreplace helm.sh/helm/v3 => ./helm\n")
	write(t, filepath.Join(source, "helm", "helm", "go.mod"), "module helm.sh/helm/v3\n\ngo 1.26\n")
	write(t, filepath.Join(source, "helm", "helm", "cmd", "helm", "main.go"), "package main\n\nfunc main() {}\n")
	return &binaries.Builder{Source: source, Cache: t.TempDir()}
}

func TestBuildsOnceAndPrunes(t *testing.T) {
	b := standIn(t)
	var progress bytes.Buffer
	b.Progress = &binaries.Progress{Out: &progress, Terminal: true, Of: 3}
	first := build(t, b)
	if again := build(t, b); again != first {
		t.Errorf("built twice from the same files: %s, then %s", first, again)
	}
	if got := strings.Count(progress.String(), "[1/3] helm  done in "); got != 1 || strings.Contains(progress.String(), "[2/3]") {
		t.Errorf("builds: got %d, want 1:\n%s", got, progress.String())
	}
	if missing, err := b.Missing(t.Context(), binaries.Helm); err != nil || len(missing) > 0 {
		t.Errorf("missing after it was built: %v, %v", missing, err)
	}
	write(t, filepath.Join(b.Source, "helm", "go.sum"), "\n")
	if missing, err := b.Missing(t.Context(), binaries.Helm); err != nil || !slices.Equal(missing, []binaries.Name{binaries.Helm}) {
		t.Errorf("missing after its modules changed: %v, %v", missing, err)
	}
	second := build(t, b)
	if second == first {
		t.Fatalf("a changed go.sum left the key as it was: %s", first)
	}
	if _, err := os.Stat(first); err != nil {
		t.Errorf("a build of a moment ago is gone: %v", err)
	}
	longAgo := time.Now().Add(-30 * 24 * time.Hour)
	if err := os.Chtimes(first, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.Source, "helm", "go.sum"), "\n\n")
	build(t, b)
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("a build that was not used for a month is still there (%v)", err)
	}
}

func TestAModuleBelowCounts(t *testing.T) {
	b := standIn(t)
	first := build(t, b)
	write(t, filepath.Join(b.Source, "helm", "helm", "cmd", "helm", "main.go"), "package main\n\nfunc main() { println() }\n")
	if second := build(t, b); second == first {
		t.Errorf("a changed file of a module that stands below left the key as it was: %s", first)
	}
}

func TestBuildSaysWhatFailed(t *testing.T) {
	b := standIn(t)
	write(t, filepath.Join(b.Source, "helm", "helm", "cmd", "helm", "main.go"), "package main\n\nfunc main() { missing() }\n")
	_, err := b.Build(t.Context(), binaries.Helm)
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Fatalf("got %v, want the compiler's words", err)
	}
}

func TestLockIsHeldByOne(t *testing.T) {
	cache := t.TempDir()
	unlock, err := binaries.Lock(t.Context(), cache, "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := binaries.Lock(ctx, cache, "x"); err == nil {
		t.Fatal("the lock was taken twice")
	}
	unlock()
	again, err := binaries.Lock(t.Context(), cache, "x")
	if err != nil {
		t.Fatalf("the lock was not given back: %v", err)
	}
	again()
}

func build(t *testing.T, b *binaries.Builder) string {
	t.Helper()
	paths, err := b.Build(t.Context(), binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	return paths[binaries.Helm]
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
