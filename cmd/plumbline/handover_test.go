package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	teamPath = "/apis/karpenter.sh/v1/nodepools/team"
	appsPath = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps"
	teamYAML = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: team\nspec:\n  limits: {cpu: \"100\"}\n"
	flagged  = "kustomize.toolkit.fluxcd.io/prune"
)

// beside is a pool that a Kustomization applies, and a clone with its file.
type beside struct {
	*apiServer
	t          *testing.T
	kubeconfig string
	repo       string
}

func newBeside(t *testing.T) *beside {
	t.Helper()
	sync := verdicts()["in-sync"].DeepCopy()
	sync.Spec.Path = "./clusters/nodes"
	b := &beside{t: t, repo: t.TempDir()}
	b.apiServer, b.kubeconfig = serve(t, sync)
	b.objects[teamPath] = map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{
			"name": "team", "uid": "u", "resourceVersion": "5",
			"labels":        map[string]any{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system", "team": "a"},
			"managedFields": []any{map[string]any{"manager": "karpenter", "operation": "Update"}, map[string]any{"manager": "kustomize-controller", "operation": "Apply"}},
		},
		"spec": map[string]any{"limits": map[string]any{"cpu": "100"}},
	}
	b.objects[appsPath] = map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
		"metadata": map[string]any{"name": "apps", "namespace": "flux-system"},
		"spec":     map[string]any{"path": "./clusters/apps", "prune": true, "sourceRef": map[string]any{"kind": "GitRepository", "name": "fleet"}},
	}
	b.lists(true)
	b.git("init", "--quiet", "--initial-branch=main")
	b.git("config", "user.name", "a")
	b.git("config", "user.email", "a@example.com")
	b.write("clusters/apps/team.yaml", teamYAML)
	b.git("add", ".")
	b.git("commit", "--quiet", "--message", "a")
	return b
}

func (b *beside) git(args ...string) string {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), "git", append([]string{"-C", b.repo}, args...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (b *beside) write(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.repo, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *beside) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.repo, name)) // a deleted file reads as empty
	return string(text)
}

// change edits an object in the cluster.
func (b *beside) change(path string, edit func(object, metadata map[string]any)) {
	b.t.Helper()
	raw, err := json.Marshal(b.objects[path])
	object := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &object)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	edit(object, object["metadata"].(map[string]any))
	b.objects[path] = object
}

// lists adds the pool to the Kustomization's inventory, or removes it.
func (b *beside) lists(team bool) {
	b.change(appsPath, func(object, _ map[string]any) {
		entries := []any{map[string]any{"id": "default_web_apps_Deployment", "v": "v1"}}
		if team {
			entries = append(entries, map[string]any{"id": "_team_karpenter.sh_NodePool", "v": "v1"})
		}
		object["status"] = map[string]any{"inventory": map[string]any{"entries": entries}}
	})
}

// annotated adds the annotation to the pool in the cluster.
func (b *beside) annotated() {
	b.change(teamPath, func(_, metadata map[string]any) { metadata["annotations"] = map[string]any{flagged: "disabled"} })
}

// adopted makes plumbline own the pool.
func (b *beside) adopted() {
	b.change(teamPath, func(_, metadata map[string]any) {
		metadata["labels"].(map[string]any)[v1alpha1.OwnerLabel] = "fleet.prod"
		fields := map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:" + flagged: map[string]any{}}}}
		metadata["managedFields"] = append(metadata["managedFields"].([]any), map[string]any{"manager": "plumbline", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields})
	})
}

func (b *beside) adopt(wantCode int, says string, args ...string) {
	b.t.Helper()
	from := "flux"
	if b.objects[argoPath] != nil {
		from = "argocd"
	}
	got := plumbline(b.t, append([]string{"adopt", "--from", from, "--kubeconfig", b.kubeconfig}, args...)...)
	if got.code != wantCode || !strings.Contains(got.out+got.err, says) {
		b.t.Fatalf("%v: code %d, want %d and %q:\n%s%s", args, got.code, wantCode, says, got.out, got.err)
	}
}

