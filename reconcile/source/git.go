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
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/semaphore"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// The defaults for the limits in Options.
const (
	DefaultMaxBytes       = 256 << 20
	DefaultMaxObjectBytes = 64 << 20
	DefaultMaxFileBytes   = 16 << 20
	DefaultMaxObjects     = 250_000
	DefaultMaxMemory      = 200 << 20
)

// Options configures a Git.
type Options struct {
	// Dir is a folder for the stores. The first fetch removes what an earlier process left in its subfolder "stores"
	// without saving it.
	Dir string
	// MaxBytes limits the size of one clone on disk.
	MaxBytes int64
	// Space limits all clones together, and everything else that shares it. If nil, there is no such limit.
	Space *Space
	// MaxObjectBytes limits each object of a repository, at any path: each is held in memory once while the pack is
	// indexed.
	MaxObjectBytes int64
	// MaxObjects limits the objects of one fetch. Indexing takes about 400 bytes of memory for each object, however
	// small it is.
	MaxObjects int64
	// MaxMemory limits the memory for indexing one fetch, estimated from the sizes that its objects declare. A large
	// file with many versions takes the most.
	MaxMemory int64
	// MaxFileBytes limits each file that is read from a Snapshot.
	MaxFileBytes int64
	// Timeout limits one fetch; if 0, only the caller's context does.
	Timeout time.Duration
	// Now returns the time that Request.NotBefore is compared with; if nil, the system clock is used.
	Now func() time.Time
	// OnFetch, if set, is called after each connection to a host, including failed ones. Calls may be concurrent.
	OnFetch func(FetchStats)
}

// FetchStats describes one connection to a host.
type FetchStats struct {
	// Received is the number of bytes received over the network.
	Received int64
}

// Git fetches from Git hosts over https, http and ssh. Its methods are safe for concurrent use. Callers that request
// the same reference of the same URL with the same credentials share one store, and its fetches run one at a time.
type Git struct {
	options Options
	room    *room

	mu     sync.Mutex
	slots  map[identity]*slot
	holds  map[string]hold
	stores int // the number of the newest store
	swept  time.Time
	// left maps what a store is of to the folders that an earlier process left.
	left map[string][]string
}

// Request says what to fetch.
type Request struct {
	// Key identifies the caller: namespace/name of the NodeSync.
	Key string
	URL string
	Ref v1alpha1.GitRef
	// Path is the folder whose objects must all be present after the fetch; empty for the whole tree. If an object
	// elsewhere is missing, reading it fails, and the next fetch clones again.
	Path        string
	Credentials Credentials
	// Records are the full names of references to fetch beside Ref, for Git.Records. They must not be those of Ref.
	Records []string
	// Artifact is what Flux has fetched; nil to fetch from the host. If set, of the fields above only Key applies.
	Artifact *Artifact
	// NotBefore allows a result of any caller's fetch that started at this time or later. If zero, the request gets its
	// own fetch.
	NotBefore time.Time
}

// NewGit returns a Git that has not accessed the disk yet.
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

// Fetch returns the newest revision of a reference, and the time when the fetch that found it started, which is also
// returned with an error. If the host has nothing newer, nothing is fetched and the Snapshot is the previous one.
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
	s, err := g.acquireSlot(req)
	if err != nil {
		return nil, due, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, due, classify(ctx, err, req)
	}
	defer s.unlock()
	patience := timeoutOf(ctx)
	if !s.answers(ctx, req, patience) {
		began := g.options.Now()
		snapshot, t, err := g.fetch(ctx, s, req)
		s.last = answer{began: began, timeout: patience, snapshot: snapshot, target: t, err: classify(ctx, err, req)}
	}
	if s.last.err != nil {
		return nil, s.last.began, s.last.err
	}
	return s.last.snapshot, s.last.began, g.recordUsed(req.Key, s, s.last.target)
}

