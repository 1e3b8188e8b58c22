package charts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fakeRegistry is an OCI registry that supports pulls.
type fakeRegistry struct {
	server *httptest.Server
	// spoiled responds for some paths.
	spoiled atomic.Pointer[spoiled]

	mu sync.Mutex
	// content by path, /v2/… without the host.
	content map[string][]byte
	// fault is the status of all responses if it is not zero.
	fault    int
	requests int
}

// spoiled responds in the registry's place.
type spoiled struct {
	part   string
	answer http.HandlerFunc
}

func newFakeRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{content: map[string][]byte{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeRegistry) ref(version string) Ref {
	return Ref{Repository: strings.Replace(f.server.URL, "http://", "oci://", 1) + "/karpenter", Version: version}
}

// push serves a chart's archive, and returns the path of its content.
func (f *fakeRegistry) push(t *testing.T, name, version string, archive []byte) string {
	t.Helper()
	config := []byte(`{}`)
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.config.v1+json", Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers:    []ocispec.Descriptor{{MediaType: contentType, Digest: digest.FromBytes(archive), Size: int64(len(archive))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	base := "/v2/karpenter/" + name
	f.content[base+"/manifests/"+version] = manifest
	f.content[base+"/manifests/"+digest.FromBytes(manifest).String()] = manifest
	path := base + "/blobs/" + digest.FromBytes(archive).String()
	f.content[path] = archive
	tags, err := json.Marshal(map[string]any{"name": "karpenter/" + name, "tags": []string{version}})
	if err != nil {
		t.Fatal(err)
	}
	f.content[base+"/tags/list"] = tags
	return path
}

func (f *fakeRegistry) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeRegistry) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := f.spoiled.Load(); s != nil && strings.Contains(r.URL.Path, s.part) {
		s.answer(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.fault != 0 {
		w.WriteHeader(f.fault)
		return
	}
	content, ok := f.content[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(content).String())
	}
	_, _ = w.Write(content)
}

// locked makes a registry require the password of ada.
func locked(registry *fakeRegistry, password func() string) {
	registry.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "ada" || given != password() {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(w, r)
	})
}

func hostOf(registry *fakeRegistry) string {
	return strings.TrimPrefix(registry.server.URL, "http://")
}

// TestCredentialsAreReadAtEachTry: messages name the Secret and host of expired credentials but not their value, and
// renewed ones are used at once.
func TestCredentialsAreReadAtEachTry(t *testing.T) {
	registry := serve(t, "1.14.1")
	valid := "old-secret"
	locked(registry, func() string { return valid })
	inSecret := "old-secret"
	keys := func(context.Context, string) (Credentials, error) {
		return Credentials{Username: "ada", Password: inSecret, Origin: "secret mirror"}, nil
	}
	resolve := func(dir string) error {
		_, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), registry.ref("1.14.1"), Access{Keys: keys})
		return err
	}
	dir := t.TempDir()
	if err := resolve(dir); err != nil {
		t.Fatal(err)
	}
	valid = "new-secret"
	if err := resolve(dir); err != nil {
		t.Errorf("expired, with the charts in the cache: %v", err)
	}
	err := resolve(t.TempDir())
	var refused *AuthError
	if !errors.As(err, &refused) || refused.Origin != "secret mirror" || refused.Host != hostOf(registry) {
		t.Fatalf("expired: %v, want an AuthError of secret mirror and %s", err, hostOf(registry))
	}
	if text := err.Error(); !strings.Contains(text, "refuses the credentials of secret mirror") || strings.Contains(text, "old-secret") {
		t.Errorf("expired: %q", text)
	}
	inSecret = valid
	if err := resolve(t.TempDir()); err != nil {
		t.Errorf("renewed: %v", err)
	}
}

