package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// contentType of a chart's archive: https://helm.sh/docs/topics/registries/#helm-chart-manifest
const contentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// userAgent is how plumbline names itself.
const userAgent = "plumbline"

// What a registry sends is not trusted. Karpenter's charts are far below these sizes, in bytes.
const (
	maxManifest = 1 << 20
	maxArchive  = 16 << 20
)

// registry is an OCI registry.
type registry struct {
	ref     Ref
	session *session
}

// pull gets a chart by its manifest's digest when that is known and by the
// version's tag when not.
func (o *registry) pull(ctx context.Context, chart string, known digest.Digest) (artifact, []byte, error) {
	repository, err := o.repository(chart)
	if err != nil {
		return artifact{}, nil, err
	}
	found, archive, err := fetch(ctx, repository, Label(o.ref.Version), known)
	if err != nil {
		err = classify(o.ref, chart, o.session, err)
		if missing := (*NotFoundError)(nil); errors.As(err, &missing) && known == "" {
			missing.Near = near(ctx, repository, o.ref.Version)
		}
		return artifact{}, nil, err
	}
	return found, archive, nil
}

func (o *registry) repository(chart string) (*remote.Repository, error) {
	name, plain := o.ref.registry(chart)
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, &InvalidRefError{Ref: o.ref, Reason: fmt.Sprintf("repository %q: %v", o.ref.Repository, err)}
	}
	o.session.home = repository.Reference.Host()
	client := &auth.Client{Client: o.session.client(), Cache: auth.NewCache(), ClientID: "plumbline"}
	client.SetUserAgent(userAgent)
	client.Credential = func(ctx context.Context, host string) (auth.Credential, error) {
		d, err := o.session.access(ctx, host)
		if err != nil || d.credentials.anonymous() {
			return auth.EmptyCredential, err
		}
		return auth.Credential{Username: d.credentials.Username, Password: d.credentials.Password}, nil
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
