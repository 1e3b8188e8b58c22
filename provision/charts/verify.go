package charts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

const (
	// maxSignatures is how many signatures of one chart are looked at, and maxSignature
	// how large each may be, in bytes.
	maxSignatures = 32
	maxSignature  = 256 << 10
)

var errEnough = errors.New("there are enough")

// Verify checks that both charts, which Resolve has found, are signed by one of the
// signers, with cosign and a key. Signatures are kept with the charts, so that what was
// verified once costs no request; transparency logs and certificates are not asked for.
//
// The error is an *UnsignedError where a signature is missing, or charts are not in an
// OCI registry; or one of Resolve's.
func (s *Store) Verify(ctx context.Context, ref Ref, charts *Charts, access Access, by Signers) error {
	if ref.local() || !strings.HasPrefix(ref.Repository, ociScheme) {
		return &UnsignedError{Ref: ref, Chart: ControllerChart, Secret: by.Secret, Reason: "charts outside OCI registries have no signatures"}
	}
	with := &session{base: s.options.Transport, keys: access.Keys}
	defer with.close()
	from := &registry{ref: ref, session: with}
	for _, chart := range []string{CRDChart, ControllerChart} {
		manifest := digest.Digest(Digests{CRD: charts.CRDDigest, Controller: charts.Digest}.of(chart))
		if err := manifest.Validate(); err != nil {
			return &UnsignedError{Ref: ref, Chart: chart, Secret: by.Secret, Reason: "its digest is not known"}
		}
		if anyOf(s.blobs.signatures(manifest), manifest, by) {
			continue
		}
		found, err := from.signatures(ctx, chart, manifest)
		if err != nil {
			return err
		}
		if !anyOf(found, manifest, by) {
			return &UnsignedError{Ref: ref, Chart: chart, Secret: by.Secret, Digest: manifest.String(), Found: len(found)}
		}
		if err := s.blobs.keep(manifest, found); err != nil {
			return err
		}
	}
	return nil
}

func (b blobs) signaturePath(manifest digest.Digest) string {
	return filepath.Join(b.dir, manifest.Encoded()+signatureFile)
}

// signatureFile is how the file ends that has the signatures of a manifest.
const signatureFile = ".sig"

// signatures are those that were found before; none where they cannot be read.
func (b blobs) signatures(manifest digest.Digest) []signature {
	var known []signature
	raw, err := os.ReadFile(b.signaturePath(manifest))
	if err != nil || json.Unmarshal(raw, &known) != nil {
		return nil
	}
	return known
}

func (b blobs) keep(manifest digest.Digest, found []signature) error {
	raw, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode the signatures of %s: %w", manifest, err)
	}
	return putInPlace(b.signaturePath(manifest), raw)
}

// signatures asks the registry for the signatures of a manifest in both forms.
func (o *registry) signatures(ctx context.Context, chart string, manifest digest.Digest) ([]signature, error) {
	repository, err := o.repository(chart)
	if err != nil {
		return nil, err
	}
	found, err := simpleSignatures(ctx, repository, manifest)
	if err != nil {
		return nil, classify(o.ref, chart, o.session, err)
	}
	bundled, err := bundles(ctx, repository, manifest)
	if err != nil && len(found) == 0 { // a registry may not know how to list referrers
		return nil, classify(o.ref, chart, o.session, err)
	}
	return append(found, bundled...), nil
}

// simpleSignatures are the layers of what is tagged sha256-<hex>.sig.
func simpleSignatures(ctx context.Context, repository *remote.Repository, manifest digest.Digest) ([]signature, error) {
	head, err := repository.Resolve(ctx, manifest.Algorithm().String()+"-"+manifest.Encoded()+".sig")
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	layers, err := layersOf(ctx, repository, head)
	if err != nil {
		return nil, err
	}
	var found []signature
	for _, layer := range layers {
		signed, err := base64.StdEncoding.DecodeString(layer.Annotations[simpleAnnotation])
		if layer.MediaType != simpleMediaType || err != nil || len(signed) == 0 || layer.Size > maxSignature {
			continue
		}
		payload, err := content.FetchAll(ctx, repository.Blobs(), layer)
		if err != nil {
			return nil, err
		}
		found = append(found, signature{Payload: payload, Signature: signed})
	}
	return found, nil
}

// bundles are the sigstore bundles that refer to a manifest.
func bundles(ctx context.Context, repository *remote.Repository, manifest digest.Digest) ([]signature, error) {
	head, err := repository.Resolve(ctx, manifest.String())
	if err != nil {
		return nil, err
	}
	var referrers []ocispec.Descriptor
	err = repository.Referrers(ctx, head, bundleMediaType, func(page []ocispec.Descriptor) error {
		if referrers = append(referrers, page...); len(referrers) >= maxSignatures {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	var found []signature
	for _, referrer := range referrers[:min(maxSignatures, len(referrers))] {
		layers, err := layersOf(ctx, repository, referrer)
		if err != nil {
			return nil, err
		}
		for _, layer := range layers {
			if layer.MediaType != bundleMediaType || layer.Size > maxSignature {
				continue
			}
			raw, err := content.FetchAll(ctx, repository.Blobs(), layer)
			if err != nil {
				return nil, err
			}
			found = append(found, fromBundle(raw)...)
		}
	}
	return found, nil
}

// layersOf a manifest, at most as many as are looked at.
func layersOf(ctx context.Context, repository *remote.Repository, head ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	if head.Size > maxManifest {
		return nil, fmt.Errorf("the manifest of a signature has %d bytes: %w", head.Size, errdef.ErrSizeExceedsLimit)
	}
	raw, err := content.FetchAll(ctx, repository, head)
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, fmt.Errorf("read the manifest of a signature: %w", err)
	}
	return manifest.Layers[:min(maxSignatures, len(manifest.Layers))], nil
}

// UnsignedError says that a chart lacks the signature that it needs.
type UnsignedError struct {
	Ref   Ref
	Chart string
	// Secret with the trusted keys.
	Secret string
	// Digest of the chart's manifest, and how many signatures by others Found.
	Digest string
	Found  int
	// Reason says why it cannot have one; empty where it could.
	Reason string
}

// Error names the chart, its digest and the Secret.
func (e *UnsignedError) Error() string {
	text := fmt.Sprintf("chart %s %s from %s is not verified: ", e.Chart, e.Ref.Version, e.Ref.Repository)
	switch {
	case e.Reason != "":
		return text + e.Reason + ": take it from oci://, or leave out spec.charts.verify"
	case e.Found > 0:
		return fmt.Sprintf("%s%s is signed, but not with a key of secret %s: sign it with that key (cosign sign --key), or add the public key if its owner is trusted", text, e.Digest, e.Secret)
	}
	return fmt.Sprintf("%s%s is not signed: sign it with a key of secret %s (cosign sign --key)", text, e.Digest, e.Secret)
}
