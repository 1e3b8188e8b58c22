package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplace: either all files have their new contents, or none, and nothing is left next to them.
func TestReplace(t *testing.T) {
	failure := errors.New("the disk is gone")
	never := func(int) bool { return false }
	for name, c := range map[string]struct {
		prepare func(t *testing.T, folder string)
		fails   func(call int) bool
		says    string
		want    string
	}{
		"all":                  {want: "new new new", fails: never},
		"one has changed":      {prepare: edit("b", "other"), says: "b has changed since it was read", want: "old other old", fails: never},
		"one is not there":     {prepare: remove("c"), says: "no such file", want: "old old ", fails: never},
		"the second rename":    {fails: func(call int) bool { return call == 1 }, says: failure.Error(), want: "old old old"},
		"also the restoration": {fails: func(call int) bool { return call >= 1 }, says: "a has been replaced, and cannot be restored", want: "new old old"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			var changes []Change
			for _, file := range []string{"a", "b", "c"} {
				path := filepath.Join(folder, file)
				if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
					t.Fatal(err)
				}
				changes = append(changes, Change{Path: path, Before: []byte("old"), After: []byte("new")})
			}
			if c.prepare != nil {
				c.prepare(t, folder)
			}
			calls := 0
			err := replace(changes, func(from, to string) error {
				calls++
				if c.fails(calls - 1) {
					return failure
				}
				return os.Rename(from, to)
			})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			var got []string
			for _, file := range []string{"a", "b", "c"} {
				text, _ := os.ReadFile(filepath.Join(folder, file))
				got = append(got, string(text))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("the files have %q, want %q", got, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, ".new-*")); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			if info, err := os.Stat(filepath.Join(folder, "a")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v: want the mode of before", info, err)
			}
		})
	}
}

func edit(name, text string) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		t.Helper()
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
}
