package charts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// contentType of a chart's archive: https://helm.sh/docs/topics/registries/#helm-chart-manifest
const contentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// A registry is a stranger: Karpenter's charts are far below these sizes, in bytes.
const (
	maxManifest = 1 << 20
	maxArchive  = 16 << 20
)

// pull gets a chart from the registry, by its manifest's digest when that is
// known and by the version's tag when not.
func (s *Store) pull(ctx context.Context, ref Ref, chart string, known digest.Digest, credentials Credentials) (artifact, []byte, error) {
	repository, err := s.repository(ref, chart, credentials)
	if err != nil {
		return artifact{}, nil, err
	}
	found, archive, err := fetch(ctx, repository, ref.tag(), known)
	if err != nil {
		scrub(err)
		err = classify(ref, chart, err)
		if missing := (*NotFoundError)(nil); errors.As(err, &missing) && known == "" {
			missing.Near = near(ctx, repository, ref.Version)
		}
		return artifact{}, nil, err
	}
	return found, archive, nil
}

func (s *Store) repository(ref Ref, chart string, credentials Credentials) (*remote.Repository, error) {
	name, plain := ref.repository(chart)
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, &InvalidRefError{Ref: ref, Reason: fmt.Sprintf("repository %q: %v", ref.Repository, err)}
	}
	transport := s.options.Transport
	if len(credentials.CA) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(credentials.CA) {
			return nil, &AuthError{Ref: ref, Chart: chart, Err: errors.New("the CA in the credentials holds no certificate in PEM")}
		}
		transport = transport.Clone()
		if transport.TLSClientConfig == nil {
			transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	client := &auth.Client{Client: &http.Client{Transport: transport}, Cache: auth.NewCache(), ClientID: "plumbline"}
	client.SetUserAgent("plumbline")
	if credentials.Username != "" || credentials.Password != "" {
		client.Credential = auth.StaticCredential(repository.Reference.Host(), auth.Credential{Username: credentials.Username, Password: credentials.Password})
	}
	repository.PlainHTTP, repository.Client = plain, client
	return repository, nil
}

// fetch walks from the tag or digest over the manifest to the archive. Every
// step's content is checked against its digest.
func fetch(ctx context.Context, repository *remote.Repository, tag string, known digest.Digest) (artifact, []byte, error) {
	reference := tag
	if known != "" {
		reference = known.String()
	}
	head, err := repository.Resolve(ctx, reference)
	if err != nil {
		return artifact{}, nil, err
	}
	if head.Size > maxManifest {
		return artifact{}, nil, fmt.Errorf("its manifest has %d bytes: %w", head.Size, errdef.ErrSizeExceedsLimit)
	}
	raw, err := content.FetchAll(ctx, repository, head)
	if err != nil {
		return artifact{}, nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return artifact{}, nil, fmt.Errorf("read its manifest: %w", err)
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != contentType {
			continue
		}
		if layer.Size > maxArchive {
			return artifact{}, nil, fmt.Errorf("its archive has %d bytes: %w", layer.Size, errdef.ErrSizeExceedsLimit)
		}
		archive, err := content.FetchAll(ctx, repository.Blobs(), layer)
		return artifact{Manifest: head.Digest, Content: layer.Digest}, archive, err
	}
	return artifact{}, nil, fmt.Errorf("its manifest names no Helm chart: %w", errdef.ErrInvalidMediaType)
}

// classify turns the registry's error into one of ours.
func classify(ref Ref, chart string, err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return &NotFoundError{Ref: ref, Chart: chart, Err: err}
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return &AuthError{Ref: ref, Chart: chart, Err: err}
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return &NotFoundError{Ref: ref, Chart: chart, Err: err}
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return &DigestError{Ref: ref, Chart: chart, Err: err}
	case errors.Is(err, errdef.ErrInvalidMediaType), errors.Is(err, errdef.ErrSizeExceedsLimit):
		return &MalformedError{Chart: chart, Version: ref.Version, Err: err}
	}
	return &UnreachableError{Ref: ref, Chart: chart, Err: err}
}

// scrub takes out of an error what changes from try to try: signed queries of
// redirects, which are secrets besides, and local ports.
func scrub(err error) {
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.URL != nil {
		clean := *answer.URL
		clean.RawQuery = ""
		answer.URL = &clean
	}
	var request *url.Error
	if errors.As(err, &request) {
		request.URL, _, _ = strings.Cut(request.URL, "?")
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		operation.Source = nil
	}
}
