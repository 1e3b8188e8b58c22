package charts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// maxIndex limits an index.yaml, in bytes. Parsing one takes some twenty times its size in memory.
const maxIndex = 8 << 20

// index is a Helm repository: https://helm.sh/docs/topics/chart_repository/#the-index-file
type index struct {
	ref     Ref
	session *session
	// base is the folder of index.yaml; listed is its content, once it was read.
	base   *url.URL
	listed map[string][]listing
	// confined parses it.
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

// pull downloads a chart from the URL in the index. A digest in the index must match. An index cannot find an archive
// by its digest.
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

// find returns the listing of the version.
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
			continue // not a release of Karpenter
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

// get downloads from a URL, up to a size.
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

// listing is one version of a chart in an index.
type listing struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// readIndex returns Karpenter's charts in an index.yaml. It parses in a child process, or in this process if runner is
// nil.
func readIndex(ctx context.Context, runner *confine.Runner, text []byte) (map[string][]listing, error) {
	if err := weigh.Dense(text); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	if runner == nil {
		return listedIn(text)
	}
	answer, err := runner.Ask(ctx, "reading the repository's index.yaml", JobName, map[string]any{"index": string(text)})
	if err != nil {
		return nil, err
	}
	return decodeListed(answer)
}

// listedIn parses the text of an index.yaml.
func listedIn(text []byte) (map[string][]listing, error) {
	if err := weigh.YAML(text); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	var whole struct {
		Entries map[string]json.RawMessage `json:"entries"`
	}
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	found := map[string][]listing{}
	for _, chart := range []string{CRDChart, ControllerChart} {
		raw, ok := whole.Entries[chart]
		if !ok {
			continue
		}
		var listings []listing
		if err := json.Unmarshal(raw, &listings); err != nil {
			return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
		}
		found[chart] = listings
	}
	return found, nil
}

// answerIndex returns the reply of a child.
func answerIndex(text string) map[string]any {
	found, err := listedIn([]byte(text))
	if err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	answer := map[string]any{}
	for chart, listings := range found {
		var encoded []any
		for _, one := range listings {
			url := ""
			if len(one.URLs) > 0 {
				url = one.URLs[0]
			}
			encoded = append(encoded, one.Version, url, one.Digest)
		}
		answer[chart] = encoded
	}
	return map[string]any{"listed": answer}
}

func decodeListed(message any) (map[string][]listing, error) {
	answer, _ := message.(map[string]any)
	if why, ok := answer["unreadable"].(string); ok {
		return nil, errors.New(why)
	}
	charts, ok := answer["listed"].(map[string]any)
	if !ok {
		return nil, errAnswer
	}
	found := map[string][]listing{}
	for chart, message := range charts {
		encoded, _ := message.([]any)
		for i := 0; i+2 < len(encoded); i += 3 {
			var one listing
			one.Version, _ = encoded[i].(string)
			if url, _ := encoded[i+1].(string); url != "" {
				one.URLs = []string{url}
			}
			one.Digest, _ = encoded[i+2].(string)
			found[chart] = append(found[chart], one)
		}
	}
	return found, nil
}

// maxNear limits the versions in a message; maxPages limits how much of a long list of tags is read for it.
const (
	maxNear  = 3
	maxPages = 5
)

// near returns the repository's versions closest to a missing one. It only improves a message, so errors are ignored.
func near(ctx context.Context, repository *remote.Repository, version string) []string {
	var tags []string
	pages := 0
	enough := errors.New("enough")
	err := repository.Tags(ctx, "", func(page []string) error {
		tags = append(tags, page...)
		if pages++; pages == maxPages {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil
	}
	return nearest(version, tags)
}

// nearest returns the releases with the smallest distance: first in the major, then in the minor, then in the patch
// number. Of equally distant ones the newer is first.
func nearest(version string, tags []string) []string {
	want, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	var found []*semver.Version
	for _, tag := range tags {
		if v, err := semver.StrictNewVersion(tag); err == nil && v.Prerelease() == "" {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *semver.Version) int {
		return cmp.Or(
			cmp.Compare(distance(a.Major(), want.Major()), distance(b.Major(), want.Major())),
			cmp.Compare(distance(a.Minor(), want.Minor()), distance(b.Minor(), want.Minor())),
			cmp.Compare(distance(a.Patch(), want.Patch()), distance(b.Patch(), want.Patch())),
			b.Compare(a),
		)
	})
	var names []string
	for _, v := range found[:min(maxNear, len(found))] {
		names = append(names, v.String())
	}
	return names
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
