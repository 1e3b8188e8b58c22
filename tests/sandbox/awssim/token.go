package awssim

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// token contains the claims of a ServiceAccount's token, once its signature was verified.
type token struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Expires  int64    `json:"exp"`

	Kubernetes struct {
		Namespace string `json:"namespace"`
		Pod       struct{ Name, UID string }
		Account   struct{ Name string } `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// audience is one audience or several.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// readToken verifies a token with the clusters' keys, and returns its cluster.
func (a *account) readToken(text string) (*cluster, token, error) {
	var t token
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, t, wire.Errorf("InvalidIdentityToken", "The ID Token provided is not a valid JWT.")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(claims, &t)
	}
	if err != nil {
		return nil, t, wire.Errorf("InvalidIdentityToken", "The ID Token provided is not a valid JWT: %v", err)
	}
	for _, c := range a.clusters {
		if c.issuer(a.options.Region) != t.Issuer || c.TokenKey == nil {
			continue
		}
		if err := verify(c.TokenKey, parts); err != nil {
			return nil, t, wire.Errorf("InvalidIdentityToken", "Couldn't verify the signature of the token: %v", err)
		}
		if !a.now.Before(time.Unix(t.Expires, 0)) {
			return nil, t, wire.Errorf("ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time")
		}
		return c, t, nil
	}
	return nil, t, wire.Errorf("InvalidIdentityToken", "No OpenIDConnect provider found in your account for %s", t.Issuer)
}

// verify verifies a signature with ES256 (RFC 7518, section 3.4), which the sandbox's API server uses.
func verify(key *ecdsa.PublicKey, parts []string) error {
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return fmt.Errorf("decode the header: %w", err)
	}
	var how struct {
		Algorithm string `json:"alg"`
	}
	if err := json.Unmarshal(header, &how); err != nil || how.Algorithm != "ES256" {
		return fmt.Errorf("the algorithm is %q, and only ES256 is known", how.Algorithm)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(signature) != 64 {
		return errors.New("it is not of 64 bytes")
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return errors.New("it is not by the cluster's key")
	}
	return nil
}

func (t token) isFor(audience string) bool { return slices.Contains(t.Audience, audience) }