// TestNobodyIsAskedForKeysInVain: a cached version reads no Secret.
func TestNobodyIsAskedForKeysInVain(t *testing.T) {
	registry := serve(t, "1.14.1")
	store := NewStore(StoreOptions{Dir: t.TempDir()})
	var asked []string
	access := Access{Keys: keysOf(nil, &asked)}
	for range 2 {
		if _, err := store.Resolve(t.Context(), registry.ref("1.14.1"), access); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != 1 || asked[0] != hostOf(registry) {
		t.Errorf("keys were wanted for %v, want %s once", asked, hostOf(registry))
	}
}

// TestCredentialsGoNowhereElse: neither a redirect nor a token service sends them to another host, not even to one that
// differs only in its port.
func TestCredentialsGoNowhereElse(t *testing.T) {
	t.Run("a registry redirects", func(t *testing.T) {
		registry, elsewhere := serve(t, "1.14.1"), serve(t, "1.14.1")
		leaked := 0
		elsewhere.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				leaked++
			}
			elsewhere.ServeHTTP(w, r)
		})
		locked(registry, func() string { return "secret" })
		between(registry, "/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.server.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		access := Access{Keys: keysOf(map[string]string{hostOf(registry): "secret"}, nil)}
		if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), registry.ref("1.14.1"), access); err != nil {
			t.Fatal(err)
		}
		if elsewhere.asked() != 2 || leaked > 0 {
			t.Errorf("the other host had %d requests, %d of them with credentials; want 2 and none", elsewhere.asked(), leaked)
		}
	})
	t.Run("a Helm repository redirects", func(t *testing.T) {
		f, elsewhere := serveIndex(t, "1.14.1", ""), serveIndex(t, "1.14.1", "")
		f.password = "secret"
		f.redirect["/charts/karpenter-1.14.1.tgz"] = elsewhere.server.URL + "/hop"
		elsewhere.redirect["/hop"] = elsewhere.server.URL + "/charts/karpenter-1.14.1.tgz"
		access := Access{Keys: keysOf(map[string]string{f.host(): "secret", elsewhere.host(): "other"}, nil)}
		if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), f.ref("1.14.1"), access); err != nil {
			t.Fatal(err)
		}
		if len(elsewhere.asked) != 2 || len(elsewhere.authorized) > 0 {
			t.Errorf("the other host was asked for %v, with credentials for %v; want two and none", elsewhere.asked, elsewhere.authorized)
		}
	})
	t.Run("whoever has set them", func(t *testing.T) {
		f, elsewhere := newFakeHelmRepository(t), newFakeHelmRepository(t)
		f.redirect["/a"] = elsewhere.server.URL + "/a"
		v := &session{base: http.DefaultTransport.(*http.Transport), home: f.host()}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer secret")
		response, err := v.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if len(f.authorized) != 1 || len(elsewhere.asked) != 1 || len(elsewhere.authorized) > 0 {
			t.Errorf("the host had credentials for %v, the other one for %v of %v", f.authorized, elsewhere.authorized, elsewhere.asked)
		}
	})
	t.Run("a token service", func(t *testing.T) {
		registry := serve(t, "1.14.1")
		asked := 0
		token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_, _ = w.Write([]byte(`{"token": "t"}`))
		}))
		t.Cleanup(token.Close)
		registry.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t" {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+token.URL+`/token",service="s"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			registry.ServeHTTP(w, r)
		})
		passwords := map[string]string{hostOf(registry): "secret"}
		resolve := func() error {
			_, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), registry.ref("1.14.1"), Access{Keys: keysOf(passwords, nil)})
			return err
		}
		err := resolve()
		var refused *AuthError
		if !errors.As(err, &refused) || asked > 0 || !strings.Contains(err.Error(), "which they are not for") {
			t.Errorf("%v, and it was asked %d times", err, asked)
		}
		passwords[strings.TrimPrefix(token.URL, "http://")] = "secret"
		if err := resolve(); err != nil || asked == 0 {
			t.Errorf("once it is named, too: %v, and it was asked %d times", err, asked)
		}
	})
}

