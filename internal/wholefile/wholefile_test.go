package wholefile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/wholefile"
)

// TestWrite: a file is complete, or after an error unchanged, with no other file next to it.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file")
	failure := errors.New("the disk is full")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"first", nil, "first"}, {"half", failure, "first"}, {"second", nil, "second"}} {
		err := wholefile.Write(path, 0o700, func(to io.Writer) error {
			_, err := io.WriteString(to, c.text)
			return errors.Join(err, c.err)
		})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: error %v, want %v", c.text, err, c.err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
			t.Errorf("after %s it has %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v are in the folder", entries, err)
	}
}
