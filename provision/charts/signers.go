package charts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keyEntry is how the names of a Secret's entries end that have a public key, as in Flux:
// cosign.pub.
const keyEntry = ".pub"

// leastRSA is the least size of an RSA key, in bits.
const leastRSA = 2048

// Signers are the public keys of who may sign charts.
type Signers struct {
	// Secret that they were read from.
	Secret string
	keys   []crypto.PublicKey
}

// SignersFromSecret reads the entries of a Secret that end in .pub: public keys in PEM
// form, as cosign writes them. All of them have to be readable. The error is a
// *SecretError, which names the entry.
func SignersFromSecret(secret string, data map[string][]byte) (Signers, error) {
	s := Signers{Secret: secret}
	for _, entry := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasSuffix(entry, keyEntry) {
			continue
		}
		block, _ := pem.Decode(data[entry])
		if block == nil || block.Type != "PUBLIC KEY" {
			return Signers{}, &SecretError{Key: entry, Reason: "is not a public key in PEM form, as cosign generate-key-pair writes it to cosign.pub"}
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
		if bits := k.N.BitLen(); bits < leastRSA {
			return fmt.Sprintf("is an RSA key of %d bits, at least %d are needed", bits, leastRSA)
		}
		return ""
	}
	return "is a key of a type that cosign does not use"
}

// signed says whether one of the keys has signed a message, as cosign does: over its
// SHA-256, but for Ed25519.
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