// TestHandOver takes one step after another. In between, it runs the command without a clone, and twice, which changes
// nothing.
func TestHandOver(t *testing.T) {
	b := newBeside(t)
	repo := []string{"--repo", b.repo}
	write := append([]string{"--write"}, repo...)
	b.adopt(exitChanges, "Annotate NodePool/team in clusters/apps, and push it")
	b.adopt(exitChanges, "+  annotations:\n+    "+flagged+": disabled", repo...)
	b.adopt(exitChanges, "1 of 5: annotate it, so that it is kept (committed)", write...)
	b.adopt(exitChanges, "is committed: waiting for Flux's Kustomization flux-system/apps", write...)
	if got := b.git("log", "--format=%s"); got != "Keep NodePool/team in the cluster while it changes hands\na\n" {
		t.Fatal(got)
	}
	b.annotated()
	b.adopt(exitChanges, "Move the file of NodePool/team, unchanged, from clusters/apps to clusters/nodes in one commit, and push it.\nIf it is the last file in clusters/apps, add an empty file .gitkeep there")
	b.adopt(exitChanges, "git mv clusters/apps/team.yaml clusters/nodes/team.yaml", repo...)
	b.adopt(exitChanges, "3 of 5", write...)
	if b.read("clusters/apps/team.yaml") != "" || b.read("clusters/nodes/team.yaml") == "" {
		t.Fatal("the file has not moved")
	}
	b.adopt(exitChanges, "has moved: waiting for NodeSync fleet/prod", write...)
	b.adopted()
	b.adopt(exitChanges, "has moved: waiting for Flux's Kustomization", write...)
	b.lists(false)
	b.adopt(exitChanges, `kubectl patch nodepool team --type=json --patch '[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"5"},`+
		`{"op":"remove","path":"/metadata/labels/kustomize.toolkit.fluxcd.io~1name"},{"op":"remove","path":"/metadata/labels/kustomize.toolkit.fluxcd.io~1namespace"},{"op":"remove","path":"/metadata/managedFields/1"}]'`)
	b.adopt(exitChanges, "released: NodePool/team\ncommitted: Mark NodePool/team no longer", write...)
	if got := b.read("clusters/nodes/team.yaml"); got != teamYAML {
		t.Fatalf("the file is not as it was:\n%s", got)
	}
	b.adopt(exitChanges, "is removed from the file of NodePool/team: waiting for NodeSync fleet/prod", write...)
	b.change(teamPath, func(_, metadata map[string]any) {
		delete(metadata, "annotations")
		if labels := metadata["labels"].(map[string]any); labels["team"] != "a" || len(labels) != 2 || len(metadata["managedFields"].([]any)) != 2 {
			t.Fatalf("released: %v", metadata)
		}
	})
	b.adopt(exitDone, "nothing is left to hand over: no Kustomization of Flux applies a NodePool or EC2NodeClass, and NodeSync fleet/prod has 1 of them")
	b.adopt(exitDone, "NodeSync fleet/prod   done", append(repo, "nodepool/team")...)
}