// bound limits a context to the time that one fetch may take.
func (g *Git) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.options.Timeout > 0 {
		return context.WithTimeout(ctx, g.options.Timeout)
	}
	return context.WithCancel(ctx)
}

// identity identifies requests that share a store. It is derived from secrets and is kept only in memory.
type identity [sha256.Size]byte

func identify(req Request) (identity, error) {
	what, err := json.Marshal(struct {
		URL         string
		Ref         v1alpha1.GitRef
		Credentials Credentials
		Records     []string `json:",omitempty"`
	}{req.URL, wanted(req.Ref), req.Credentials, req.Records})
	return sha256.Sum256(what), err
}

// wanted returns the reference with its default applied.
func wanted(ref v1alpha1.GitRef) v1alpha1.GitRef {
	if ref == (v1alpha1.GitRef{}) {
		ref.Branch = v1alpha1.DefaultBranch
	}
	return ref
}

// slot holds the store of one identity.
type slot struct {
	identity identity
	turn     chan struct{} // has capacity for one: the caller that holds the lock
	// records are those of the last fetch; nil before the first one.
	records atomic.Pointer[Records]

	// The fields below may be used only while holding the lock.
	store   *store
	of      string // what the store is of, as other processes identify it
	last    answer
	refused refusal
}

// refusal remembers a commit that was too large, so that it is not fetched repeatedly.
type refusal struct {
	commit plumbing.Hash
	err    error
}

// lock waits until the slot is free.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.turn }

// hold is what one key keeps from being removed: the slot of its last Snapshot, and the slot of its current request.
// They differ after a change of URL, reference or credentials until the first success: a NodeSync whose new credentials
// are wrong keeps using its last Snapshot.
type hold struct {
	using, requested *slot
	// store is that of the last Snapshot, while using still has it.
	store *store
	// target is that of the key's last Snapshot.
	target target
}

// acquireSlot finds or creates the slot of a request, and holds it.
func (g *Git) acquireSlot(req Request) (*slot, error) {
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
	g.holds[req.Key] = hold{using: before.using, requested: s, store: before.store, target: before.target}
	left := g.abandoned(before)
	g.mu.Unlock()
	return s, removeStores(left)
}

// recordUsed records what a key received, and drops what it used before. The caller holds the slot's lock.
func (g *Git) recordUsed(key string, s *slot, t target) error {
	g.mu.Lock()
	before, ok := g.holds[key]
	if !ok {
		g.mu.Unlock()
		return nil // forgotten in the meantime
	}
	g.holds[key] = hold{using: s, requested: before.requested, store: s.store, target: t}
	left := g.abandoned(before)
	g.mu.Unlock()
	return removeStores(left)
}

// Forget drops what a key holds. A store that no key holds is removed.
func (g *Git) Forget(key string) error {
	g.mu.Lock()
	before := g.holds[key]
	delete(g.holds, key)
	left := g.abandoned(before)
	g.mu.Unlock()
	return removeStores(left)
}

// removeStores removes the stores of slots.
func removeStores(slots []*slot) (err error) {
	for _, s := range slots {
		s.turn <- struct{}{}
		if s.store != nil {
			err = errors.Join(err, s.store.remove())
		}
		s.unlock()
	}
	return err
}

// abandoned removes from the list those slots of a former hold that no key holds any more, and returns them. The caller
// holds g.mu.
func (g *Git) abandoned(before hold) []*slot {
	held := map[*slot]bool{nil: true}
	for _, h := range g.holds {
		held[h.using], held[h.requested] = true, true
	}
	var left []*slot
	for _, s := range []*slot{before.using, before.requested} {
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
	// began is zero if there was no fetch yet.
	began time.Time
	// timeout is the timeout of that fetch.
	timeout  time.Duration
	snapshot *render.Snapshot
	target   target
	err      error
}

// answers reports whether the last result satisfies a request. Errors are shared too, so that callers do not wait for a
// hanging host one after another.
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

// cutShort reports whether a longer timeout, or another caller's context, could have led to another result.
func (a answer) cutShort(patience time.Duration) bool {
	if errors.Is(a.err, context.Canceled) {
		return true
	}
	var away *UnreachableError
	return errors.As(a.err, &away) && away.Timeout && patience > a.timeout
}

// timeoutOf returns the remaining time of a context in whole seconds, so that two contexts with the same timeout have
// the same. A context without a deadline lasts forever.
func timeoutOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return time.Until(deadline).Round(time.Second)
}

