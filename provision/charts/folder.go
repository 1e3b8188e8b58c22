package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
)

// maxFiles is how many files an unpacked chart may have.
const maxFiles = 1000

// folder is a folder of the checkout: with archives as helm package names them,
// or with folders as helm pull --untar leaves them.
type folder struct {
	ref   Ref
	files fs.FS
}

// archiveName is what helm package calls a chart's archive.
func archiveName(chart, version string) string { return chart + "-" + version + archiveSuffix }

const archiveSuffix = ".tgz"

// pull reads the archive <chart>-<version>.tgz, the folder <chart>-<version>, or
// the folder <chart>: the first that is there.
func (o *folder) pull(_ context.Context, chart string, _ digest.Digest) (artifact, []byte, error) {
	names := []string{archiveName(chart, o.ref.Version), chart + "-" + o.ref.Version, chart}
	for _, name := range names {
		name = path.Join(o.ref.Repository, name)
		info, err := fs.Stat(o.files, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return artifact{}, nil, fmt.Errorf("look for chart %s %s: %w", chart, o.ref.Version, err)
		case info.IsDir():
			return o.pack(chart, name)
		}
		return o.take(chart, name, info.Size())
	}
	return artifact{}, nil, &NotFoundError{Ref: o.ref, Chart: chart, Near: o.near(chart), Reason: "a folder of the repository: run plumbline vendor, and commit what it writes"}
}

// take reads an archive.
func (o *folder) take(chart, name string, size int64) (artifact, []byte, error) {
	if size > maxArchive {
		return artifact{}, nil, o.malformed(chart, fmt.Errorf("%s has %d bytes: %w", name, size, errdef.ErrSizeExceedsLimit))
	}
	archive, err := fs.ReadFile(o.files, name)
	if err != nil {
		return artifact{}, nil, fmt.Errorf("read chart %s %s: %w", chart, o.ref.Version, err)
	}
	// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer
	if bytes.HasPrefix(archive, []byte("version https://git-lfs.github.com/")) {
		return artifact{}, nil, o.malformed(chart, fmt.Errorf("%s is a pointer of Git LFS, which is not fetched: commit the archive itself", name))
	}
	found := digest.FromBytes(archive)
	return artifact{Manifest: found, Content: found}, archive, nil
}

// pack makes an archive of an unpacked chart. Its digest is that of its files and
// their names, since the same files may be packed in many ways.
func (o *folder) pack(chart, dir string) (artifact, []byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	files, size := 0, 0
	var sums strings.Builder
	err := fs.WalkDir(o.files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if files++; files > maxFiles { // folders, too: a tree of Git may have one many times over
			return fmt.Errorf("%s contains more than %d files and folders: %w", dir, maxFiles, errdef.ErrSizeExceedsLimit)
		}
		if entry.IsDir() {
			return nil
		}
		content, err := fs.ReadFile(o.files, name)
		if err != nil {
			return err
		}
		if size += len(content); size > maxUnpacked {
			return fmt.Errorf("%s contains more than %d bytes: %w", dir, maxUnpacked, errdef.ErrSizeExceedsLimit)
		}
		below := strings.TrimPrefix(name, dir+"/")
		fmt.Fprintf(&sums, "%s %q\n", digest.FromBytes(content), below)
		if err := packed.WriteHeader(&tar.Header{Name: path.Join(chart, below), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = packed.Write(content)
		return err
	})
	switch {
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return artifact{}, nil, o.malformed(chart, err)
	case err == nil:
		err = errors.Join(packed.Close(), zipped.Close())
	}
	if err != nil {
		return artifact{}, nil, fmt.Errorf("read chart %s %s: %w", chart, o.ref.Version, err)
	}
	return artifact{Manifest: digest.FromString(sums.String()), Content: digest.FromBytes(out.Bytes())}, out.Bytes(), nil
}

// near are the versions of a chart that the folder has archives of.
func (o *folder) near(chart string) []string {
	entries, err := fs.ReadDir(o.files, o.ref.Repository)
	if err != nil {
		return nil // that it is not there is what the error says already
	}
	var versions []string
	for _, entry := range entries {
		version, isChart := strings.CutPrefix(entry.Name(), chart+"-")
		version, isArchive := strings.CutSuffix(version, archiveSuffix)
		if isChart && isArchive {
			versions = append(versions, version)
		}
	}
	return nearest(o.ref.Version, versions)
}

func (o *folder) malformed(chart string, err error) error {
	return &MalformedError{Chart: chart, Version: o.ref.Version, Err: err}
}