// TestHandOverRefuses what is impossible, or loses something, and prints instructions.
func TestHandOverRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		so   func(b *beside)
		args []string
		says string
	}{
		"another tool":             {args: []string{"--from", "helm"}, says: `--from "helm": give flux or argocd`},
		"no definition":            {args: []string{"deployment/web"}, says: `"deployment/web" is no definition`},
		"nothing of the name":      {args: []string{"nodepool/none"}, says: "NodePool/none is not in the cluster"},
		"nothing is given back":    {args: []string{"--back"}, says: "name what is handed back"},
		"push of no clone":         {args: []string{"--push"}, says: "--push needs --repo"},
		"no clone":                 {args: []string{"--repo", os.TempDir()}, says: "is no clone of a repository"},
		"a commit without a clone": {args: []string{"--write"}, says: "give a clone of the repository with --repo"},
		"Argo CD is not there":     {so: func(b *beside) { b.unlisted = map[string]bool{"Application": true} }, args: []string{"--from", "argocd"}, says: "this cluster has no Applications"},
		"no such owner":            {args: []string{"--owner", "none"}, says: "--owner none: there is no such Kustomization"},
		"it is being deleted": {so: func(b *beside) {
			b.change(teamPath, func(_, metadata map[string]any) { metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z" })
		}, says: "NodePool/team is terminating, which cannot be undone"},
		"of another NodeSync": {so: func(b *beside) {
			b.change(teamPath, func(_, metadata map[string]any) {
				metadata["labels"].(map[string]any)[v1alpha1.OwnerLabel] = "fleet.other"
			})
		}, says: "belongs to NodeSync fleet/other"},
		"a folder in the other": {so: func(b *beside) {
			b.change(appsPath, func(object, _ map[string]any) { object["spec"].(map[string]any)["path"] = "./clusters" })
		}, says: "one folder contains the other"},
		"the root, which Flux applies": {so: func(b *beside) {
			b.change(appsPath, func(object, _ map[string]any) { object["spec"].(map[string]any)["path"] = "./" })
		}, says: "one folder contains the other"},
		"the root, which the NodeSync follows": {so: func(b *beside) {
			for at := range b.objects {
				if strings.HasSuffix(at, "/nodesyncs/prod") {
					b.change(at, func(object, _ map[string]any) { delete(object["spec"].(map[string]any), "path") })
				}
			}
		}, says: "nodesync/prod follows .: one folder contains the other"},
		"Flux applies something else": {args: []string{"REPO"}, so: func(b *beside) {
			b.annotated()
			b.write("clusters/apps/team.yaml", strings.Replace(teamYAML, "100", "${cpu}", 1))
			b.git("commit", "--quiet", "--all", "--message", "a variable")
		}, says: "differs from the cluster at spec.limits.cpu"},
		"uncommitted changes": {args: []string{"REPO"}, so: func(b *beside) { b.write("clusters/apps/team.yaml", "") }, says: "uncommitted changes"},
		"another branch":      {args: []string{"REPO"}, so: func(b *beside) { b.git("switch", "--quiet", "--create", "other") }, says: "git switch main"},
		"of a HelmRelease": {args: []string{"nodepool/team"}, so: func(b *beside) {
			b.change(teamPath, func(_, metadata map[string]any) {
				metadata["labels"] = map[string]any{"helm.toolkit.fluxcd.io/name": "pools"}
			})
		}, says: "is part of the chart of Flux's HelmRelease pools"},
		"of another applier": {args: []string{"nodepool/team"}, so: func(b *beside) {
			b.lists(false)
			b.change(teamPath, func(_, metadata map[string]any) { metadata["labels"] = map[string]any{} })
		}, says: "no Kustomization of Flux applies NodePool/team"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBeside(t)
			if test.so != nil {
				test.so(b)
			}
			args := test.args
			if len(args) == 1 && args[0] == "REPO" {
				args = []string{"--repo", b.repo, "--write"}
			}
			b.adopt(exitFailed, test.says, args...)
			if got := b.git("log", "--format=%s", "--author=a@example.com"); strings.Contains(got, "NodePool") {
				t.Errorf("it has committed %s", got)
			}
		})
	}
	if got := plumbline(t, "adopt", "--push"); got.code != exitFailed || !strings.Contains(got.err, "need --from flux or --from argocd") {
		t.Errorf("without --from: %d %s", got.code, got.err)
	}
}

// TestHandOverWaits for a suspended Kustomization, and says so; its inventory is out of date meanwhile.
func TestHandOverWaits(t *testing.T) {
	b := newBeside(t)
	b.change(appsPath, func(object, _ map[string]any) { object["spec"].(map[string]any)["suspend"] = true })
	b.annotated()
	b.adopted()
	b.adopt(exitChanges, "which is suspended: flux resume kustomization apps --namespace flux-system")
	remote := t.TempDir()
	b.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
	b.git("remote", "add", "origin", remote)
	b.git("push", "--quiet", "origin", "main")
	b.write("clusters/nodes/team.yaml", b.read("clusters/apps/team.yaml"))
	b.git("rm", "--quiet", "clusters/apps/team.yaml")
	b.git("add", ".")
	b.git("commit", "--quiet", "--message", "killed before it was pushed")
	b.adopt(exitStalled, "which is suspended", "--repo", b.repo, "--push", "--wait-timeout", "1ms")
	if got := b.git("log", "--format=%s", "origin/main"); !strings.HasPrefix(got, "killed before it was pushed\n") {
		t.Errorf("pushed: %s", got)
	}
}
