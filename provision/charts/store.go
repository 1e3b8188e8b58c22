package charts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"

	"github.com/plumbline-dev/plumbline/confine"
)

// StoreOptions configure a Store.
type StoreOptions struct {
	// Dir is the cache. It may be empty, and is created if it does not exist.
	Dir string
	// Transport for registries and Helm repositories, without a CA of its own. Default: http.DefaultTransport.
	Transport *http.Transport
	Logger    logr.Logger
	// Confine reads and renders charts in child processes. Default: in this process.
	Confine *confine.Runner
}

// Store finds charts, first in its cache.
type Store struct {
	options StoreOptions
	blobs   blobs
	memos   memos

	mu sync.Mutex
	// inForce are the files of versions that are installed in a cluster. They are never pruned.
	inForce map[string]bool
}

// NewStore returns a Store that uses a folder. Several Stores, also in several processes, may share one.
func NewStore(options StoreOptions) *Store {
	if options.Transport == nil {
		if transport, ok := http.DefaultTransport.(*http.Transport); ok {
			options.Transport = transport
		}
	}
	return &Store{
		options: options,
		blobs:   blobs{dir: filepath.Join(options.Dir, "sha256")},
		memos:   memos{dir: filepath.Join(options.Dir, "versions")},
	}
}

// origin is the source of charts: a registry, a Helm repository or a folder.
type origin interface {
	// pull returns a chart: by its digest if the origin supports that, otherwise the current one of the version. An
	// empty digest is unknown.
	pull(ctx context.Context, chart string, by digest.Digest) (artifact, []byte, error)
}

// Resolve returns both charts of a version, or neither. A version that was resolved before needs no request: it comes
// from the cache, by digest, even if the charts were replaced at their origin. The same applies to charts whose digests
// are pinned or in force, whatever their origin. Files of the checkout are read each time. Errors: *InvalidRefError,
// *NotFoundError, *UnreachableError, *CertificateError, *AuthError, *DigestError, *PinnedError, *MovedError,
// *MalformedError, *ForeignCRDsError, one of Access, or one of the cache's folder.
func (s *Store) Resolve(ctx context.Context, ref Ref, access Access) (*Charts, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	known, err := s.memos.load(ref)
	if err != nil {
		return nil, err
	}
	with := &session{base: s.options.Transport, keys: access.Keys}
	defer with.close()
	from, err := s.newOrigin(ref, access, with)
	if err != nil {
		return nil, err
	}
	pulled := memo{Repository: ref.Repository, Version: ref.Version}
	if pulled.CRD, err = s.ensureCached(ctx, from, ref, CRDChart, known.CRD); err != nil {
		return nil, err
	}
	if pulled.Controller, err = s.ensureCached(ctx, from, ref, ControllerChart, known.Controller); err != nil {
		return nil, err
	}
	charts := s.charts(ref, pulled)
	s.markInForce(ref, pulled)
	if pulled == known {
		return charts, nil
	}
	// Invalid charts are never recorded.
	if _, err := charts.CRDs(ctx); err != nil {
		return nil, err
	}
	if _, err := charts.loadController(); err != nil {
		return nil, err
	}
	if err := s.memos.save(ref, pulled); err != nil {
		return nil, err
	}
	if err := s.prune(); err != nil { // a growing folder is no reason to fail
		s.options.Logger.Error(err, "the chart cache is not pruned")
	}
	return charts, nil
}

func (s *Store) newOrigin(ref Ref, access Access, with *session) (origin, error) {
	switch {
	case !ref.local() && strings.HasPrefix(ref.Repository, ociScheme):
		return &registry{ref: ref, session: with}, nil
	case !ref.local():
		return newIndex(ref, with, s.options.Confine)
	case access.Files == nil:
		return nil, &InvalidRefError{
			Ref: ref, Reason: fmt.Sprintf("repository %q is a path, and there is no checkout to read it from", ref.Repository),
		}
	}
	return &folder{ref: ref, files: access.Files}, nil
}

// ensureCached makes sure that a chart's content is in the cache, complete, and the pinned one.
func (s *Store) ensureCached(ctx context.Context, from origin, ref Ref, chart string, known artifact) (artifact, error) {
	want := ref.requiredDigest(chart)
	switch {
	case ref.local():
		known = artifact{} // files change without a new version
	case want != "" && known.Manifest != want:
		known = s.memos.pinned(ref.Version, chart, want)
	}
	if known != (artifact{}) && s.cached(known, ref, chart) {
		return known, nil
	}
	if want == "" {
		want = known.Manifest
	}
	found, archive, err := pull(ctx, from, ref, chart, want)
	if err != nil {
		return artifact{}, err
	}
	if ref.local() && s.cached(found, ref, chart) {
		return found, nil
	}
	if err := s.blobs.write(found.Content, archive); err != nil {
		return artifact{}, fmt.Errorf("keep chart %s %s: %w", chart, ref.Version, err)
	}
	s.options.Logger.Info("pulled a chart", "chart", chart, "version", ref.Version, "repository", ref.Repository, "digest", found.Manifest)
	return found, nil
}

