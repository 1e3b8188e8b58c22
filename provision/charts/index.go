package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/plumbline-dev/plumbline/confine"
)

// maxIndex bounds an index.yaml, in bytes. Reading one takes some twenty times
// its size of memory.
const maxIndex = 8 << 20

// index is a Helm repository: https://helm.sh/docs/topics/chart_repository/#the-index-file
type index struct {
	ref     Ref
	session *session
	// base is the folder of index.yaml; listed is what it lists, once it was read.
	base   *url.URL
	listed map[string][]listing
	// confined reads it.
	confined *confine.Runner
}

func newIndex(ref Ref, with *session, confined *confine.Runner) (*index, error) {
	base, err := url.Parse(strings.TrimRight(ref.Repository, "/") + "/")
	if err != nil {
		return nil, &InvalidRefError{Ref: ref, Reason: "repository is not a URL"}
	}
	with.home, with.basic = base.Host, true
	return &index{ref: ref, session: with, base: base, confined: confined}, nil
}

// pull gets a chart from where the index says that it is. The digest in the index has to be
// true. An index finds no archive by its digest.
func (o *index) pull(ctx context.Context, chart string, _ digest.Digest) (artifact, []byte, error) {
	if err := o.read(ctx, chart); err != nil {
		return artifact{}, nil, err
	}
	found, err := o.find(chart)
	if err != nil {
		return artifact{}, nil, err
	}
	at, err := o.base.Parse(found.URLs[0])
	if err != nil || at.Scheme != "https" && at.Scheme != "http" {
		return artifact{}, nil, o.malformed(chart, fmt.Errorf("its index gives no URL for it, but %q", found.URLs[0]))
	}
	archive, err := o.get(ctx, at, maxArchive)
	if err != nil {
		return artifact{}, nil, classify(o.ref, chart, o.session, err)
	}
	got := digest.FromBytes(archive)
	if want := strings.TrimPrefix(found.Digest, "sha256:"); want != "" && want != got.Encoded() {
		err := fmt.Errorf("it has digest %s and should have sha256:%s: %w", got, want, content.ErrMismatchedDigest)
		return artifact{}, nil, &DigestError{Ref: o.ref, Chart: chart, Err: err}
	}
	return artifact{Manifest: got, Content: got}, archive, nil
}

// read reads index.yaml, once for both charts.
func (o *index) read(ctx context.Context, chart string) error {
	if o.listed != nil {
		return nil
	}
	raw, err := o.get(ctx, o.base.JoinPath("index.yaml"), maxIndex)
	if err != nil {
		err = classify(o.ref, chart, o.session, err)
		if missing := (*NotFoundError)(nil); errors.As(err, &missing) {
			missing.Reason = "which has no index.yaml: is it a Helm repository?"
		}
		return err
	}
	o.listed, err = readIndex(ctx, o.confined, raw)
	if child := (*confine.ChildError)(nil); err == nil || ctx.Err() != nil || errors.As(err, &child) {
		return err
	}
	return o.malformed(chart, err)
}

// find picks the version out of what the index lists of a chart.
func (o *index) find(chart string) (listing, error) {
	listings := o.listed[chart]
	want, err := semver.StrictNewVersion(o.ref.Version)
	if err != nil {
		return listing{}, &InvalidRefError{Ref: o.ref, Reason: err.Error()}
	}
	versions := make([]string, 0, len(listings))
	for _, one := range listings {
		version, err := semver.NewVersion(one.Version)
		if err != nil {
			continue // not a release of Karpenter's
		}
		if !version.Equal(want) || version.Metadata() != want.Metadata() {
			versions = append(versions, version.String())
			continue
		}
		if len(one.URLs) == 0 {
			return listing{}, o.malformed(chart, errors.New("its index gives no URL for it"))
		}
		return one, nil
	}
	return listing{}, &NotFoundError{Ref: o.ref, Chart: chart, Near: nearest(o.ref.Version, versions)}
}

func (o *index) malformed(chart string, err error) error {
	return &MalformedError{Chart: chart, Version: o.ref.Version, Err: err}
}

// get reads what is at a URL, of a limited size.
func (o *index) get(ctx context.Context, at *url.URL, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	response, err := o.session.client().Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, &errcode.ErrorResponse{Method: request.Method, URL: response.Request.URL, StatusCode: response.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", at.Path, limit, errdef.ErrSizeExceedsLimit)
	}
	return body, nil
}
