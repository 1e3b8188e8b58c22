package charts

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
)

// A signature of a chart, in either of cosign's forms, names the chart's manifest. That
// of other words by the same key, such as an attestation, is none.
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

// signature is what was signed, and by what.
type signature struct {
	// Bundle says that Payload is what is in a DSSE envelope, an in-toto statement; else
	// it is cosign's simple signing.
	Bundle    bool   `json:"bundle,omitempty"`
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// of says whether it is one of a manifest by one of the signers.
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

// fromBundle reads a bundle that was signed with a key.
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
