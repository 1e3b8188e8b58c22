package main

import (
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

// newBesideArgo is a pool that an Application applies, and a clone that has its file.
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

// argoLists has the Application list the pool, or not.
func (b *beside) argoLists(team bool) {
	b.change(argoPath, func(object, _ map[string]any) {
		object["status"] = map[string]any{"resources": []any{map[string]any{"group": "karpenter.sh", "kind": "NodePool", "name": "team", "requiresPruning": !team}}}
	})
}

// kept has the pool have the mark in the cluster, applied by a field manager, or no mark.
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

// owned has plumbline's label on the pool, or not.
func (b *beside) owned(owned bool) {
	b.change(teamPath, func(_, metadata map[string]any) {
		if delete(metadata["labels"].(map[string]any), v1alpha1.OwnerLabel); owned {
			metadata["labels"].(map[string]any)[v1alpha1.OwnerLabel] = "fleet.prod"
		}
	})
}

// TestHandOverFromArgoCD walks from one step to the next, and back to the Application.
func TestHandOverFromArgoCD(t *testing.T) {
	b := newBesideArgo(t)
	write := []string{"--write", "--repo", b.repo}
	b.adopt(exitChanges, "argocd.argoproj.io/sync-options: Prune=false,Delete=false")
	b.adopt(exitChanges, "1 of 5: mark it, so that it stays (committed)", write...)
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
	b.adopt(exitFailed, "say which one gets it back with --owner", back...)
	back = append(back, "--owner", "argocd/apps")
	b.adopt(exitChanges, "1 of 5: mark it, so that it stays (committed)", back...)
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

// sources has the Application have several.
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

// inSet has Applications made by an ApplicationSet.
func (b *beside) inSet(paths ...string) {
	for _, path := range paths {
		b.change(path, func(_, metadata map[string]any) {
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "clusters", "uid": "s"}}
		})
	}
}

// TestHandOverOfSeveralSources finds the source whose folder has the file, and says so where none or several have it; Applications that an ApplicationSet
// makes from one folder are refused.
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
		"one has a folder":    {so: func(b *beside) { b.sources("clusters/apps") }, code: exitChanges, says: "committed: Keep NodePool/team"},
		"two have folders":    {so: func(b *beside) { b.sources("clusters/web", "clusters/apps") }, code: exitChanges, says: "committed: Keep NodePool/team"},
		"only charts":         {so: func(b *beside) { b.sources() }, code: exitFailed, says: "Argo CD's Application argocd/apps applies no folder of a repository, only charts"},
		"none has the file":   {so: func(b *beside) { b.sources("clusters/web", "clusters/db") }, code: exitFailed, says: "is in none of the folders of its sources in"},
		"one is in the other": {so: func(b *beside) { b.sources("clusters/apps", "clusters/nodes/more") }, code: exitFailed, says: "one is in the other"},
		"both have the file": {so: func(b *beside) {
			b.sources("clusters/apps", "clusters/more")
			b.write("clusters/more/team.yaml", teamYAML)
			b.git("add", ".")
			b.git("commit", "--quiet", "--message", "twice")
		}, code: exitFailed, says: "is in more than one folder of its sources: clusters/apps, clusters/more"},
		"of an ApplicationSet": {so: func(b *beside) { b.inSet(argoPath) }, code: exitChanges, says: "argocd/apps, made by ApplicationSet clusters"},
		"that does not sync": {so: func(b *beside) {
			b.inSet(argoPath)
			b.kept(v1alpha1.FieldManager)
			b.owned(true)
			b.change(argoPath, func(object, _ map[string]any) { object["spec"].(map[string]any)["syncPolicy"] = map[string]any{} })
			b.write("clusters/nodes/team.yaml", b.read("clusters/apps/team.yaml"))
			b.git("rm", "--quiet", "clusters/apps/team.yaml")
			b.git("add", ".")
			b.git("commit", "--quiet", "--message", "moved")
		}, code: exitChanges, says: "or set spec.template.spec.syncPolicy.automated of ApplicationSet clusters, which makes it"},
		"whose others have its folder": {so: func(b *beside) {
			second(b)
			b.inSet(argoPath, elsePath)
		}, code: exitFailed, says: "is made by ApplicationSet clusters, which makes apps-of-test from the same folder clusters/apps: a file that moves would leave all of their clusters"},
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
