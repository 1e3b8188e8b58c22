package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

const archive = "what is in the archive"

func aBuild() build {
	return build{
		Repository: "https://github.com/plumbline-dev/plumbline", Ref: "refs/tags/v1.2.3", Commit: strings.Repeat("ab", 20), Kind: "publish",
		Go: "go1.26.8", Goreleaser: "v2.12.7", Builder: "https://ci.example.com", Invocation: "https://ci.example.com/runs/7",
	}
}

// provenanceOf returns what the command writes for a release with one archive.
func provenanceOf(t *testing.T, b build) []byte {
	t.Helper()
	dir := t.TempDir()
	sum := sha256.Sum256([]byte(archive))
	checksums, out := filepath.Join(dir, "checksums.txt"), filepath.Join(dir, "out")
	if err := os.WriteFile(checksums, fmt.Appendf(nil, "%s  plumbline_1.2.3_linux_amd64.tar.gz\n", hex.EncodeToString(sum[:])), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(checksums, b, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestProvenance contains what SLSA requires, and is always the same.
func TestProvenance(t *testing.T) {
	text := provenanceOf(t, aBuild())
	if !bytes.Equal(text, provenanceOf(t, aBuild())) {
		t.Error("it differs from time to time")
	}
	var got struct {
		Type, PredicateType string
		Subject             []struct{ Name string }
		Predicate           struct {
			BuildDefinition struct {
				ExternalParameters   map[string]string
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
			RunDetails struct {
				Builder  struct{ ID string }
				Metadata struct{ InvocationID string }
			}
		}
	}
	if err := json.Unmarshal(bytes.Replace(text, []byte("_type"), []byte("type"), 1), &got); err != nil {
		t.Fatal(err)
	}
	source := got.Predicate.BuildDefinition.ResolvedDependencies[0]
	for want, have := range map[string]string{
		"https://in-toto.io/Statement/v1":                                 got.Type,
		"https://slsa.dev/provenance/v1":                                  got.PredicateType,
		"plumbline_1.2.3_linux_amd64.tar.gz":                              got.Subject[0].Name,
		"checksums.txt":                                                   got.Subject[1].Name,
		".ci/release publish":                                             got.Predicate.BuildDefinition.ExternalParameters["command"],
		"git+https://github.com/plumbline-dev/plumbline@refs/tags/v1.2.3": source.URI,
		strings.Repeat("ab", 20):                                          source.Digest["gitCommit"],
		"https://ci.example.com":                                          got.Predicate.RunDetails.Builder.ID,
		"https://ci.example.com/runs/7":                                   got.Predicate.RunDetails.Metadata.InvocationID,
	} {
		if have != want {
			t.Errorf("it has %q, want %q", have, want)
		}
	}
}

// TestSigstoreVerifiesIt like cosign verify-blob-attestation: for a file of the release, and no other.
func TestSigstoreVerifiesIt(t *testing.T) {
	keys, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := sign.Bundle(&sign.DSSEData{Data: provenanceOf(t, aBuild()), PayloadType: "application/vnd.in-toto+json"}, keys, sign.BundleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := bundle.NewBundle(signed)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := keys.GetPublicKeyPem()
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(pem))
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	trusted := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(key, time.Time{}, time.Time{}), nil
	})
	verifier, err := verify.NewSignedEntityVerifier(trusted, verify.WithCurrentTime())
	if err != nil {
		t.Fatal(err)
	}
	for file, ours := range map[string]bool{archive: true, "another archive": false} {
		result, err := verifier.Verify(whole, verify.NewPolicy(verify.WithArtifact(strings.NewReader(file)), verify.WithKey()))
		if ours != (err == nil) {
			t.Errorf("%s: %v", file, err)
		}
		if ours && err == nil && result.Statement.GetPredicateType() != predicateType {
			t.Errorf("it is %s", result.Statement.GetPredicateType())
		}
	}
}

func TestWhatHasNoProvenance(t *testing.T) {
	for text, want := range map[string]string{
		"":                "it names no file",
		"abc  a.tar.gz\n": "is no SHA-256 and a name",
	} {
		if _, err := subjectsOf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (build{}).statement(nil); err == nil {
		t.Error("of no build, and without a builder, there is one")
	}
}
