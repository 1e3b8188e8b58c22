package main

import (
	"os"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	argoPath = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/apps"
	// elsePath is another Application of the same ApplicationSet.
	elsePath = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/apps-of-test"
	argoMark = "argocd.argoproj.io/tracking-id"
	argoKeep = "argocd.argoproj.io/sync-options"
)

// newBesideArgo returns a pool that an Application applies, and a clone with its file.
func newBesideArgo(t *testing.T) *beside {
	t.Helper()
	b := newBeside(t)
	delete(b.objects, appsPath)
	b.objects[argoPath] = map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"name": "apps", "namespace": "argocd"},
		"spec": map[string]any{
			"source":     map[string]any{"repoURL": "https://example.com/fleet", "path": "clusters/apps"},
			"syncPolicy": map[string]any{"automated": map[string]any{"prune": true}},
		},
	}
	b.argoLists(true)
	b.change(teamPath, func(_, metadata map[string]any) {
		metadata["labels"] = map[string]any{"team": "a"}
		metadata["annotations"] = map[string]any{argoMark: "apps:karpenter.sh/NodePool:/team"}
		metadata["managedFields"] = []any{map[string]any{"manager": "argocd-controller", "operation": "Apply"}}
	})
	return b
}

// argoLists adds the pool to the Application's status, or removes it.
func (b *beside) argoLists(team bool) {
	b.change(argoPath, func(object, _ map[string]any) {
		object["status"] = map[string]any{"resources": []any{map[string]any{"group": "karpenter.sh", "kind": "NodePool", "name": "team", "requiresPruning": !team}}}
	})
}

// kept adds the annotation to the pool in the cluster, applied by a field manager, or removes it.
func (b *beside) kept(manager string) {
	b.change(teamPath, func(_, metadata map[string]any) {
		annotations := metadata["annotations"].(map[string]any)
		if delete(annotations, argoKeep); manager == "" {
			return
		}
		annotations[argoKeep] = "Prune=false,Delete=false"
		fields := map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:" + argoKeep: map[string]any{}}}}
		entries := []any{map[string]any{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}}
		for _, entry := range metadata["managedFields"].([]any) {
			if entry.(map[string]any)["manager"] != manager {
				entries = append(entries, entry)
			}
		}
		metadata["managedFields"] = entries
	})
}

// owned adds plumbline's label to the pool, or removes it.
func (b *beside) owned(owned bool) {
	b.change(teamPath, func(_, metadata map[string]any) {
		if delete(metadata["labels"].(map[string]any), v1alpha1.OwnerLabel); owned {
			metadata["labels"].(map[string]any)[v1alpha1.OwnerLabel] = "fleet.prod"
		}
	})
}

// TestHandOverFromArgoCD takes one step after another, and goes back to the Application.
func TestHandOverFromArgoCD(t *testing.T) {
	b := newBesideArgo(t)
	write := []string{"--write", "--repo", b.repo}
	b.adopt(exitChanges, "argocd.argoproj.io/sync-options: Prune=false,Delete=false")
	b.adopt(exitChanges, "1 of 5: annotate it, so that it is kept (committed)", write...)
	b.adopt(exitChanges, "is committed: waiting for Argo CD's Application argocd/apps", write...)
	b.kept("argocd-controller")
	b.adopt(exitChanges, "3 of 5", write...)
	if b.read("clusters/apps/team.yaml") != "" || b.read("clusters/nodes/team.yaml") == "" {
		t.Fatal("the file has not moved")
	}
	b.adopt(exitChanges, "has moved: waiting for NodeSync fleet/prod", write...)
	b.owned(true)
	b.kept(v1alpha1.FieldManager)
	b.adopt(exitChanges, "has moved: waiting for Argo CD's Application", write...)
	b.argoLists(false)
	b.adopt(exitChanges, "released: NodePool/team\ncommitted: Mark NodePool/team no longer", write...)
	b.kept("")
	b.adopt(exitDone, "nothing is left to hand over: no Application of Argo CD")
	if got := b.read("clusters/nodes/team.yaml"); got != teamYAML {
		t.Fatalf("the file is not as it was:\n%s", got)
	}

	back := append([]string{"--back", "nodepool/team"}, write...)
	b.adopt(exitFailed, "set the one that gets it back with --owner", back...)
	back = append(back, "--owner", "argocd/apps")
	b.adopt(exitChanges, "1 of 5: annotate it, so that it is kept (committed)", back...)
	b.kept(v1alpha1.FieldManager)
	b.adopt(exitChanges, "3 of 5", back...)
	if b.read("clusters/apps/team.yaml") == "" || b.read("clusters/nodes/team.yaml") != "" {
		t.Fatal("the file has not moved back")
	}
	b.argoLists(true)
	b.owned(false)
	b.change(teamPath, func(_, metadata map[string]any) {
		metadata["annotations"].(map[string]any)[argoMark] = "apps:karpenter.sh/NodePool:/team"
		metadata["managedFields"] = append(metadata["managedFields"].([]any), map[string]any{"manager": "argocd-controller", "operation": "Apply"})
	})
	b.adopt(exitChanges, "released: NodePool/team\ncommitted: Mark NodePool/team no longer", back...)
	b.kept("")
	b.adopt(exitDone, "done", back...)
	if got := b.read("clusters/apps/team.yaml"); got != teamYAML {
		t.Fatalf("the file is not as it was:\n%s", got)
	}
}