func TestAnAnswerThatRepeatsThePassword(t *testing.T) {
	f := serveIndex(t, "1.14.1", "")
	f.password = "example"
	f.redirect["/charts/index.yaml"] = "http://charts.example.com/"
	_, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), f.ref("1.14.1"), Access{Keys: keysOf(map[string]string{f.host(): "example"}, nil)})
	if err == nil || strings.Contains(err.Error(), "example") || !strings.Contains(err.Error(), "***") {
		t.Errorf("Resolve() = %v, want an error without the password", err)
	}
}

func TestAnOwnAuthority(t *testing.T) {
	secure := httptest.NewTLSServer(serveIndex(t, "1.14.1", ""))
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	ref := Ref{Repository: secure.URL + "/charts", Version: "1.14.1"}
	resolve := func(ca []byte) error {
		keys := func(context.Context, string) (Credentials, error) { return Credentials{CA: ca}, nil }
		_, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{Keys: keys})
		return err
	}
	var untrusted *CertificateError
	if err := resolve(nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "certSecretRef") {
		t.Errorf("without: %v, want a CertificateError", err)
	}
	var unreadable *SecretError
	if err := resolve([]byte("nonsense")); !errors.As(err, &unreadable) {
		t.Errorf("with nonsense: %v, want a SecretError", err)
	}
	if err := resolve(authority); err != nil {
		t.Errorf("with it: %v", err)
	}
}

func TestKeysThatCannotBeHad(t *testing.T) {
	gone := errors.New("no such secret")
	keys := func(context.Context, string) (Credentials, error) { return Credentials{}, gone }
	for name, ref := range map[string]Ref{"a registry": serve(t, "1.14.1").ref("1.14.1"), "a Helm repository": serveIndex(t, "1.14.1", "").ref("1.14.1")} {
		_, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{Keys: keys})
		if err != gone { //nolint:errorlint // it has to come through as it is
			t.Errorf("%s: %v, want %v", name, err, gone)
		}
	}
}

func TestCredentialsFromSecret(t *testing.T) {
	config := func(text string) map[string][]byte { return map[string][]byte{".dockerconfigjson": []byte(text)} }
	encoded := base64.StdEncoding.EncodeToString([]byte("ada:s3cret"))
	ada := Credentials{Username: "ada", Password: "s3cret"}
	tests := map[string]struct {
		data map[string][]byte
		want Credentials
		key  string
	}{
		"Flux's keys":        {map[string][]byte{"username": []byte("ada"), "password": []byte("s3cret\n")}, ada, ""},
		"docker":             {config(`{"auths": {"r.example.com:5000": {"username": "ada", "password": "s3cret"}}}`), ada, ""},
		"docker, encoded":    {config(`{"auths": {"r.example.com:5000": {"auth": "` + encoded + `"}, "other": {"auth": "eDp5"}}}`), ada, ""},
		"docker, with a URL": {config(`{"auths": {"https://r.example.com:5000/v2/": {"auth": "` + encoded + `"}}}`), ada, ""},
		"another host":       {config(`{"auths": {"r.example.com": {"auth": "` + encoded + `"}}}`), Credentials{}, ".dockerconfigjson"},
		"a token alone":      {config(`{"auths": {"r.example.com:5000": {"identitytoken": "s3cret"}}}`), Credentials{}, ".dockerconfigjson"},
		"no JSON":            {config(`s3cret`), Credentials{}, ".dockerconfigjson"},
		"no base64":          {config(`{"auths": {"r.example.com:5000": {"auth": "s3cret:"}}}`), Credentials{}, ".dockerconfigjson"},
		"no password":        {map[string][]byte{"username": []byte("s3cret")}, Credentials{}, "password"},
		"nothing":            {nil, Credentials{}, "username"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := CredentialsFromSecret(t.Context(), test.data, "r.example.com:5000")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var unusable *SecretError
			switch {
			case test.key == "" && err != nil:
				t.Error(err)
			case test.key != "" && (!errors.As(err, &unusable) || unusable.Key != test.key || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("error %v, want one of the key %s", err, test.key)
			}
		})
	}
}
