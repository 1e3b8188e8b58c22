package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/semaphore"

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
	// Artifact is what Flux has fetched; nil if it is fetched from the host. Of the fields above
	// only Key goes with it.
	Artifact *Artifact
	// NotBefore reports that an answer to a fetch will do which began then or
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

// identity is what makes two requests one: it is made of secrets, and is kept only in memory.
type identity [sha256.Size]byte

func identify(req Request) (identity, error) {
	what, err := json.Marshal(struct {
		URL         string
		Ref         v1alpha1.GitRef
		Credentials Credentials
	}{req.URL, wanted(req.Ref), req.Credentials})
	return sha256.Sum256(what), err
}

// wanted is what a reference stands for.
func wanted(ref v1alpha1.GitRef) v1alpha1.GitRef {
	if ref == (v1alpha1.GitRef{}) {
		ref.Branch = v1alpha1.DefaultBranch
	}
	return ref
}

// slot has the store of one identity.
type slot struct {
	identity identity
	turn     chan struct{} // has room for the one whose turn it is

	// What follows belongs to the one whose turn it is.
	store   *store
	of      string // what a store is of, for another process
	last    answer
	refused refusal
}

// refusal remembers which commit was too large, so that it is not fetched again
// and again.
type refusal struct {
	commit plumbing.Hash
	err    error
}

// lock waits for its turn.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.turn }

// hold is what one key keeps from being removed: the slot that its last
// Snapshot came from, and the one that it asks now. They differ from a change of
// URL, reference or credentials until the first success: a NodeSync whose new
// credentials are wrong goes on with the Snapshot that it has.
type hold struct {
	using, asking *slot
	// store is that of the last Snapshot, as long as using has it still.
	store *store
	// target is what the key's last Snapshot is of.
	target target
}

// ask finds or makes the slot of a request, and holds it.
func (g *Git) ask(req Request) (*slot, error) {
	id, err := identify(req)
	if err != nil {
		return nil, &URLError{URL: bare(req.URL), Reason: "cannot be read"}
	}
	g.mu.Lock()
	s, ok := g.slots[id]
	if !ok {
		s = &slot{identity: id, turn: make(chan struct{}, 1)}
		g.slots[id] = s
	}
	before := g.holds[req.Key]
	g.holds[req.Key] = hold{using: before.using, asking: s, store: before.store, target: before.target}
	left := g.abandoned(before)
	g.mu.Unlock()
	return s, empty(left)
}

// settle notes what a key was given, and drops what it has used before. It is
// the slot's turn.
func (g *Git) settle(key string, s *slot, t target) error {
	g.mu.Lock()
	before, ok := g.holds[key]
	if !ok {
		g.mu.Unlock()
		return nil // forgotten meanwhile
	}
	g.holds[key] = hold{using: s, asking: before.asking, store: s.store, target: t}
	left := g.abandoned(before)
	g.mu.Unlock()
	return empty(left)
}

// Forget drops what a key holds. A store that no key holds is removed.
func (g *Git) Forget(key string) error {
	g.mu.Lock()
	before := g.holds[key]
	delete(g.holds, key)
	left := g.abandoned(before)
	g.mu.Unlock()
	return empty(left)
}

// empty removes the stores of slots.
func empty(slots []*slot) (err error) {
	for _, s := range slots {
		s.turn <- struct{}{}
		if s.store != nil {
			err = errors.Join(err, s.store.remove())
		}
		s.unlock()
	}
	return err
}

// abandoned takes those slots of a former hold off the list that no key holds
// any more. g.mu is held.
func (g *Git) abandoned(before hold) []*slot {
	held := map[*slot]bool{nil: true}
	for _, h := range g.holds {
		held[h.using], held[h.asking] = true, true
	}
	var left []*slot
	for _, s := range []*slot{before.using, before.asking} {
		if !held[s] {
			held[s] = true
			delete(g.slots, s.identity)
			left = append(left, s)
		}
	}
	return left
}

// answer is the result of the last fetch of a slot.
type answer struct {
	// began is zero if there was none yet.
	began time.Time
	// patience is how long it was given.
	patience time.Duration
	snapshot *render.Snapshot
	target   target
	err      error
}

// answers reports whether the last answer will do for a request. An error is
// shared, too: a host that hangs is not waited for by each in turn.
func (s *slot) answers(ctx context.Context, req Request, patience time.Duration) bool {
	a := s.last
	if req.NotBefore.IsZero() || a.began.IsZero() || a.began.Before(req.NotBefore) {
		return false
	}
	if a.err != nil {
		return !a.cutShort(patience)
	}
	return s.store.usable() && s.store.prove(ctx, s.store.tip, req.Path) == nil
}

