package main

import (
	"os"
	"strings"
	"testing"
)

// tracked has the clone push to a remote, which has all that is committed.
func (b *beside) tracked() {
	b.t.Helper()
	remote := b.t.TempDir()
	b.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
	b.git("remote", "add", "origin", remote)
	b.git("push", "--quiet", "origin", "main")
}

// TestHandOverOfAFolder keeps the folder whose last file moves, says so before, and has it as it was on the way back.
func TestHandOverOfAFolder(t *testing.T) {
	b := newBeside(t)
	repo := []string{"--repo", b.repo}
	write := append([]string{"--write"}, repo...)
	b.annotated()
	b.adopt(exitChanges, "Nothing else is left in clusters/apps, and Git has no empty folders: without .gitkeep, Flux's Kustomization flux-system/apps would fail, since its path is gone.", repo...)
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

// TestHandOverInAFolderWithOthers leaves no file in a folder that has one that is not YAML, and one that Git ignores does not count.
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

// TestHandOverIsNotPushed says that a commit is not pushed yet, before it says what is waited for.
func TestHandOverIsNotPushed(t *testing.T) {
	b := newBeside(t)
	b.tracked()
	write := []string{"--write", "--repo", b.repo}
	ahead := " is 1 commit ahead of origin/main: push that first, or have it merged by a pull request:\n\n  git -C "
	b.adopt(exitChanges, ahead, write...)
	b.adopt(exitChanges, ahead, write...)
	b.adopt(exitChanges, " push origin main\n\nthe annotation of NodePool/team is committed: waiting for Flux's", write...)
	b.git("push", "--quiet", "origin", "main")
	got := plumbline(t, "adopt", "--from", "flux", "--kubeconfig", b.kubeconfig, "--repo", b.repo)
	if strings.Contains(got.out, "ahead") || !strings.Contains(got.out, "is committed: waiting for") {
		t.Errorf("pushed: %s", got.out)
	}
}

// TestHandOverOfSeveral names them in the plural.
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

// TestHandOverWithoutNodeSync says what comes first; where a Kustomization's path is gone already it says how that is mended.
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
	b.adopt(exitFailed, "first create the one that gets the definitions, as docs/how-to/beside-flux.md says, or name its namespace with --namespace")
	if _, err := os.Stat("../../docs/how-to/beside-argo-cd.md"); err != nil {
		t.Error(err)
	}
}
