package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

func TestLimits(t *testing.T) {
	files := map[string]string{"plumbline.yaml": plumblineYAML, "a/b/c/d.yaml": pool("d"), "e.yaml": pool("e")}
	all := render.Limits{FileBytes: 1000, TotalBytes: 10_000, Files: 10, Depth: 3, Folders: 10, Values: 1000, Objects: 10, ObjectValues: 1000, Text: 1000, Work: time.Minute}
	if _, err := renderAll(t, folder(files), ".", nil, render.WithLimits(all)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*render.Limits)
		want   string
	}{
		"depth":       {func(l *render.Limits) { l.Depth = 2 }, "too much to render: folders nest deeper than 2 at a/b/c"},
		"files":       {func(l *render.Limits) { l.Files = 2 }, "too much to render: more than 2 files"},
		"total bytes": {func(l *render.Limits) { l.TotalBytes = 500 }, "too much to render: more than 500 bytes"},
		"file bytes":  {func(l *render.Limits) { l.FileBytes = 150 }, "larger than 150 bytes"},
		"folders":     {func(l *render.Limits) { l.Folders = 3 }, "too much to render: more than 3 folders"},
		"values":      {func(l *render.Limits) { l.Values = 20 }, "too much to render: more than 20 values"},
		"objects":     {func(l *render.Limits) { l.Objects = 1 }, "too much to render: more than 1 objects"},
		"text":        {func(l *render.Limits) { l.Text = 200 }, "too much to render: the definitions have more than 200 bytes of text"},
		"work":        {func(l *render.Limits) { l.Work = 1 }, "to check the definitions below . takes more than 1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := all
			tc.change(&limits)
			_, err := renderAll(t, folder(files), ".", nil, render.WithLimits(limits))
			found := errors.As(err, new(render.Errors)) || errors.As(err, new(*render.SlowError))
			if !found || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestWhatIsKeptCounts: cached objects count, even if a commit only adds to the last one.
func TestWhatIsKeptCounts(t *testing.T) {
	limits := render.DefaultLimits()
	for name, tc := range map[string]struct {
		change func(*render.Limits)
		want   string
	}{
		"text":    {func(l *render.Limits) { l.Text = 400 }, "more than 400 bytes of text"},
		"objects": {func(l *render.Limits) { l.Objects = 2 }, "more than 2 objects"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := limits
			tc.change(&limits)
			cache := &render.Cache{}
			files := map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"), "b.yaml": pool("b")}
			if _, err := renderAll(t, folder(files), ".", nil, render.WithLimits(limits), render.WithCache(cache)); err != nil {
				t.Fatal(err)
			}
			files["c.yaml"] = pool("c")
			if _, err := renderAll(t, folder(files), ".", nil, render.WithLimits(limits), render.WithCache(cache)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
			delete(files, "c.yaml")
			files["b.yaml"] += "---\n" + pool("d")
			if _, err := renderAll(t, folder(files), ".", nil, render.WithLimits(limits), render.WithCache(cache)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it, with an object more in a file", err, tc.want)
			}
		})
	}
}

// TestUserDataThatNoInstanceTakes: EC2 refuses to launch with more than 16 KiB.
func TestUserDataThatNoInstanceTakes(t *testing.T) {
	with := func(name, alias string, bytes int) string {
		return strings.Replace(class(name), "al2023@latest", alias, 1) + "  userData: \"" + strings.Repeat("#", bytes) + "\"\n"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"as much as EC2 takes":     {with("a", "al2023@latest", 16384), ""},
		"a byte more":              {with("a", "al2023@latest", 16385), "a.yaml:10: EC2NodeClass/a: spec.userData has 16385 bytes, and EC2 takes no more than 16384: have the nodes download the rest, or put it into the AMI"},
		"comments of Bottlerocket": {with("a", "bottlerocket@latest", 65536), ""},
		"more than are parsed":     {with("a", "bottlerocket@latest", 65537), "EC2NodeClass/a: spec.userData has 65537 bytes, and EC2 takes no more than 16384: have the nodes download the rest, or put it into the AMI"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": tc.text}), ".", nil)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestManyLongTexts: many definitions, each within the limit of a file, could exhaust the memory of the daemon.
func TestManyLongTexts(t *testing.T) {
	files := map[string]string{"plumbline.yaml": plumblineYAML}
	for i := range 20 {
		files[fmt.Sprintf("%d.yaml", i)] = strings.Replace(pool(fmt.Sprintf("p%d", i)), "spec:", "  annotations: {a: "+strings.Repeat("x", 1<<20-1000)+"}\nspec:", 1)
	}
	if _, err := renderAll(t, folder(files), ".", nil); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes of text") {
		t.Errorf("error %.200v", err)
	}
}
