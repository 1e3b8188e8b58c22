package modcache_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/modcache"
)

func TestFolder(t *testing.T) {
	folder, err := modcache.Folder(t.Context(), "github.com/google/go-cmp@v0.7.0")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module github.com/google/go-cmp\n") {
		t.Errorf("%s has %q, %v", folder, text, err)
	}
	if _, err := modcache.Folder(t.Context(), "github.com/google/go-cmp@no-version"); err == nil || !strings.Contains(err.Error(), "no-version") {
		t.Errorf("another version: %v", err)
	}
}