// pull returns the chart with a digest; any chart of the version if that is empty.
func pull(ctx context.Context, from origin, ref Ref, chart string, want digest.Digest) (artifact, []byte, error) {
	by := want
	if pin := ref.Digests.of(chart); pin != "" && pin != ref.InForce.of(chart) {
		by = "" // it may be the digest of another version
	}
	found, archive, err := from.pull(ctx, chart, by)
	if missing := (*NotFoundError)(nil); by != "" && errors.As(err, &missing) {
		// The error names the current digest of the version.
		if found, _, err = from.pull(ctx, chart, ""); errors.As(err, &missing) && ref.Digests.of(chart) == "" && ref.requiredDigest(chart) != "" {
			err = &MovedError{Ref: ref, Chart: chart, InForce: want.String()}
		}
	}
	if err == nil && want != "" && found.Manifest != want {
		err = mismatch(ref, chart, found.Manifest, want)
	}
	return found, archive, err
}

// mismatch returns the error for a chart with another digest than the wanted one.
func mismatch(ref Ref, chart string, found, want digest.Digest) error {
	switch {
	case ref.Digests.of(chart) != "":
		return &PinnedError{Ref: ref, Chart: chart, Found: found.String(), Pinned: want.String()}
	case ref.requiredDigest(chart) != "":
		return &MovedError{Ref: ref, Chart: chart, Found: found.String(), InForce: want.String()}
	}
	return &DigestError{
		Ref: ref, Chart: chart, Err: fmt.Errorf("it has digest %s and should have %s: %w", found, want, content.ErrMismatchedDigest),
	}
}

// markInForce records a version that is in force, so that it is never pruned. It makes its file the newest once per
// process: a later process may prune before it knows which version is in force.
func (s *Store) markInForce(ref Ref, pulled memo) {
	if !ref.InForce.are(pulled) {
		return
	}
	path := s.memos.path(ref)
	s.mu.Lock()
	seen := s.inForce[path]
	if s.inForce == nil {
		s.inForce = map[string]bool{}
	}
	s.inForce[path] = true
	s.mu.Unlock()
	if !seen {
		s.memos.refresh(ref)
	}
}

// cached reports whether a chart's content is in the cache and complete.
func (s *Store) cached(known artifact, ref Ref, chart string) bool {
	_, err := s.blobs.read(known.Content)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Info("a chart in the cache is damaged, pulling it again", "chart", chart, "version", ref.Version, "digest",
			known.Content, "reason", err.Error())
	}
	return err == nil
}

func (s *Store) charts(ref Ref, m memo) *Charts {
	read := func(d digest.Digest) func() ([]byte, error) {
		return func() ([]byte, error) { return s.blobs.read(d) }
	}
	return &Charts{
		Version:        ref.Version,
		Repository:     ref.Repository,
		confined:       s.options.Confine,
		CRDDigest:      m.CRD.Manifest.String(),
		Digest:         m.Controller.Manifest.String(),
		readCRD:        read(m.CRD.Content),
		readController: read(m.Controller.Content),
		loadCRD:        open(CRDChart, ref.Version, read(m.CRD.Content)),
		loadController: open(ControllerChart, ref.Version, read(m.Controller.Content)),
	}
}

// memo is the result of resolving a version, both charts at once.
type memo struct {
	Repository string   `json:"repository"`
	Version    string   `json:"version"`
	CRD        artifact `json:"crd"`
	Controller artifact `json:"controller"`
}

// artifact identifies a chart: by the digest that pins it, which is that of its OCI manifest if it has one, and by that
// of its archive.
type artifact struct {
	Manifest digest.Digest `json:"manifest"`
	Content  digest.Digest `json:"content"`
}

func (a artifact) valid() bool { return a.Manifest.Validate() == nil && a.Content.Validate() == nil }

// memos are the versions resolved before, one file each.
type memos struct {
	dir string
}

// path returns the file of a version of a repository, one for each pair of required digests.
func (m memos) path(ref Ref) string {
	name := ref.String()
	for _, chart := range []string{CRDChart, ControllerChart} {
		if want := ref.requiredDigest(chart); want != "" {
			name += " " + chart + "@" + want.String()
		}
	}
	return filepath.Join(m.dir, digest.FromString(name).Encoded()+".json")
}

