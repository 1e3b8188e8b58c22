package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumbline-dev/plumbline/confine"
)

// The identities of names of which only the existence or type was checked.
const (
	absent   = ""
	isFile   = "is:file"
	isFolder = "is:folder"
)

// Unchanged reports whether all inputs are the same in a Snapshot. If its file system is Identified, no content is
// read.
func (in Inputs) Unchanged(snap Snapshot) (bool, error) {
	for name, before := range in {
		now, err := current(snap.FS, name, before)
		if err != nil {
			return false, fmt.Errorf("compare %s with the last render: %w", name, err)
		}
		if now != before {
			return false, nil
		}
	}
	return true, nil
}

// At returns the inputs as they are in a Snapshot: the same names, each with the same kind of identity.
func (in Inputs) At(snap Snapshot) (Inputs, error) {
	there := make(Inputs, len(in))
	for name, before := range in {
		now, err := current(snap.FS, name, before)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name, err)
		}
		there[name] = now
	}
	return there, nil
}

// Fingerprint returns equal strings for two renders that have read the same inputs.
func (in Inputs) Fingerprint() string {
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	slices.Sort(names)
	hash, line := sha256.New(), []byte(nil)
	for _, name := range names {
		line = strconv.AppendQuote(line[:0], name)
		line = strconv.AppendQuote(append(line, ' '), in[name])
		_, _ = hash.Write(append(line, '\n')) // a hash never returns an error
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// Absent returns the same inputs as if no file existed.
func (in Inputs) Absent() Inputs {
	none := make(Inputs, len(in))
	for name := range in {
		none[name] = absent
	}
	return none
}

// add adds the inputs of a part of the render.
func (in Inputs) add(part Inputs) {
	for name, identity := range part {
		known, ok := in[name]
		if ok && (identity == isFile || identity == isFolder) && known != absent {
			continue
		}
		in[name] = identity
	}
}

func (in Inputs) clone() Inputs { return maps.Clone(in) }

// current returns the identity of a name now, of the same kind as the one recorded before.
func current(fsys fs.FS, name, before string) (string, error) {
	if before == isFile || before == isFolder || before == absent {
		info, err := fs.Stat(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return absent, nil
		}
		if err != nil {
			return "", err
		}
		return shape(info), nil
	}
	now, err := identify(fsys, name, func() (string, error) { return readIdentity(fsys, name) })
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	return now, err
}

// identify returns the file system's own identity of a name, or one of its content if the file system has none.
func identify(fsys fs.FS, name string, content func() (string, error)) (string, error) {
	if identified, ok := fsys.(Identified); ok {
		return identified.Identity(name)
	}
	return content()
}

func readIdentity(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return "", err
		}
		return listingIdentity(entries), nil
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", err
	}
	return contentIdentity(data), nil
}

func shape(info fs.FileInfo) string {
	if info.IsDir() {
		return isFolder
	}
	return isFile
}

func contentIdentity(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func listingIdentity(entries []fs.DirEntry) string {
	hash := sha256.New()
	for _, entry := range entries {
		fmt.Fprintf(hash, "%q %s\n", entry.Name(), entry.Type())
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// Reading is how long one reconcile may spend reading the files of its Snapshot.
const Reading = time.Minute

// Within returns the Snapshot for one reconcile of a path: a read fails once the context is done, and once all reads
// together have taken longer than the limit, because a commit can make each name a long chain of symlinks. Errors: the
// context's, *SlowError.
func (s Snapshot) Within(ctx context.Context, name string, limit time.Duration) Snapshot {
	if s.FS == nil {
		return s
	}
	timed := &timedFiles{FS: s.FS, end: ctx.Err, slow: &SlowError{Path: name, Limit: limit, Reading: true}}
	s.FS = timed
	switch known := timed.FS.(type) {
	case Compared:
		s.FS = timedComparisons{timedIdentities{timed, known}, known}
	case Identified:
		s.FS = timedIdentities{timed, known}
	}
	return s
}

// untimed returns the files of a Snapshot without the timing of Within.
func untimed(files fs.FS) fs.FS {
	if f, ok := files.(interface{ untimed() fs.FS }); ok {
		return f.untimed()
	}
	return files
}

// timedFiles is a file system that measures the time of its reads.
type timedFiles struct {
	fs.FS
	// end returns the context's error if it is done.
	end   func() error
	slow  *SlowError
	spent atomic.Int64
}

var (
	_ fs.ReadFileFS = (*timedFiles)(nil)
	_ fs.ReadDirFS  = (*timedFiles)(nil)
	_ fs.StatFS     = (*timedFiles)(nil)
	_ Identified    = timedIdentities{}
	_ Compared      = timedComparisons{}
)

// timed performs one read and measures its time.
func timed[T any](f *timedFiles, op, name string, read func() (T, error)) (found T, err error) {
	err = f.end()
	if err == nil && time.Duration(f.spent.Load()) > f.slow.Limit {
		err = f.slow
	}
	if err != nil {
		return found, &fs.PathError{Op: op, Path: name, Err: err}
	}
	began := time.Now()
	defer func() { f.spent.Add(int64(time.Since(began))) }()
	return read()
}

// Open implements fs.FS.
func (f *timedFiles) Open(name string) (fs.File, error) {
	return timed(f, "open", name, func() (fs.File, error) { return f.FS.Open(name) })
}

// ReadFile implements fs.ReadFileFS.
func (f *timedFiles) ReadFile(name string) ([]byte, error) {
	return timed(f, "readfile", name, func() ([]byte, error) { return fs.ReadFile(f.FS, name) })
}

// ReadDir implements fs.ReadDirFS.
func (f *timedFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	return timed(f, "readdir", name, func() ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) })
}

// Stat implements fs.StatFS.
func (f *timedFiles) Stat(name string) (fs.FileInfo, error) {
	return timed(f, "stat", name, func() (fs.FileInfo, error) { return fs.Stat(f.FS, name) })
}

// timedIdentities is a timedFiles that is Identified.
type timedIdentities struct {
	*timedFiles
	known Identified
}

// Identity implements Identified.
func (f timedIdentities) Identity(name string) (string, error) {
	return timed(f.timedFiles, "identity", name, func() (string, error) { return f.known.Identity(name) })
}

// timedComparisons is a timedIdentities that is Compared.
type timedComparisons struct {
	timedIdentities
	compared Compared
}

// Since implements Compared.
func (f timedComparisons) Since(before fs.FS) (found Difference, known bool) {
	_, err := timed(f.timedFiles, "compare", ".", func() (any, error) {
		found, known = f.compared.Since(untimed(before))
		return nil, nil
	})
	return found, known && err == nil
}

// Direct implements Compared.
func (f timedComparisons) Direct(name string) bool { return f.compared.Direct(name) }

func (f *timedFiles) untimed() fs.FS { return f.FS }

// failures are the sources that exceeded the limits of a child process; they are remembered so that the same commit
// does not cost as much on each reconcile. If nil, nothing is remembered.
type failures struct {
	mu    sync.Mutex
	known map[source]tooMuch
}

// tooMuch is why a source is not built, and what it had read by then.
type tooMuch struct {
	inputs Inputs
	err    error
}

// failures returns those of the path.
func (c *Cache) failures() *failures {
	if c == nil {
		return nil
	}
	return &c.failed
}

// find returns why a source exceeded the limits, if it has not changed since.
func (f *failures) find(one source, snap Snapshot) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	known, ok := f.known[one]
	f.mu.Unlock()
	if !ok {
		return nil
	}
	unchanged, err := known.inputs.Unchanged(snap)
	if err == nil && unchanged {
		err = known.err
	}
	return err
}