// sources gives the Application several sources.
func (b *beside) sources(paths ...string) {
	b.change(argoPath, func(object, _ map[string]any) {
		all := []any{map[string]any{"chart": "web", "repoURL": "https://example.com/charts"}, map[string]any{"ref": "values"}}
		for _, path := range paths {
			all = append(all, map[string]any{"path": path, "repoURL": "https://example.com/fleet"})
		}
		spec := object["spec"].(map[string]any)
		delete(spec, "source")
		spec["sources"] = all
	})
}

// inSet makes an ApplicationSet the owner of Applications.
func (b *beside) inSet(paths ...string) {
	for _, path := range paths {
		b.change(path, func(_, metadata map[string]any) {
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "clusters", "uid": "s"}}
		})
	}
}

// TestHandOverOfSeveralSources finds the source whose folder contains the file, and reports if none or several do; it
// refuses Applications that an ApplicationSet generates from one folder.
func TestHandOverOfSeveralSources(t *testing.T) {
	second := func(b *beside) {
		b.objects[elsePath] = b.objects[argoPath]
		b.change(elsePath, func(object, metadata map[string]any) { metadata["name"], object["status"] = "apps-of-test", nil })
	}
	for name, test := range map[string]struct {
		so   func(b *beside)
		code int
		says string
	}{
		"one has a folder":              {so: func(b *beside) { b.sources("clusters/apps") }, code: exitChanges, says: "committed: Keep NodePool/team"},
		"two have folders":              {so: func(b *beside) { b.sources("clusters/web", "clusters/apps") }, code: exitChanges, says: "committed: Keep NodePool/team"},
		"only charts":                   {so: func(b *beside) { b.sources() }, code: exitFailed, says: "Argo CD's Application argocd/apps applies only charts, no folder of a repository"},
		"none has the file":             {so: func(b *beside) { b.sources("clusters/web", "clusters/db") }, code: exitFailed, says: "is in none of the folders of its sources in"},
		"one folder contains the other": {so: func(b *beside) { b.sources("clusters/apps", "clusters/nodes/more") }, code: exitFailed, says: "one folder contains the other"},
		"both have the file": {so: func(b *beside) {
			b.sources("clusters/apps", "clusters/more")
			b.write("clusters/more/team.yaml", teamYAML)
			b.git("add", ".")
			b.git("commit", "--quiet", "--message", "twice")
		}, code: exitFailed, says: "is in more than one folder of its sources: clusters/apps, clusters/more"},
		"of an ApplicationSet": {so: func(b *beside) { b.inSet(argoPath) }, code: exitChanges, says: "argocd/apps, generated by ApplicationSet clusters"},
		"that does not sync": {so: func(b *beside) {
			b.inSet(argoPath)
			b.kept(v1alpha1.FieldManager)
			b.owned(true)
			b.change(argoPath, func(object, _ map[string]any) { object["spec"].(map[string]any)["syncPolicy"] = map[string]any{} })
			b.write("clusters/nodes/team.yaml", b.read("clusters/apps/team.yaml"))
			b.git("rm", "--quiet", "clusters/apps/team.yaml")
			b.git("add", ".")
			b.git("commit", "--quiet", "--message", "moved")
		}, code: exitChanges, says: "or set spec.template.spec.syncPolicy.automated of ApplicationSet clusters, which generates it"},
		"whose others have its folder": {so: func(b *beside) {
			second(b)
			b.inSet(argoPath, elsePath)
		}, code: exitFailed, says: "is generated by ApplicationSet clusters, which generates apps-of-test from the same folder clusters/apps: moving a file would remove it from all of their clusters"},
		"others of one folder": {so: second, code: exitChanges, says: "committed: Keep NodePool/team"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBesideArgo(t)
			test.so(b)
			b.adopt(test.code, test.says, "--repo", b.repo, "--write")
			if got := b.git("log", "--format=%s"); test.code == exitFailed && strings.Contains(got, "NodePool") {
				t.Errorf("it has committed %s", got)
			}
		})
	}
}