// load returns the zero memo for a version that was never resolved, or whose memo cannot be read: it is resolved
// again.
func (m memos) load(ref Ref) (memo, error) {
	raw, err := os.ReadFile(m.path(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return memo{}, nil
	}
	if err != nil {
		return memo{}, fmt.Errorf("read the chart cache: %w", err)
	}
	return parse(raw), nil
}

// pinned finds a chart by its digest among all resolved versions of any origin; the zero artifact if there is none.
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

// refresh makes a version the most recently resolved one. A version without a file has nothing to refresh.
func (m memos) refresh(ref Ref) {
	now := time.Now()
	_ = os.Chtimes(m.path(ref), now, now) // it only affects the order of pruning
}

func parse(raw []byte) memo {
	var known memo
	if json.Unmarshal(raw, &known) != nil || !known.CRD.valid() || !known.Controller.valid() {
		return memo{}
	}
	return known
}

func (m memos) save(ref Ref, pulled memo) error {
	raw, err := json.Marshal(pulled)
	if err != nil {
		return fmt.Errorf("encode what %s resolved to: %w", ref, err)
	}
	return putInPlace(m.path(ref), raw)
}

const (
	// maxVersions is how many versions the cache keeps besides those in force: a cluster has one, or two during an
	// upgrade, and several processes may share a folder.
	maxVersions = 8
	// keepUnreferenced is how long an unreferenced file is kept: another process may be about to reference it.
	keepUnreferenced = time.Hour
)

// prune limits the cache: it keeps the versions that are in force or were resolved last, with their archives and
// signatures.
func (s *Store) prune() error {
	names, newest, err := s.memos.newestFirst()
	if err != nil {
		return err
	}
	var failed error
	named, others := map[string]bool{}, 0
	for _, name := range names {
		if !s.isInForce(name) {
			others++
		}
		if others > maxVersions && !s.isInForce(name) {
			failed = errors.Join(failed, remove(name))
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune the chart cache: %w", err)
		}
		known := parse(raw)
		if known == (memo{}) {
			continue
		}
		named[s.blobs.path(known.CRD.Content)] = true
		named[s.blobs.path(known.Controller.Content)] = true
		named[s.blobs.signaturePath(known.CRD.Manifest)] = true
		named[s.blobs.signaturePath(known.Controller.Manifest)] = true
	}
	for _, dir := range []string{s.blobs.dir, s.memos.dir} {
		failed = errors.Join(failed, removeUnnamed(dir, named, newest.Add(-keepUnreferenced)))
	}
	return failed
}

func (s *Store) isInForce(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inForce[path]
}

// newestFirst returns the files of the versions, and when the newest was written, which serves as the cache's clock.
func (m memos) newestFirst() (names []string, newest time.Time, err error) {
	names, err = filepath.Glob(filepath.Join(m.dir, "*.json"))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("prune the chart cache: %w", err)
	}
	written := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil { // another process may have pruned it
			written[name] = info.ModTime()
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(written[b].Compare(written[a]), cmp.Compare(a, b))
	})
	return names, newest, nil
}

// removeUnnamed removes unreferenced archives, and incomplete files of killed processes, if they are older than before.
func removeUnnamed(dir string, named map[string]bool, before time.Time) error {
	var failed error
	for _, pattern := range []string{"*.tgz", "*" + signatureFile, ".new-*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("prune the chart cache: %w", err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil || named[name] || info.ModTime().After(before) {
				continue
			}
			failed = errors.Join(failed, remove(name))
		}
	}
	return failed
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prune the chart cache: %w", err)
	}
	return nil
}

// Vendored is a chart's archive on disk.
type Vendored struct {
	Chart string
	// File is its name in the folder, and Digest that of the archive, with which to pin it there.
	File, Digest string
}

// Vendor writes the archives of both charts into a folder, for a repository that is a path. The Charts must come from a
// Store. Archives of other versions are kept.
func (c *Charts) Vendor(dir string) ([]Vendored, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the charts: %w", err)
	}
	var written []Vendored
	for _, one := range []struct {
		chart string
		read  func() ([]byte, error)
	}{{CRDChart, c.readCRD}, {ControllerChart, c.readController}} {
		archive, err := one.read()
		if err != nil {
			return nil, err
		}
		name := archiveName(one.chart, c.Version)
		if err := os.WriteFile(filepath.Join(dir, name), archive, 0o644); err != nil {
			return nil, fmt.Errorf("write chart %s %s into %s: %w", one.chart, c.Version, dir, err)
		}
		written = append(written, Vendored{Chart: one.chart, File: name, Digest: digest.FromBytes(archive).String()})
	}
	return written, nil
}