// cutShort reports whether an answer would have been another with more patience,
// or for another caller.
func (a answer) cutShort(patience time.Duration) bool {
	if errors.Is(a.err, context.Canceled) {
		return true
	}
	var away *UnreachableError
	return errors.As(a.err, &away) && away.Timeout && patience > a.patience
}

// patienceOf a context is how long it lasts, in whole seconds, so that two with
// the same timeout have the same. One without a deadline lasts for ever.
func patienceOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return time.Until(deadline).Round(time.Second)
}

const (
	// mostIndexed is how much memory the packs may take together that are indexed at the
	// same time, by the estimate of load; one that takes more has all of it. The
	// Deployment's 768 MiB are also for the daemon and two children.
	mostIndexed = 128 << 20
	// small is what a pack may take without waiting for anyone: a push to thousands of
	// definitions takes less, and each worker has one at most.
	small = 8 << 20

	// perObject is what the index of a pack takes in memory for one object, while it is
	// made.
	perObject = 400
	// perContent is how often the largest object is in memory: what is made of a delta,
	// what it is made of, and the copy that is kept for the next.
	perContent = 3
	// mostKept is how much go-git keeps of what other deltas are made of
	// (plumbing/cache, DefaultMaxSize).
	mostKept = 96 << 20
)

// load is the size of a pack, by its objects.
type load struct {
	objects int64
	// content is the sum of all objects, and largest the largest of them, in bytes.
	content, largest int64
	// deltas are the objects that are made of others.
	deltas deltas
}

// memory is about what it takes to index a pack, in bytes.
func (l load) memory() int64 {
	taken := perObject*l.objects + l.largest
	if len(l.deltas) > 0 {
		taken += (perContent-1)*l.largest + min(l.content, mostKept)
	}
	return taken
}

// room is the memory that is shared by all packs that are indexed at the same time.
type room struct {
	free *semaphore.Weighted
}

func newRoom() *room { return &room{free: semaphore.NewWeighted(mostIndexed)} }

// take waits until there is room for a pack, and returns what gives it back. A small pack
// waits for nobody. The error is the context's.
func (r *room) take(ctx context.Context, l load) (back func(), err error) {
	taken := min(l.memory(), mostIndexed)
	if taken <= small {
		return func() {}, nil
	}
	if err := r.free.Acquire(ctx, taken); err != nil {
		return nil, err
	}
	return func() { r.free.Release(taken) }, nil
}

// SpaceError reports that what is fetched does not fit beside all else that the daemon has fetched.
type SpaceError struct {
	// Limit in bytes.
	Limit int64
}

// Error names the limit and says what to do.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("all Git stores and artifacts together would exceed the limit of %d bytes: raise --git-store-limit and the size of the cache's volume, "+
		"or follow fewer or smaller repositories", e.Limit)
}

// Space is the disk space that all Git stores and artifacts of a daemon share. While a store is replaced, the old one is not
// counted: on disk there may be twice the limit for a moment. A nil Space has no limit.
type Space struct {
	// Limit in bytes.
	Limit int64
	// Of is the Space that this one is a part of; nil if it is none.
	Of *Space

	mu   sync.Mutex
	used int64
}

// Take takes some bytes; a *SpaceError if that would exceed the limit.
func (s *Space) Take(bytes int64) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+bytes > s.Limit {
		return &SpaceError{Limit: s.Limit}
	}
	if err := s.Of.Take(bytes); err != nil {
		return err
	}
	s.used += bytes
	return nil
}

// Add counts bytes that are on disk already, beyond the limit if need be. A negative number gives bytes back.
func (s *Space) Add(bytes int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Of.Add(bytes)
	s.used += bytes
}

// dir is where the stores are.
func (g *Git) dir() string { return filepath.Join(g.options.Dir, "stores") }

// sweep makes room at the first fetch: of what an earlier process has left it keeps the stores that
// have a record.
func (g *Git) sweep() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.swept.IsZero() {
		return nil
	}
	if err := os.MkdirAll(g.dir(), 0o750); err != nil {
		return &StoreError{Err: err}
	}
	entries, err := os.ReadDir(g.dir())
	if err != nil {
		return &StoreError{Err: err}
	}
	g.left = map[string][]string{}
	for _, entry := range entries {
		dir := filepath.Join(g.dir(), entry.Name())
		number, err := strconv.Atoi(entry.Name())
		if has, unread := readRecord(dir); err == nil && unread == nil {
			g.left[has.Of] = append(g.left[has.Of], dir)
			g.stores = max(g.stores, number)
		} else if err := os.RemoveAll(dir); err != nil {
			return &StoreError{Err: err}
		}
	}
	g.swept = g.options.Now()
	return nil
}

// nextDir is a folder for a new store. Its name says nothing of what is in it,
// which was fetched with a secret.
func (g *Git) nextDir() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stores++
	return filepath.Join(g.dir(), strconv.Itoa(g.stores))
}
