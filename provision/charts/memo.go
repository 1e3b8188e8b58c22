package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
)

// memo is what a version resolved to, both charts at once.
type memo struct {
	Repository string   `json:"repository"`
	Version    string   `json:"version"`
	CRD        artifact `json:"crd"`
	Controller artifact `json:"controller"`
}

// artifact is a chart in a registry: its manifest, and the archive it names.
type artifact struct {
	Manifest digest.Digest `json:"manifest"`
	Content  digest.Digest `json:"content"`
}

func (a artifact) valid() bool { return a.Manifest.Validate() == nil && a.Content.Validate() == nil }

// memos are the versions resolved before, a file each.
type memos struct {
	dir string
}

func (m memos) path(ref Ref) string {
	return filepath.Join(m.dir, digest.FromString(ref.String()).Encoded()+".json")
}

// recall returns the zero memo for a version that was never resolved, and for
// one whose memo cannot be read: it is resolved anew then.
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
	return place(m.path(ref), raw)
}
