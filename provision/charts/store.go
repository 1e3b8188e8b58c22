package charts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"

	"github.com/plumbline-dev/plumbline/confine"
)

// StoreOptions are what a Store works with.
type StoreOptions struct {
	// Dir is the cache. It may be empty, and is made when it is not there.
	Dir string
	// Transport for registries and Helm repositories, without a CA of its own. Default: http.DefaultTransport.
	Transport *http.Transport
	Logger    logr.Logger
	// Confine runs what reads and renders charts in child processes. Default: in this one.
	Confine *confine.Runner
}

// Store finds charts, in its cache first.
type Store struct {
	options StoreOptions
	blobs   blobs
	memos   memos

	mu sync.Mutex
	// inForce are the files of versions that are in force in a cluster. They are never pruned.
	inForce map[string]bool
}

// NewStore returns a Store over a folder. Several Stores, of several processes
// too, may share one.
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

// origin is where charts come from: a registry, a Helm repository or a folder.
type origin interface {
	// pull gets a chart: by its digest if the origin finds charts by it, else the one that the
	// version stands for now. An empty digest is unknown.
	pull(ctx context.Context, chart string, by digest.Digest) (artifact, []byte, error)
}

// Resolve finds both charts of a version, or neither. A version that was
// resolved before costs no request: it is taken from the cache, by digest, and
// so are charts that were replaced since where they came from, and charts whose
// digests are pinned or in force, wherever they came from. Files of the checkout
// are read each time. Errors: *InvalidRefError, *NotFoundError, *UnreachableError,
// *CertificateError, *AuthError, *DigestError, *PinnedError, *MovedError,
// *MalformedError, *ForeignCRDsError, one of Access, or one of the cache's folder.
func (s *Store) Resolve(ctx context.Context, ref Ref, access Access) (*Charts, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	known, err := s.memos.recall(ref)
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
	if pulled.CRD, err = s.have(ctx, from, ref, CRDChart, known.CRD); err != nil {
		return nil, err
	}
	if pulled.Controller, err = s.have(ctx, from, ref, ControllerChart, known.Controller); err != nil {
		return nil, err
	}
	charts := s.charts(ref, pulled)
	s.keep(ref, pulled)
	if pulled == known {
		return charts, nil
	}
	// Charts that are not what they should be never make it into the memo.
	if _, err := charts.CRDs(ctx); err != nil {
		return nil, err
	}
	if _, err := charts.loadController(); err != nil {
		return nil, err
	}
	if err := s.memos.remember(ref, pulled); err != nil {
		return nil, err
	}
	if err := s.prune(); err != nil { // a folder that grows is no reason to have no charts
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
		return nil, &InvalidRefError{Ref: ref, Reason: fmt.Sprintf("repository %q is a path, and there is no checkout to read it from", ref.Repository)}
	}
	return &folder{ref: ref, files: access.Files}, nil
}

// have makes sure that a chart's content is in the cache and whole, and that it
// is what is pinned.
func (s *Store) have(ctx context.Context, from origin, ref Ref, chart string, known artifact) (artifact, error) {
	want := ref.wanted(chart)
	switch {
	case ref.local():
		known = artifact{} // files change, and their version does not
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

// pull gets a chart that has a digest; any chart of the version if that is empty.
func pull(ctx context.Context, from origin, ref Ref, chart string, want digest.Digest) (artifact, []byte, error) {
	by := want
	if pin := ref.Digests.of(chart); pin != "" && pin != ref.InForce.of(chart) {
		by = "" // it may be the digest of another version
	}
	found, archive, err := from.pull(ctx, chart, by)
	if missing := (*NotFoundError)(nil); by != "" && errors.As(err, &missing) {
		// The error names the digest that the version has there now.
		if found, _, err = from.pull(ctx, chart, ""); errors.As(err, &missing) && ref.Digests.of(chart) == "" && ref.wanted(chart) != "" {
			err = &MovedError{Ref: ref, Chart: chart, InForce: want.String()}
		}
	}
	if err == nil && want != "" && found.Manifest != want {
		err = mismatch(ref, chart, found.Manifest, want)
	}
	return found, archive, err
}

// mismatch reports a chart that has another digest than the one that is wanted.
func mismatch(ref Ref, chart string, found, want digest.Digest) error {
	switch {
	case ref.Digests.of(chart) != "":
		return &PinnedError{Ref: ref, Chart: chart, Found: found.String(), Pinned: want.String()}
	case ref.wanted(chart) != "":
		return &MovedError{Ref: ref, Chart: chart, Found: found.String(), InForce: want.String()}
	}
	return &DigestError{Ref: ref, Chart: chart, Err: fmt.Errorf("it has digest %s and should have %s: %w", found, want, content.ErrMismatchedDigest)}
}

// keep notes a version that is in force, so that it is never pruned. Its file becomes the newest once in each
// process: a process that comes after this one may prune before it has seen which version is in force.
func (s *Store) keep(ref Ref, pulled memo) {
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

// cached says whether a chart's content is in the cache and whole.
func (s *Store) cached(known artifact, ref Ref, chart string) bool {
	_, err := s.blobs.read(known.Content)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Info("a chart in the cache is damaged, pulling it again", "chart", chart, "version", ref.Version, "digest", known.Content, "reason", err.Error())
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
