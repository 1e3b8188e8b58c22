package charts

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// locked has a registry want the password of ada.
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

// TestCredentialsAreReadAtEachTry: expired ones are named by Secret and host and
// not by their value, and renewed ones count at once.
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

// TestNobodyIsAskedForKeysInVain: a version in the cache reads no Secret.
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

// TestCredentialsGoNowhereElse: neither a redirect nor a token service takes them
// to another host, not even to one that differs by its port alone.
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
