package charts

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/plumbline-dev/plumbline/internal/wholefile"
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
func (b blobs) write(d digest.Digest, content []byte) error { return putInPlace(b.path(d), content) }

// putInPlace writes a file of the cache.
func putInPlace(path string, content []byte) error {
	err := wholefile.Write(path, 0o755, func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s to the chart cache: %w", filepath.Base(path), err)
	}
	return nil
}
