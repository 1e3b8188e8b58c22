package conversion_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/legacy/conversion"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden converts the folders of testdata: before has the files, after what they become, and report what became of
// each field. The documented examples of each version are among them.
func TestGolden(t *testing.T) {
	folders, err := filepath.Glob("testdata/*/before")
	if err != nil || len(folders) == 0 {
		t.Fatal(err, folders)
	}
	for _, folder := range folders {
		folder = filepath.Dir(folder)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var options conversion.Options
			if data, err := os.ReadFile(filepath.Join(folder, "options.json")); err == nil {
				if err := json.Unmarshal(data, &options); err != nil {
					t.Fatal(err)
				}
			}
			made := conversion.Convert(read(t, filepath.Join(folder, "before")), options)
			got := map[string]string{"report": report(made)}
			for _, file := range made.Files {
				got["after/"+file.Name] = string(file.After)
			}
			if *update {
				rewrite(t, folder, got)
				return
			}
			want := map[string]string{}
			for _, file := range append(read(t, filepath.Join(folder, "after")), conversion.File{Name: "../report"}) {
				name := filepath.ToSlash(filepath.Join("after", file.Name))
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil {
					t.Fatal(err)
				}
				want[name] = string(text)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func rewrite(t *testing.T, folder string, got map[string]string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(folder, "after")); err != nil {
		t.Fatal(err)
	}
	for name, text := range got {
		name = filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the files of a folder; none if it does not exist.
func read(t *testing.T, folder string) (files []conversion.File) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // a golden folder without results does not exist
		}
		data, err := os.ReadFile(name)
		relative, _ := filepath.Rel(folder, name)
		files = append(files, conversion.File{Name: filepath.ToSlash(relative), Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// report returns what became of each field, one in a line, and what is left.
func report(made conversion.Conversion) string {
	out := &bytes.Buffer{}
	for _, file := range made.Files {
		for _, object := range file.Objects {
			fmt.Fprintf(out, "%s:%d %s/%s becomes %s\n", file.Name, object.Line, object.Kind, object.Name, strings.Join(object.Becomes, ", "))
			for _, f := range object.Fields {
				fmt.Fprintf(out, "  %s %d %s", f.Result, f.Line, f.Path)
				for _, part := range []struct{ before, text string }{{" → ", f.To}, {" in ", f.Object}, {" = ", f.Value}, {"; ", f.Reason}} {
					if part.text != "" {
						fmt.Fprint(out, part.before, part.text)
					}
				}
				fmt.Fprintln(out)
			}
		}
	}
	for _, left := range made.Left {
		fmt.Fprintf(out, "left %s:%d %s: %s (blocks: %v)\n", left.File, left.Line, left.What, left.Why, left.Blocks)
	}
	fmt.Fprintf(out, "open: %d\n", made.Open())
	return out.String()
}
