package charts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

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
	// pull gets a chart. known is the digest that it had when it was pulled before;
	// empty: it never was.
	pull(ctx context.Context, chart string, known digest.Digest) (artifact, []byte, error)
}

// Resolve finds both charts of a version, or neither. A version that was
// resolved before costs no request: it is taken from the cache, by digest, and
// so are charts that were replaced since where they came from, and charts whose
// digests are pinned, wherever they came from. Files of the checkout are read
// each time. Errors: *InvalidRefError, *NotFoundError, *UnreachableError,
// *CertificateError, *AuthError, *DigestError, *PinnedError, *MalformedError,
// *ForeignCRDsError, one of Access, or one of the cache's folder.
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
	pin := ref.Digests.of(chart)
	switch {
	case ref.local():
		known = artifact{} // files change, and their version does not
	case pin != "" && known.Manifest != pin:
		known = s.memos.pinned(ref.Version, chart, pin)
	}
	if known != (artifact{}) && s.cached(known, ref, chart) {
		return known, nil
	}
	found, content, err := from.pull(ctx, chart, known.Manifest)
	if err != nil {
		return artifact{}, err
	}
	if pin != "" && found.Manifest != pin {
		return artifact{}, &PinnedError{Ref: ref, Chart: chart, Found: found.Manifest.String(), Pinned: pin.String()}
	}
	if ref.local() && s.cached(found, ref, chart) {
		return found, nil
	}
	if err := s.blobs.write(found.Content, content); err != nil {
		return artifact{}, fmt.Errorf("keep chart %s %s: %w", chart, ref.Version, err)
	}
	s.options.Logger.Info("pulled a chart", "chart", chart, "version", ref.Version, "repository", ref.Repository, "digest", found.Manifest)
	return found, nil
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
		confined:       s.options.Confine,
		CRDDigest:      m.CRD.Manifest.String(),
		Digest:         m.Controller.Manifest.String(),
		readCRD:        read(m.CRD.Content),
		readController: read(m.Controller.Content),
		loadCRD:        open(CRDChart, ref.Version, read(m.CRD.Content)),
		loadController: open(ControllerChart, ref.Version, read(m.Controller.Content)),
	}
}
