package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"

	"github.com/plumbline-dev/plumbline/confine/weigh"
	"github.com/plumbline-dev/plumbline/internal/wholefile"
)

const (
	// maxUnpacked limits the content of an archive, in bytes: Karpenter's charts have some 400 kB. All of it is held in
	// memory while a release is written.
	maxUnpacked = 16 << 20
	// maxRead limits each file that Helm parses as YAML or JSON.
	maxRead = 1 << 20
)

// readFiles are the names of the chart files that Helm parses.
var readFiles = []string{"Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "requirements.yaml", "requirements.lock"}

// nestedSuffixes are those of archives within an archive. Helm would unpack one after another, each with a limit of its
// own.
var nestedSuffixes = []string{".tgz", ".tar", ".gz"}

// weighArchive refuses an archive that is too large for a chart, before Helm unpacks it.
func weighArchive(archive []byte) error {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("unpack it: %w", err)
	}
	// Limits the output whatever the headers claim.
	unpacked := tar.NewReader(io.LimitReader(zipped, maxUnpacked+maxFiles*1024))
	files, size := 0, int64(0)
	for {
		header, err := unpacked.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack it, up to %d bytes: %w", maxUnpacked, err)
		}
		if files, size = files+1, size+header.Size; files > maxFiles || size > maxUnpacked {
			return fmt.Errorf("it contains more than %d files or %d bytes", maxFiles, maxUnpacked)
		}
		if err := weighFile(header, unpacked); err != nil {
			return err
		}
	}
}

// weighFile refuses one file of an archive.
func weighFile(header *tar.Header, content io.Reader) error {
	if err := checkName(header.Name); err != nil {
		return err
	}
	base := path.Base(header.Name)
	switch {
	case slices.ContainsFunc(nestedSuffixes, func(suffix string) bool { return strings.HasSuffix(base, suffix) }):
		return fmt.Errorf("it contains another archive, %q: unpack it in place", header.Name)
	case slices.Contains(readFiles, base) && header.Size > maxRead:
		return fmt.Errorf("its %s has more than %d bytes", base, maxRead)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", base, err)
	}
	if err := lines(header.Name, text); err != nil || !slices.Contains(readFiles, base) {
		return err
	}
	if err := weigh.YAML(text); err != nil {
		return fmt.Errorf("its %s cannot be read: %w", base, err)
	}
	return nil
}

// lines refuses text with hidden line breaks, even if a template never uses the file. Binary files, such as pictures,
// have no lines.
func lines(name string, text []byte) error {
	var hidden *weigh.Error
	isText := utf8.Valid(text) || slices.Contains(readFiles, path.Base(name))
	if err := weigh.Breaks(text); isText && errors.As(err, &hidden) {
		return fmt.Errorf("%s:%d: %s", name, hidden.Line, hidden.Message)
	}
	return nil
}

// maxFiles limits the files of an unpacked chart.
const maxFiles = 1000

// folder is a folder of the checkout: with archives named as by helm package, or with folders as from helm pull
// --untar.
type folder struct {
	ref   Ref
	files fs.FS
}

// archiveName returns the file name that helm package gives a chart's archive.
func archiveName(chart, version string) string { return chart + "-" + version + archiveSuffix }

const archiveSuffix = ".tgz"

// pull reads the archive <chart>-<version>.tgz, the folder <chart>-<version>, or the folder <chart>: the first that
// exists.
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
		return o.readArchive(chart, name, info.Size())
	}
	return artifact{}, nil, &NotFoundError{
		Ref: o.ref, Chart: chart, Near: o.versionsOf(chart),
		Reason: "a folder of the repository: run plumbline vendor, and commit what it writes",
	}
}

// readArchive reads an archive.
func (o *folder) readArchive(chart, name string, size int64) (artifact, []byte, error) {
	if size > maxArchive {
		return artifact{}, nil, o.malformed(chart, fmt.Errorf("%s has %d bytes: %w", name, size, errdef.ErrSizeExceedsLimit))
	}
	archive, err := fs.ReadFile(o.files, name)
	if err != nil {
		return artifact{}, nil, fmt.Errorf("read chart %s %s: %w", chart, o.ref.Version, err)
	}
	// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer
	if bytes.HasPrefix(archive, []byte("version https://git-lfs.github.com/")) {
		return artifact{}, nil, o.malformed(chart,
			fmt.Errorf("%s is a pointer of Git LFS, which is not fetched: commit the archive itself", name))
	}
	found := digest.FromBytes(archive)
	return artifact{Manifest: found, Content: found}, archive, nil
}

// pack makes an archive of an unpacked chart. Its digest is that of the files and their names, because the same files
// can be packed in many ways.
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
		if files++; files > maxFiles { // folders too: a Git tree may contain one many times
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

// versionsOf returns the versions of a chart that the folder has archives of.
func (o *folder) versionsOf(chart string) []string {
	entries, err := fs.ReadDir(o.files, o.ref.Repository)
	if err != nil {
		return nil // the error already reports that the folder does not exist
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

// plainName matches the names that files and charts within a chart may have. Helm writes the name of each template into
// the manifest as a comment: a name with a line break would add objects there.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._+@/-]+$`)

// checkName refuses names with other characters than letters, digits and a few symbols.
func checkName(name string) error {
	if plainName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("it contains a file with the name %.100q: only letters, digits and . _ + @ - are allowed in names", name)
}

// blobs are chart archives in a folder, each named by its digest.
type blobs struct {
	dir string
}

func (b blobs) path(d digest.Digest) string { return filepath.Join(b.dir, d.Encoded()+".tgz") }

// read returns the content only if it matches its digest.
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

// write writes content atomically.
func (b blobs) write(d digest.Digest, content []byte) error { return putInPlace(b.path(d), content) }

// putInPlace writes a file of the cache atomically.
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
