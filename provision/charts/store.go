package charts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
)

// StoreOptions are what a Store works with.
type StoreOptions struct {
	// Dir is the cache. It may be empty, and is made when it is not there.
	Dir string
	// Transport for registries, without a CA of its own. Default: http.DefaultTransport.
	Transport *http.Transport
	Logger    logr.Logger
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

// Resolve finds both charts of a version, or neither. A version that was
// resolved before costs no request: it is taken from the cache, by digest, and
// so are charts whose tag has been moved since. Errors: *InvalidRefError,
// *NotFoundError, *UnreachableError, *AuthError, *DigestError, *MalformedError,
// or one of the cache's folder.
func (s *Store) Resolve(ctx context.Context, ref Ref, credentials Credentials) (*Charts, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	known, err := s.memos.recall(ref)
	if err != nil {
		return nil, err
	}
	pulled := memo{Repository: ref.Repository, Version: ref.Version}
	if pulled.CRD, err = s.have(ctx, ref, CRDChart, known.CRD, credentials); err != nil {
		return nil, err
	}
	if pulled.Controller, err = s.have(ctx, ref, ControllerChart, known.Controller, credentials); err != nil {
		return nil, err
	}
	charts := s.charts(ref, pulled)
	if pulled == known {
		return charts, nil
	}
	// Charts that are not what they should be never make it into the memo.
	if _, err := charts.loadCRD(); err != nil {
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

// have makes sure that a chart's content is in the cache and whole.
func (s *Store) have(ctx context.Context, ref Ref, chart string, known artifact, credentials Credentials) (artifact, error) {
	if known != (artifact{}) {
		_, err := s.blobs.read(known.Content)
		if err == nil {
			return known, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			s.options.Logger.Info("a chart in the cache is damaged, pulling it again", "chart", chart, "version", ref.Version, "digest", known.Content, "reason", err.Error())
		}
	}
	found, content, err := s.pull(ctx, ref, chart, known.Manifest, credentials)
	if err != nil {
		return artifact{}, err
	}
	if err := s.blobs.write(found.Content, content); err != nil {
		return artifact{}, fmt.Errorf("keep chart %s %s: %w", chart, ref.Version, err)
	}
	s.options.Logger.Info("pulled a chart", "chart", chart, "version", ref.Version, "repository", ref.Repository, "digest", found.Manifest)
	return found, nil
}

func (s *Store) charts(ref Ref, m memo) *Charts {
	read := func(d digest.Digest) func() ([]byte, error) {
		return func() ([]byte, error) { return s.blobs.read(d) }
	}
	return &Charts{
		Version:        ref.Version,
		CRDDigest:      m.CRD.Manifest.String(),
		Digest:         m.Controller.Manifest.String(),
		loadCRD:        open(CRDChart, ref.Version, read(m.CRD.Content)),
		loadController: open(ControllerChart, ref.Version, read(m.Controller.Content)),
	}
}
