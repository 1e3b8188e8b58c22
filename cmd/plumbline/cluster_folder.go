package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostBelow is how many folders with a plumbline.yaml are named.
	mostBelow = 5
	// mostLooked is how many files are looked at to find them, and deepest how many folders down.
	mostLooked, deepest = 20_000, 6
)

// hasCluster refuses a folder that is no cluster's, and names those below it that are.
func hasCluster(folder string) error {
	if _, err := os.Lstat(filepath.Join(folder, render.FileName)); err == nil {
		return nil
	}
	if found := clustersBelow(folder); len(found) > 0 {
		return fmt.Errorf("%s has no %s: it is in %s; name the folder of one cluster", folder, render.FileName, strings.Join(found, ", "))
	}
	return fmt.Errorf("%s has no %s, nor has a folder below it: name the folder of a cluster, or write one (docs/reference/plumbline-yaml.md)", folder, render.FileName)
}

// clustersBelow are the first few folders that have a plumbline.yaml.
func clustersBelow(folder string) []string {
	var found []string
	looked := 0
	// What cannot be read is not found.
	_ = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		looked++
		switch {
		case looked > mostLooked || len(found) > mostBelow:
			return fs.SkipAll
		case err != nil, entry.IsDir() && name != folder && hiddenOrDeep(folder, name):
			return fs.SkipDir
		case !entry.IsDir() && entry.Name() == render.FileName:
			found = append(found, filepath.Dir(name))
		}
		return nil
	})
	if len(found) > mostBelow {
		found = append(found[:mostBelow], "…")
	}
	return found
}

func hiddenOrDeep(folder, name string) bool {
	below, err := filepath.Rel(folder, name)
	return err != nil || strings.HasPrefix(filepath.Base(name), ".") || strings.Count(below, string(filepath.Separator)) >= deepest
}
