package charts

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

const (
	// maxSignatures limits the signatures of one chart that are checked, and maxSignature the size of each, in bytes.
	maxSignatures = 32
	maxSignature  = 256 << 10
)

var errEnough = errors.New("there are enough")

// Verify checks that both charts, which Resolve has returned, are signed by one of the signers, with cosign and a key.
// Signatures are stored with the charts, so a verified one needs no request again; transparency logs and certificates
// are not used.
//
// The error is an *UnsignedError if a signature is missing, or if the charts are not in an
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
		if err := s.blobs.writeSignatures(manifest, found); err != nil {
			return err
		}
	}
	return nil
}

func (b blobs) signaturePath(manifest digest.Digest) string {
	return filepath.Join(b.dir, manifest.Encoded()+signatureFile)
}

// signatureFile is the suffix of the file with the signatures of a manifest.
const signatureFile = ".sig"

// signatures returns those that were stored; none if they cannot be read.
func (b blobs) signatures(manifest digest.Digest) []signature {
	var known []signature
	raw, err := os.ReadFile(b.signaturePath(manifest))
	if err != nil || json.Unmarshal(raw, &known) != nil {
		return nil
	}
	return known
}

func (b blobs) writeSignatures(manifest digest.Digest, found []signature) error {
	raw, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode the signatures of %s: %w", manifest, err)
	}
	return putInPlace(b.signaturePath(manifest), raw)
}

// signatures requests the signatures of a manifest in both forms.
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
	if err != nil && len(found) == 0 { // a registry may not support listing referrers
		return nil, classify(o.ref, chart, o.session, err)
	}
	return append(found, bundled...), nil
}

// simpleSignatures returns the layers of the tag sha256-<hex>.sig.
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

// bundles returns the sigstore bundles that refer to a manifest.
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

// layersOf returns the layers of a manifest, up to maxSignatures.
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

// UnsignedError reports that a chart does not have the required signature.
type UnsignedError struct {
	Ref   Ref
	Chart string
	// Secret with the trusted keys.
	Secret string
	// Digest of the chart's manifest, and Found is the number of signatures by others.
	Digest string
	Found  int
	// Reason is why it cannot have one; empty if it could.
	Reason string
}

// Error names the chart, its digest and the Secret.
func (e *UnsignedError) Error() string {
	text := fmt.Sprintf("chart %s %s from %s is not verified: ", e.Chart, e.Ref.Version, e.Ref.Repository)
	switch {
	case e.Reason != "":
		return text + e.Reason + ": pull it from oci://, or remove spec.charts.verify"
	case e.Found > 0:
		return fmt.Sprintf("%s%s is signed, but not with a key of secret %s: sign it with that key (cosign sign --key), or add the public key if its owner is trusted", text, e.Digest, e.Secret)
	}
	return fmt.Sprintf("%s%s is not signed: sign it with a key of secret %s (cosign sign --key)", text, e.Digest, e.Secret)
}

// A chart's signature, in either of cosign's forms, names the chart's manifest. A signature of something else by the
// same key, such as an attestation, does not count.
const (
	// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
	simpleType       = "cosign container image signature"
	simpleMediaType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	simpleAnnotation = "dev.cosignproject.cosign/signature"
	// https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
	bundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	statementMedia  = "application/vnd.in-toto+json"
	statementType   = "https://in-toto.io/Statement/v1"
	signPredicate   = "https://sigstore.dev/cosign/sign/v1"
)

// signature is a signature with the signed payload.
type signature struct {
	// Bundle reports whether Payload is from a DSSE envelope, an in-toto statement; otherwise it is cosign's simple
	// signing.
	Bundle    bool   `json:"bundle,omitempty"`
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// of reports whether it is a signature of a manifest by one of the signers.
func (s signature) of(manifest digest.Digest, by Signers) bool {
	message, named := s.Payload, s.namesSimply
	if s.Bundle {
		// https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
		message = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementMedia), statementMedia, len(s.Payload), s.Payload)
		named = s.namesInStatement
	}
	return named(manifest) && by.signed(message, s.Signature)
}

func (s signature) namesSimply(manifest digest.Digest) bool {
	var payload struct {
		Critical struct {
			Image struct {
				Digest digest.Digest `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	err := json.Unmarshal(s.Payload, &payload)
	return err == nil && payload.Critical.Type == simpleType && payload.Critical.Image.Digest == manifest
}

func (s signature) namesInStatement(manifest digest.Digest) bool {
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	err := json.Unmarshal(s.Payload, &statement)
	return err == nil && statement.Type == statementType && statement.PredicateType == signPredicate &&
		len(statement.Subject) == 1 && statement.Subject[0].Digest[manifest.Algorithm().String()] == manifest.Encoded()
}

// fromBundle returns the signatures in a bundle that was signed with a key.
func fromBundle(raw []byte) []signature {
	var bundle struct {
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if json.Unmarshal(raw, &bundle) != nil || bundle.Envelope.PayloadType != statementMedia {
		return nil
	}
	var found []signature
	for _, s := range bundle.Envelope.Signatures {
		found = append(found, signature{Bundle: true, Payload: bundle.Envelope.Payload, Signature: s.Sig})
	}
	return found
}

func anyOf(all []signature, manifest digest.Digest, by Signers) bool {
	return slices.ContainsFunc(all, func(s signature) bool { return s.of(manifest, by) })
}

// keyEntry is the suffix of a Secret's entries with public keys, as in Flux: cosign.pub.
const keyEntry = ".pub"

// minRSA is the minimum size of an RSA key, in bits.
const minRSA = 2048

// Signers are the public keys that may sign charts.
type Signers struct {
	// Secret from which they were read.
	Secret string
	keys   []crypto.PublicKey
}

// SignersFromSecret returns the public keys in the entries of a Secret that end in .pub, in PEM form as cosign writes
// them. All of them must be valid. The error is a *SecretError, which names the entry.
func SignersFromSecret(secret string, data map[string][]byte) (Signers, error) {
	s := Signers{Secret: secret}
	for _, entry := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasSuffix(entry, keyEntry) {
			continue
		}
		block, _ := pem.Decode(data[entry])
		if block == nil || block.Type != "PUBLIC KEY" {
			return Signers{}, &SecretError{
				Key: entry, Reason: "is not a public key in PEM form, as cosign generate-key-pair writes it to cosign.pub",
			}
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return Signers{}, &SecretError{Key: entry, Reason: "is not a public key that can be read"}
		}
		if reason := keyProblem(key); reason != "" {
			return Signers{}, &SecretError{Key: entry, Reason: reason}
		}
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return Signers{}, &SecretError{Key: "cosign.pub", Reason: "is missing: it takes the public key that charts are signed with"}
	}
	return s, nil
}

func keyProblem(key crypto.PublicKey) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return ""
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return fmt.Sprintf("is an RSA key of %d bits, at least %d are needed", bits, minRSA)
		}
		return ""
	}
	return "is a key of a type that cosign does not use"
}

// signed reports whether one of the keys has signed a message, as in cosign: its SHA-256, except for Ed25519.
// https://github.com/sigstore/sigstore/blob/main/pkg/signature/verifier.go
func (s Signers) signed(message, signature []byte) bool {
	sum := sha256.Sum256(message)
	return slices.ContainsFunc(s.keys, func(key crypto.PublicKey) bool {
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			return ecdsa.VerifyASN1(k, sum[:], signature)
		case ed25519.PublicKey:
			return ed25519.Verify(k, message, signature)
		case *rsa.PublicKey:
			return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
		}
		return false
	})
}
