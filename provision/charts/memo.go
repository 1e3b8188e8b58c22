package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
)

// memo is what a version resolved to, both charts at once.
type memo struct {
	Repository string   `json:"repository"`
	Version    string   `json:"version"`
	CRD        artifact `json:"crd"`
	Controller artifact `json:"controller"`
}

// artifact is a chart: the digest that pins it, of its OCI manifest where it has
// one, and that of its archive.
type artifact struct {
	Manifest digest.Digest `json:"manifest"`
	Content  digest.Digest `json:"content"`
}

func (a artifact) valid() bool { return a.Manifest.Validate() == nil && a.Content.Validate() == nil }

// memos are the versions resolved before, a file each.
type memos struct {
	dir string
}

// path has a file for each version of a repository, and for each pair of digests that it has to have.
func (m memos) path(ref Ref) string {
	name := ref.String()
	for _, chart := range []string{CRDChart, ControllerChart} {
		if want := ref.wanted(chart); want != "" {
			name += " " + chart + "@" + want.String()
		}
	}
	return filepath.Join(m.dir, digest.FromString(name).Encoded()+".json")
}

// recall returns the zero memo for a version that was never resolved, and for
// one whose memo cannot be read: it is resolved again then.
func (m memos) recall(ref Ref) (memo, error) {
	raw, err := os.ReadFile(m.path(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return memo{}, nil
	}
	if err != nil {
		return memo{}, fmt.Errorf("read the chart cache: %w", err)
	}
	return parse(raw), nil
}

// pinned finds a chart by its digest among all versions that were resolved,
// wherever they came from; the zero artifact where none is it.
func (m memos) pinned(version, chart string, pin digest.Digest) artifact {
	names, _, err := m.newestFirst()
	if err != nil {
		return artifact{} // then it is pulled
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		known := parse(raw)
		found := known.Controller
		if chart == CRDChart {
			found = known.CRD
		}
		if known.Version == version && found.Manifest == pin {
			return found
		}
	}
	return artifact{}
}

// refresh makes a version the one that was resolved last. A version without a file has nothing to refresh.
func (m memos) refresh(ref Ref) {
	now := time.Now()
	_ = os.Chtimes(m.path(ref), now, now) // it only orders what is pruned
}

func parse(raw []byte) memo {
	var known memo
	if json.Unmarshal(raw, &known) != nil || !known.CRD.valid() || !known.Controller.valid() {
		return memo{}
	}
	return known
}

func (m memos) remember(ref Ref, pulled memo) error {
	raw, err := json.Marshal(pulled)
	if err != nil {
		return fmt.Errorf("encode what %s resolved to: %w", ref, err)
	}
	return putInPlace(m.path(ref), raw)
}