// tracked makes the clone push to a remote that has all commits.
func (b *beside) tracked() {
	b.t.Helper()
	remote := b.t.TempDir()
	b.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
	b.git("remote", "add", "origin", remote)
	b.git("push", "--quiet", "origin", "main")
}

// TestHandOverOfAFolder keeps the folder whose last file moves, announces that, and restores it on the way back.
func TestHandOverOfAFolder(t *testing.T) {
	b := newBeside(t)
	repo := []string{"--repo", b.repo}
	write := append([]string{"--write"}, repo...)
	b.annotated()
	b.adopt(exitChanges, "clusters/apps would be empty, and Git has no empty folders: without .gitkeep, Flux's Kustomization flux-system/apps would fail because its path does not exist.", repo...)
	b.adopt(exitChanges, "3 of 5", write...)
	if got := b.git("ls-files"); got != "clusters/apps/.gitkeep\nclusters/nodes/team.yaml\n" {
		t.Fatalf("committed: %s", got)
	}
	b.adopted()
	b.lists(false)
	b.adopt(exitChanges, "", append(append([]string{"--back", "--owner", "apps"}, write...), "nodepool/team")...)
	if got := b.git("ls-files"); got != "clusters/apps/team.yaml\nclusters/nodes/.gitkeep\n" {
		t.Fatalf("given back: %s", got)
	}
}

// TestHandOverInAFolderWithOthers leaves no placeholder in a folder with a file that is not YAML; a file that Git
// ignores does not count.
func TestHandOverInAFolderWithOthers(t *testing.T) {
	for name, test := range map[string]struct {
		ignore string
		want   string
	}{
		"a README":            {want: ".gitignore\nclusters/apps/README\nclusters/nodes/team.yaml\n"},
		"one that is ignored": {ignore: "README\n", want: ".gitignore\nclusters/apps/.gitkeep\nclusters/nodes/team.yaml\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBeside(t)
			b.annotated()
			b.write(".gitignore", test.ignore)
			b.write("clusters/apps/README", "a: [\n")
			b.git("add", ".")
			b.git("commit", "--quiet", "--message", "more")
			b.adopt(exitChanges, "3 of 5", "--repo", b.repo, "--write")
			if got := b.git("ls-files"); got != test.want {
				t.Errorf("committed: %s", got)
			}
		})
	}
}

// TestHandOverIsNotPushed reports that a commit is not pushed yet, before what it waits for.
func TestHandOverIsNotPushed(t *testing.T) {
	b := newBeside(t)
	b.tracked()
	write := []string{"--write", "--repo", b.repo}
	ahead := " is 1 commit ahead of origin/main: push it, or merge it with a pull request, first:\n\n  git -C "
	b.adopt(exitChanges, ahead, write...)
	b.adopt(exitChanges, ahead, write...)
	b.adopt(exitChanges, " push origin main\n\nthe annotation on NodePool/team is committed: waiting for Flux's", write...)
	b.git("push", "--quiet", "origin", "main")
	got := plumbline(t, "adopt", "--from", "flux", "--kubeconfig", b.kubeconfig, "--repo", b.repo)
	if strings.Contains(got.out, "ahead") || !strings.Contains(got.out, "is committed: waiting for") {
		t.Errorf("pushed: %s", got.out)
	}
}

// TestHandOverOfSeveral uses the plural.
func TestHandOverOfSeveral(t *testing.T) {
	b := newBeside(t)
	other := strings.Replace(teamPath, "team", "more", 1)
	b.objects[other] = b.objects[teamPath]
	b.change(other, func(_, metadata map[string]any) { metadata["name"] = "more" })
	b.write("clusters/apps/more.yaml", strings.Replace(teamYAML, "team", "more", 1))
	b.git("add", ".")
	b.git("commit", "--quiet", "--message", "another")
	b.adopt(exitChanges, "committed: Keep NodePool/more, NodePool/team in the cluster while they change hands", "--write", "--repo", b.repo)
}

// TestHandOverWithoutNodeSync prints the first step; if a Kustomization's path is gone already, it prints how to fix
// that.
func TestHandOverWithoutNodeSync(t *testing.T) {
	b := newBeside(t)
	b.change(appsPath, func(object, _ map[string]any) {
		object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "message": "kustomization path not found: stat /tmp/x"}}
	})
	b.annotated()
	b.adopted()
	b.adopt(exitChanges, "(Git has no empty folders: put an empty file .gitkeep into clusters/apps, and push that)")
	for path := range b.objects {
		if strings.Contains(path, "/nodesyncs/") {
			delete(b.objects, path)
		}
	}
	b.adopt(exitFailed, "first create the one that receives the definitions (see docs/how-to/beside-flux.md), or give its namespace with --namespace")
	if _, err := os.Stat("../../docs/how-to/beside-argo-cd.md"); err != nil {
		t.Error(err)
	}
}
