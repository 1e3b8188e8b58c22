package markdown

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// All reads every document of the project below a folder, by its path from there. It skips hidden
// folders, testdata and dist.
func All(root string) (map[string]*Document, error) {
	all := map[string]*Document{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "dist"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			all[filepath.ToSlash(name)], err = Read(path)
		}
		return err
	})
	return all, err
}
