package charts

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
)

// blobs are chart archives in a folder, each named by its digest.
type blobs struct {
	dir string
}

func (b blobs) path(d digest.Digest) string { return filepath.Join(b.dir, d.Encoded()+".tgz") }

// read returns content only if it is what its digest says.
func (b blobs) read(d digest.Digest) ([]byte, error) {
	content, err := os.ReadFile(b.path(d))
	if err != nil {
		return nil, fmt.Errorf("read the chart cache: %w", err)
	}
	if got := d.Algorithm().FromBytes(content); got != d {
		return nil, fmt.Errorf("read %s of the chart cache: its content has digest %s", d, got)
	}
	return content, nil
}

// write puts content in place whole or not at all.
func (b blobs) write(d digest.Digest, content []byte) error { return place(b.path(d), content) }

// place writes a file beside its place and moves it there, so that a process
// killed half-way leaves nothing that looks whole.
func place(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the chart cache: %w", err)
	}
	file, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("write to the chart cache: %w", err)
	}
	_, err = file.Write(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s to the chart cache: %w", filepath.Base(path), err)
	}
	return nil
}
