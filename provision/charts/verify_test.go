package charts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// cosigner signs as cosign does.
type cosigner struct{ crypto.Signer }

func newCosigner(t *testing.T, kind string) cosigner {
	t.Helper()
	var private crypto.Signer
	var err error
	switch kind {
	case "ed25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cosigner{private}
}

func (c cosigner) sign(t *testing.T, message []byte) []byte {
	t.Helper()
	sum, hash := sha256.Sum256(message), crypto.SHA256
	signed := sum[:]
	if _, plain := c.Signer.(ed25519.PrivateKey); plain {
		signed, hash = message, 0
	}
	signature, err := c.Sign(rand.Reader, signed, hash)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func (c cosigner) public(t *testing.T) []byte {
	t.Helper()
	raw, err := x509.MarshalPKIXPublicKey(c.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: raw})
}

func (c cosigner) trusted(t *testing.T) Signers {
	t.Helper()
	s, err := SignersFromSecret("cosign", map[string][]byte{"cosign.pub": c.public(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simple(manifest, kind string) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":%q},"type":%q},"optional":null}`, manifest, kind)
}

func statement(manifest, predicate string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, strings.TrimPrefix(manifest, "sha256:"), predicate)
}

func (f *fakeRegistry) put(t *testing.T, chart, reference string, manifest any, blobs ...[]byte) []byte {
	t.Helper()
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		f.content["/v2/karpenter/"+chart+"/manifests/"+reference] = raw
		f.content["/v2/karpenter/"+chart+"/manifests/"+digest.FromBytes(raw).String()] = raw
		for _, blob := range blobs {
			f.content["/v2/karpenter/"+chart+"/blobs/"+digest.FromBytes(blob).String()] = blob
		}
	})
	return raw
}

// attach serves a signature in cosign's first form.
func (f *fakeRegistry) attach(t *testing.T, chart, manifest string, payload, signature []byte) {
	t.Helper()
	f.put(t, chart, strings.Replace(manifest, ":", "-", 1)+".sig", ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{{
		MediaType: simpleMediaType, Digest: digest.FromBytes(payload), Size: int64(len(payload)),
		Annotations: map[string]string{simpleAnnotation: base64.StdEncoding.EncodeToString(signature)},
	}}}, payload)
}

// refer serves bundles as referrers of both charts, by the hex of their manifests.
func (f *fakeRegistry) refer(t *testing.T, bundles map[string][]byte) {
	t.Helper()
	lists := map[string][]byte{}
	for _, chart := range []string{CRDChart, ControllerChart} {
		for manifest, bundle := range bundles {
			raw := f.put(t, chart, "none", ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{{MediaType: bundleMediaType, Digest: digest.FromBytes(bundle), Size: int64(len(bundle))}}}, bundle)
			list, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleMediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}}})
			if err != nil {
				t.Fatal(err)
			}
			lists[manifest] = list
		}
	}
	f.spoiled.Store(&spoiled{part: "/referrers/", answer: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write(lists[filepath.Base(r.URL.Path)])
	}})
}

