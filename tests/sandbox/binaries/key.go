package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keyLength is the number of hexadecimal digits of a key.
const keyLength = 16

// key identifies a build of a program: it changes with the module's files, the Go version and the flags.
func (b *Builder) key(ctx context.Context, name Name, r recipe) (string, error) {
	goVersion, err := b.goVersion(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%q\n", goVersion, r.pkg, r.tags, r.ldflags)
	for _, folder := range []string{r.folder(name), r.sources} {
		if folder == "" {
			continue
		}
		if err := addFiles(sum, filepath.Join(b.Source, folder)); err != nil {
			return "", fmt.Errorf("read what %s is built from: %w", name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:keyLength], nil
}

// addFiles writes the names and contents of a module's files to sum.
func addFiles(sum io.Writer, dir string) error {
	files, err := moduleFiles(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", strings.TrimPrefix(file, dir+string(filepath.Separator)), len(data), data)
	}
	return nil
}

// moduleFiles returns go.mod, go.sum and the sources, of the module and of those below it that it is built with,
// sorted.
func moduleFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := entry.Name()
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if isSource || name == "go.mod" || name == "go.sum" {
			files = append(files, path)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}
