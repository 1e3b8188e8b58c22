package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

const (
	// maxUnpacked bounds what an archive holds, in bytes: Karpenter's charts have some
	// 400 kB. All of it is held in memory while a release is written.
	maxUnpacked = 16 << 20
	// maxRead bounds each file that Helm reads as YAML or JSON.
	maxRead = 1 << 20
)

// readFiles are the files of a chart that Helm reads, by their names.
var readFiles = []string{"Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "requirements.yaml", "requirements.lock"}

// nestedSuffixes are those of archives within an archive, which Helm would unpack one
// after another, each with a limit of its own.
var nestedSuffixes = []string{".tgz", ".tar", ".gz"}

// weighArchive refuses an archive that is more than a chart, before Helm unpacks it.
func weighArchive(archive []byte) error {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("unpack it: %w", err)
	}
	// Whatever the headers say: no more comes out than this.
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

// lines refuses text with a line that ends where nobody sees it, whatever a template makes of
// the file. What is no text, a picture, has no lines.
func lines(name string, text []byte) error {
	var hidden *weigh.Error
	isText := utf8.Valid(text) || slices.Contains(readFiles, path.Base(name))
	if err := weigh.Breaks(text); isText && errors.As(err, &hidden) {
		return fmt.Errorf("%s:%d: %s", name, hidden.Line, hidden.Message)
	}
	return nil
}
