package render_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/render"
)

// listed counts how often a folder is listed.
type listed struct {
	fstest.MapFS
	times map[string]int
}

func (c listed) ReadDir(name string) ([]fs.DirEntry, error) {
	c.times[name]++
	return c.MapFS.ReadDir(name)
}

// repeated has a folder that nodes lists very often, in several ways.
func repeated(t *testing.T) (listed, *render.Karpenter) {
	t.Helper()
	files := listed{folder(map[string]string{"plumbline.yaml": plumblineYAML, "nodes/a/class.yaml": class("default")}).FS.(fstest.MapFS), map[string]int{}}
	k, err := render.ReadKarpenter(render.Snapshot{FS: files.MapFS}, ".")
	if err != nil {
		t.Fatal(err)
	}
	k.Nodes = strings.Split(strings.Repeat("./nodes ./nodes/ nodes/a nodes/../nodes ", 500), " ")
	k.Nodes = k.Nodes[:len(k.Nodes)-1]
	return files, k
}

// TestAFolderIsWalkedOnce: this is true however often, and in however many ways, nodes lists it.
func TestAFolderIsWalkedOnce(t *testing.T) {
	files, k := repeated(t)
	set, err := render.Render(t.Context(), render.Snapshot{FS: files}, ".", k, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Objects) != 1 {
		t.Errorf("%d objects", len(set.Objects))
	}
	for name, times := range files.times {
		if times > 2 {
			t.Errorf("%s was listed %d times", name, times)
		}
	}
}

// TestAWalkEndsWithItsContext: shutting down the daemon does not wait for a list of folders.
func TestAWalkEndsWithItsContext(t *testing.T) {
	files, k := repeated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := render.Render(ctx, render.Snapshot{FS: files}, ".", k, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Render() = %v", err)
	}
	if files.times["nodes"] > 0 {
		t.Error("it went on listing")
	}
}

// TestANameThatIsNotWhatItShows: a file that looks like a definition is not skipped.
func TestANameThatIsNotWhatItShows(t *testing.T) {
	for name, refused := range map[string]string{
		"pool.yaml\n": `nodes/pool.yaml\n`, "pool.yaml ": "nodes/pool.yaml ", "pool.ya\u200bml": `nodes/pool.ya\u200bml`,
		"pool.txt": "", "pool.yaml.txt\n": "", "Größe.md": "",
	} {
		snapshot := folder(map[string]string{"plumbline.yaml": plumblineYAML, "nodes/class.yaml": class("default"), "nodes/" + name: "kind: ["})
		k, err := render.ReadKarpenter(snapshot, ".")
		if err != nil {
			t.Fatal(err)
		}
		_, err = render.Render(t.Context(), snapshot, ".", k, nil)
		if refused == "" {
			if err != nil {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), refused+": its name has characters that are not seen") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
