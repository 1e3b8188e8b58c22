package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is a file of a layer; the name of a folder ends in a slash.
type file struct {
	name string
	text []byte
	// mode defaults to 0644 for a file and 0755 for a folder, owner to root.
	mode  int64
	owner int
}

// authorities returns the CAs that Mozilla trusts for TLS, from the Go project's copy, in PEM. It omits those that are
// trusted only for some of their certificates, which PEM cannot express.
func authorities() ([]byte, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// layerOf builds a layer from files.
func layerOf(files []file, created time.Time) (v1.Layer, error) {
	var text bytes.Buffer
	packed := tar.NewWriter(&text)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.text)), Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: created,
		}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		switch {
		case f.mode != 0:
		case header.Typeflag == tar.TypeDir:
			header.Mode = 0o755
		default:
			header.Mode = 0o644
		}
		if err := packed.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := packed.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// archive writes an OCI layout as one file.
func archive(index v1.ImageIndex, created time.Time, out string) error {
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if _, err := layout.Write(folder, index); err != nil {
		return err
	}
	to, err := os.Create(out)
	if err != nil {
		return err
	}
	packed := tar.NewWriter(to)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if err := packed.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Size: int64(len(text)), Mode: 0o644, ModTime: created}); err != nil {
			return err
		}
		_, err = packed.Write(text)
		return err
	})
	if err == nil {
		err = packed.Close()
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}
