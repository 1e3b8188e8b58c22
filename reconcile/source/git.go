package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// The limits where Options has none.
const (
	DefaultMaxBytes       = 256 << 20
	DefaultMaxObjectBytes = 64 << 20
	DefaultMaxFileBytes   = 16 << 20
)

// Options of a Git.
type Options struct {
	// Dir is a folder for the stores. What an earlier process has left in its
	// subfolder "stores" is removed at the first fetch.
	Dir string
	// MaxBytes bounds one clone on disk.
	MaxBytes int64
	// MaxObjectBytes bounds each object of a repository, wherever it stands:
	// it is held in memory once while the pack is indexed.
	MaxObjectBytes int64
	// MaxFileBytes bounds each file that is read from a Snapshot.
	MaxFileBytes int64
	// Timeout bounds one fetch; 0 leaves that to the caller's context.
	Timeout time.Duration
}

// Git fetches from Git hosts over https, http and ssh. Its methods may be
// called at the same time; fetches with one key go one after another.
type Git struct {
	options Options

	mu    sync.Mutex
	slots map[string]*slot
	swept bool
}

// slot is the store of one key.
type slot struct {
	mu      sync.Mutex
	url     string
	clones  int
	store   *store
	refused refusal
}

// refusal remembers which commit was too large, so that it is not fetched again
// and again.
type refusal struct {
	commit plumbing.Hash
	err    error
}

// Request says what to fetch.
type Request struct {
	// Key names the store: namespace/name of the NodeSync.
	Key string
	URL string
	Ref v1alpha1.GitRef
	// Path is the folder of which every object has to be present after the
	// fetch; empty for the whole tree. An object elsewhere that turns out to
	// be missing fails the read, and the next fetch clones anew.
	Path        string
	Credentials Credentials
}

// NewGit returns a Git that has not touched the disk yet.
func NewGit(o Options) *Git {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxObjectBytes == 0 {
		o.MaxObjectBytes = DefaultMaxObjectBytes
	}
	if o.MaxFileBytes == 0 {
		o.MaxFileBytes = DefaultMaxFileBytes
	}
	return &Git{options: o, slots: map[string]*slot{}}
}

// Fetch returns the newest revision of a reference. Where the host has none
// that is newer, nothing is fetched and the Snapshot is made anew.
//
// The error is the context's, or one of this package's types: *AuthError,
// *CertificateError, *HostKeyError, *LimitError, *MissingError, *NotFoundError,
// *RefError, *SecretError, *StoreError, *UnreachableError or *URLError.
func (g *Git) Fetch(ctx context.Context, req Request) (*render.Snapshot, error) {
	if g.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.options.Timeout)
		defer cancel()
	}
	s, err := g.slot(req.Key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url != req.URL {
		if err := s.empty(); err != nil {
			return nil, err
		}
		s.url = req.URL
	}
	snapshot, err := g.fetch(ctx, s, req)
	if err != nil {
		return nil, classify(ctx, err, req)
	}
	return snapshot, nil
}

// Forget takes a key's store away.
func (g *Git) Forget(key string) error {
	g.mu.Lock()
	s, ok := g.slots[key]
	delete(g.slots, key)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.empty()
}

func (g *Git) stores() string { return filepath.Join(g.options.Dir, "stores") }

// slot finds or makes a key's slot. A store does not outlive its process: what
// a killed one has left may be half-written.
func (g *Git) slot(key string) (*slot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.swept {
		if err := os.RemoveAll(g.stores()); err != nil {
			return nil, &StoreError{Err: err}
		}
		if err := os.MkdirAll(g.stores(), 0o750); err != nil {
			return nil, &StoreError{Err: err}
		}
		g.swept = true
	}
	s, ok := g.slots[key]
	if !ok {
		s = &slot{}
		g.slots[key] = s
	}
	return s, nil
}

// dir of a slot's next clone.
func (g *Git) nextDir(s *slot, key string) string {
	sum := sha256.Sum256([]byte(key))
	s.clones++
	return filepath.Join(g.stores(), hex.EncodeToString(sum[:8])+"-"+strconv.Itoa(s.clones))
}

func (s *slot) empty() error {
	old := s.store
	s.store, s.refused = nil, refusal{}
	if old == nil {
		return nil
	}
	return old.remove()
}