func (c cosigner) bundle(t *testing.T, payload []byte) []byte {
	t.Helper()
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementMedia), statementMedia, len(payload), payload)
	raw, err := json.Marshal(map[string]any{
		"mediaType":    bundleMediaType,
		"dsseEnvelope": map[string]any{"payload": payload, "payloadType": statementMedia, "signatures": []any{map[string]any{"sig": c.sign(t, message)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestVerify(t *testing.T) {
	team, mallory := newCosigner(t, ""), newCosigner(t, "")
	cases := map[string]struct {
		// serve signs the two manifests.
		serve func(*testing.T, *fakeRegistry, *Charts)
		by    cosigner
		want  string
	}{
		"not at all": {serve: func(*testing.T, *fakeRegistry, *Charts) {}, want: "chart karpenter-crd 1.14.1 from oci://", by: team},
		"ecdsa":      {serve: signs(team, simpleType), by: team},
		"rsa":        {},
		"ed25519":    {},
		"by another": {serve: signs(mallory, simpleType), by: team, want: "is signed, but not with a key of secret cosign"},
		"other type": {serve: signs(team, "attestation"), by: team, want: "is signed, but not with a key"},
		"only the CRD chart": {by: team, want: "chart karpenter 1.14.1", serve: func(t *testing.T, f *fakeRegistry, c *Charts) {
			payload := simple(c.CRDDigest, simpleType)
			f.attach(t, CRDChart, c.CRDDigest, payload, team.sign(t, payload))
		}},
		"the signature of another chart": {by: team, want: "is signed, but not with a key", serve: func(t *testing.T, f *fakeRegistry, c *Charts) {
			payload := simple("sha256:"+strings.Repeat("0", 64), simpleType)
			f.attach(t, CRDChart, c.CRDDigest, payload, team.sign(t, payload))
		}},
		"another payload": {by: team, want: "is signed, but not with a key", serve: func(t *testing.T, f *fakeRegistry, c *Charts) {
			f.attach(t, CRDChart, c.CRDDigest, simple(c.CRDDigest, simpleType), team.sign(t, simple("sha256:"+strings.Repeat("0", 64), simpleType)))
		}},
		"bundles":            {by: team, serve: bundled(team, signPredicate)},
		"bundles by another": {by: team, serve: bundled(mallory, signPredicate), want: "is signed, but not with a key"},
		"attestations":       {by: team, serve: bundled(team, "https://slsa.dev/provenance/v1"), want: "is signed, but not with a key"},
		"rubbish": {by: team, want: "is not signed", serve: func(t *testing.T, f *fakeRegistry, c *Charts) {
			f.refer(t, map[string][]byte{c.CRDDigest: []byte("{"), c.Digest: []byte("[]")})
		}},
	}
	for _, kind := range []string{"rsa", "ed25519"} {
		c := cases[kind]
		c.by = newCosigner(t, kind)
		c.serve = signs(c.by, simpleType)
		cases[kind] = c
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := serve(t, "1.14.1")
			store, ref := NewStore(StoreOptions{Dir: t.TempDir()}), f.ref("1.14.1")
			found, err := store.Resolve(t.Context(), ref, Access{})
			if err != nil {
				t.Fatal(err)
			}
			c.serve(t, f, found)
			err = store.Verify(t.Context(), ref, found, Access{}, c.by.trusted(t))
			var unsigned *UnsignedError
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (!errors.As(err, &unsigned) || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("Verify() = %v, want %q", err, c.want)
			case c.want != "":
				return
			}
			// A verified chart needs no registry, but another key does not accept the stored signatures.
			f.server.Close()
			if err := store.Verify(t.Context(), ref, found, Access{}, c.by.trusted(t)); err != nil {
				t.Errorf("once more: %v", err)
			}
			if err := store.Verify(t.Context(), ref, found, Access{}, mallory.trusted(t)); err == nil {
				t.Error("verified by another key")
			}
			if err := store.prune(); err != nil {
				t.Fatal(err)
			}
			if kept, _ := filepath.Glob(filepath.Join(store.blobs.dir, "*"+signatureFile)); len(kept) != 2 {
				t.Errorf("kept %d signatures", len(kept))
			}
		})
	}
}

func signs(by cosigner, kind string) func(*testing.T, *fakeRegistry, *Charts) {
	return func(t *testing.T, f *fakeRegistry, c *Charts) {
		for chart, manifest := range map[string]string{CRDChart: c.CRDDigest, ControllerChart: c.Digest} {
			payload := simple(manifest, kind)
			f.attach(t, chart, manifest, payload, by.sign(t, payload))
		}
	}
}

func bundled(by cosigner, predicate string) func(*testing.T, *fakeRegistry, *Charts) {
	return func(t *testing.T, f *fakeRegistry, c *Charts) {
		f.refer(t, map[string][]byte{c.CRDDigest: by.bundle(t, statement(c.CRDDigest, predicate)), c.Digest: by.bundle(t, statement(c.Digest, predicate))})
	}
}

// TestVerifyOfOtherOrigins: a manipulated cache verifies nothing, and charts from elsewhere have no signatures.
func TestVerifyOfOtherOrigins(t *testing.T) {
	team := newCosigner(t, "")
	dir := t.TempDir()
	store := NewStore(StoreOptions{Dir: dir})
	manifest := digest.FromString("x")
	if err := os.MkdirAll(store.blobs.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"[]", "{", `[{"payload":"e30=","signature":"AAAA"}]`} {
		if err := os.WriteFile(store.blobs.signaturePath(manifest), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if anyOf(store.blobs.signatures(manifest), manifest, team.trusted(t)) {
			t.Errorf("%s verifies", text)
		}
	}
	for _, repository := range []string{"https://charts.example.com/karpenter", "prod/charts"} {
		err := store.Verify(t.Context(), Ref{Repository: repository, Version: "1.14.1"}, &Charts{CRDDigest: manifest.String(), Digest: manifest.String()}, Access{Files: fstest.MapFS{}}, team.trusted(t))
		if err == nil || !strings.Contains(err.Error(), "charts outside OCI registries have no signatures") {
			t.Errorf("%s: %v", repository, err)
		}
	}
}

func TestSignersFromSecret(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	team := newCosigner(t, "")
	cases := map[string]struct {
		data map[string][]byte
		want string
	}{
		"two":       {data: map[string][]byte{"a.pub": team.public(t), "b.pub": newCosigner(t, "rsa").public(t), "cosign.key": []byte("x")}},
		"none":      {want: "cosign.pub is missing"},
		"not PEM":   {data: map[string][]byte{"a.pub": []byte("hunter2")}, want: "is not a public key in PEM form"},
		"not a key": {data: map[string][]byte{"a.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("hunter2")})}, want: "is not a public key that can be read"},
		"weak":      {data: map[string][]byte{"a.pub": cosigner{weak}.public(t)}, want: "is an RSA key of 1024 bits"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := SignersFromSecret("cosign", c.data)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("SignersFromSecret() = %v, want %q", err, c.want)
			}
		})
	}
}