// note returns the error of a source; it turns an exceeded limit into an error of the source's file. Failures that may
// not repeat are tried again.
func (f *failures) note(one source, inputs Inputs, err error) error {
	var limit *confine.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	err = Errors{{File: one.name, Message: limit.Error()}}
	if f == nil || limit.Again {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// A path has few failing sources: the first one stops the render.
	if f.known == nil || len(f.known) > 16 {
		f.known = map[source]tooMuch{}
	}
	f.known[one] = tooMuch{inputs: inputs.clone(), err: err}
	return err
}

// Cache keeps the rendered sources of one path, so that neither a source whose inputs are unchanged, nor an unchanged
// object in a changed source, is parsed and validated again. It holds only what the last render made, and shares that
// with its Set. The zero value is ready to use; use one Cache per NodeSync.
type Cache struct {
	mu        sync.Mutex
	validator Validator
	// karpenter is a fingerprint of the fields of plumbline.yaml that objects depend on.
	karpenter string
	kept      map[source]kept
	listings  map[string]listing
	failed    failures
	// last is the last Set, if the next one can be derived from it and the differences.
	last *rendition
}

// kept is a rendered source, with everything it was made from.
type kept struct {
	remarks

	inputs  Inputs
	objects []keptObject
}

// keptObject is an object with the content it was made from.
type keptObject struct {
	Object

	content content
}

// content identifies the content of a draft. The zero value identifies nothing.
type content [sha256.Size]byte

// content returns equal values for two drafts that become the same object.
func (d draft) content() content {
	text, err := json.Marshal(d.value)
	if err != nil {
		return content{}
	}
	return sha256.Sum256(text)
}

// byContent returns the objects by the content they were made from.
func (k kept) byContent() map[content]Object {
	objects := make(map[content]Object, len(k.objects))
	for _, known := range k.objects {
		if known.content != (content{}) {
			objects[known.content] = known.Object
		}
	}
	return objects
}

// open returns the cached sources and listings. It returns no sources if the validator, or what plumbline.yaml says
// about objects, has changed.
func (c *Cache) open(karpenter string, validator Validator) (map[source]kept, map[string]listing) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.validator != validator || c.karpenter != karpenter {
		return nil, c.listings
	}
	return c.kept, c.listings
}

// close keeps a render's work for the next one.
func (c *Cache) close(karpenter string, validator Validator, sources map[source]kept, listings map[string]listing) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.validator, c.karpenter, c.kept, c.listings, c.last = validator, karpenter, sources, listings, nil
}

// keep keeps the Set of a render, with those of its sources that were read again.
func (c *Cache) keep(last *rendition, again map[source]kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.kept, again)
	c.last = last
}

// lastOf returns the last Set of a path, if its cached objects may be used.
func (c *Cache) lastOf(path wanted, known map[source]kept) *rendition {
	if c == nil || known == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || !c.last.of.equal(path) {
		return nil
	}
	return c.last
}

// Unchanged reports whether everything that a Set was made from is the same in a Snapshot. For the last rendered Set it
// checks only what differs since then.
func (c *Cache) Unchanged(set *Set, snap Snapshot) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, last, moves := set.Inputs, c.last, false
	if last != nil && last.made(set) {
		if difference, known := snap.differs(last.files); known {
			in = difference.Among(in, last.linked)
			moves = len(difference.Below) == 0
		}
	}
	unchanged, err := in.Unchanged(snap)
	if unchanged && err == nil && moves {
		last.files = untimed(snap.FS)
	}
	return unchanged, err
}

// fingerprint returns equal strings if plumbline.yaml results in the same objects.
func (k *Karpenter) fingerprint() string {
	variables := k.variables()
	var text strings.Builder
	fmt.Fprintf(&text, "%q ", k.IgnoreKinds)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&text, "%q=%q ", name, variables[name])
	}
	return text.String()
}