const (
	// maxIndexed limits the memory of all packs that are indexed at the same time, as estimated by load; a pack that
	// needs more gets all of it. The Deployment's 768 MiB must also suffice for the daemon and two children.
	maxIndexed = 128 << 20
	// smallPack is what a pack may take without waiting: a push to thousands of definitions takes less, and each worker
	// has at most one.
	smallPack = 8 << 20

	// perObject is the memory that indexing a pack takes for one object.
	perObject = 400
	// perContent is how often the largest object is in memory: the result of a delta, its base, and the copy that is
	// kept for the next delta.
	perContent = 3
	// maxKept limits the delta bases that go-git caches (plumbing/cache, DefaultMaxSize).
	maxKept = 96 << 20
)

// load is the size of a pack.
type load struct {
	objects int64
	// content is the total size of all objects, and largest the size of the largest, in bytes.
	content, largest int64
	// deltas are the objects that are stored as deltas.
	deltas deltas
}

// memory estimates the bytes of memory that indexing the pack takes.
func (l load) memory() int64 {
	taken := perObject*l.objects + l.largest
	if len(l.deltas) > 0 {
		taken += (perContent-1)*l.largest + min(l.content, maxKept)
	}
	return taken
}

// room is the memory that all packs share that are indexed at the same time.
type room struct {
	free *semaphore.Weighted
}

func newRoom() *room { return &room{free: semaphore.NewWeighted(maxIndexed)} }

// acquire waits until there is room for a pack, and returns a function that releases it. A small pack does not wait.
// The error is the context's.
func (r *room) acquire(ctx context.Context, l load) (back func(), err error) {
	taken := min(l.memory(), maxIndexed)
	if taken <= smallPack {
		return func() {}, nil
	}
	if err := r.free.Acquire(ctx, taken); err != nil {
		return nil, err
	}
	return func() { r.free.Release(taken) }, nil
}

// SpaceError reports that a fetch does not fit into the space that all stores and artifacts of the daemon share.
type SpaceError struct {
	// Limit is in bytes.
	Limit int64
}

// Error says what to do.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("all Git stores and artifacts together would exceed the limit of %d bytes: raise --git-store-limit and the size of the cache's volume, "+
		"or follow fewer or smaller repositories", e.Limit)
}

// Space is the disk space that all Git stores and artifacts of a daemon share. A store that is being replaced is not
// counted, so the disk may briefly hold twice the limit. A nil Space has no limit.
type Space struct {
	// Limit is in bytes.
	Limit int64
	// Of is the Space that this one is a part of; nil if there is none.
	Of *Space

	mu   sync.Mutex
	used int64
}

// Take reserves bytes; it returns a *SpaceError if that would exceed the limit.
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

// Add counts bytes that are already on disk, even beyond the limit. A negative number releases bytes.
func (s *Space) Add(bytes int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Of.Add(bytes)
	s.used += bytes
}

// dir returns the folder of the stores.
func (g *Git) dir() string { return filepath.Join(g.options.Dir, "stores") }

// sweep cleans up at the first fetch: it keeps only those stores of an earlier process that have a record.
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

// nextDir returns a folder for a new store. Its name reveals nothing of the content, which was fetched with a secret.
func (g *Git) nextDir() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stores++
	return filepath.Join(g.dir(), strconv.Itoa(g.stores))
}
