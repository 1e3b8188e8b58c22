package source

import (
	"context"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// The limits where Options has none.
const (
	DefaultMaxBytes       = 256 << 20
	DefaultMaxObjectBytes = 64 << 20
	DefaultMaxFileBytes   = 16 << 20
	DefaultMaxObjects     = 250_000
	DefaultMaxMemory      = 200 << 20
)

// Options of a Git.
type Options struct {
	// Dir is a folder for the stores. What an earlier process has left in its
	// subfolder "stores", and not saved, is removed at the first fetch.
	Dir string
	// MaxBytes bounds one clone on disk.
	MaxBytes int64
	// Space bounds all clones together, and what else shares it; nil does not.
	Space *Space
	// MaxObjectBytes bounds each object of a repository, wherever it stands:
	// it is held in memory once while the pack is indexed.
	MaxObjectBytes int64
	// MaxObjects bounds how many objects one fetch may bring: while they are indexed
	// each takes some 400 bytes of memory, however small it is.
	MaxObjects int64
	// MaxMemory bounds what indexing one fetch may take in memory, by what its objects
	// say of themselves. A large file that has many versions takes the most.
	MaxMemory int64
	// MaxFileBytes bounds each file that is read from a Snapshot.
	MaxFileBytes int64
	// Timeout bounds one fetch; 0 leaves that to the caller's context.
	Timeout time.Duration
	// Now tells the time that Request.NotBefore is compared with; nil for the
	// system's clock.
	Now func() time.Time
	// OnFetch, where it is set, hears of each conversation with a host, also of
	// one that failed. It may be called at the same time.
	OnFetch func(FetchStats)
}

// FetchStats is what one conversation with a host took.
type FetchStats struct {
	// Received are the bytes that came over the network.
	Received int64
}

// Git fetches from Git hosts over https, http and ssh. Its methods may be
// called at the same time. Callers that ask for the same reference of the same URL
// with the same credentials shares one store; its fetches go one after another.
type Git struct {
	options Options
	room    *room

	mu     sync.Mutex
	slots  map[identity]*slot
	holds  map[string]hold
	stores int // the number of the last one that was made
	swept  time.Time
	// left are the folders of an earlier process, by what they are of.
	left map[string][]string
}

// Request says what to fetch.
type Request struct {
	// Key is who asks: namespace/name of the NodeSync.
	Key string
	URL string
	Ref v1alpha1.GitRef
	// Path is the folder of which every object has to be present after the
	// fetch; empty for the whole tree. An object elsewhere that turns out to
	// be missing fails the read, and the next fetch clones again.
	Path        string
	Credentials Credentials
	// Artifact is what Flux has fetched; nil where it is fetched from the host. Of the fields above
	// only Key goes with it.
	Artifact *Artifact
	// NotBefore says that an answer to a fetch will do which began then or
	// later, for any caller. Zero wants a fetch of its own.
	NotBefore time.Time
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
	if o.MaxObjects == 0 {
		o.MaxObjects = DefaultMaxObjects
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Git{options: o, room: newRoom(), slots: map[identity]*slot{}, holds: map[string]hold{}}
}

// Fetch returns the newest revision of a reference, and when the fetch began
// that this answers, with an error, too. Where the host has none that is newer,
// nothing is fetched and the Snapshot is the last one.
//
// The error is the context's, or one of this package's types: *AuthError,
// *CertificateError, *HostKeyError, *LimitError, *MissingError, *NotFoundError,
// *RefError, *SecretError, *SpaceError, *StoreError, *UnreachableError or *URLError.
func (g *Git) Fetch(ctx context.Context, req Request) (*render.Snapshot, time.Time, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	due := g.options.Now()
	if err := g.sweep(); err != nil {
		return nil, due, err
	}
	s, err := g.ask(req)
	if err != nil {
		return nil, due, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, due, classify(ctx, err, req)
	}
	defer s.unlock()
	patience := patienceOf(ctx)
	if !s.answers(ctx, req, patience) {
		began := g.options.Now()
		snapshot, t, err := g.fetch(ctx, s, req)
		s.last = answer{began: began, patience: patience, snapshot: snapshot, target: t, err: classify(ctx, err, req)}
	}
	if s.last.err != nil {
		return nil, s.last.began, s.last.err
	}
	return s.last.snapshot, s.last.began, g.settle(req.Key, s, s.last.target)
}

// bound gives a context the time that one fetch may take.
func (g *Git) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.options.Timeout > 0 {
		return context.WithTimeout(ctx, g.options.Timeout)
	}
	return context.WithCancel(ctx)
}
