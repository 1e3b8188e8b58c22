package charts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// between spoils responses of a registry whose path contains part.
func between(registry *fakeRegistry, part string, spoil http.HandlerFunc) {
	registry.spoiled.Store(&spoiled{part: part, answer: spoil})
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

// TestAFaultOfTheRegistryEnds: each fault has a type and the same message at each attempt, leaves nothing incomplete in
// the cache, and is over when its cause is.
func TestAFaultOfTheRegistryEnds(t *testing.T) {
	const controllerBlob, crdBlob = "/karpenter/karpenter/blobs/", "/karpenter/karpenter-crd/blobs/"
	tests := map[string]struct {
		part  string
		spoil func(*fakeRegistry) http.HandlerFunc
		want  any
		says  string
	}{
		"an archive breaks off": {
			crdBlob, func(f *fakeRegistry) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					content := f.content[r.URL.Path]
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					_, _ = w.Write(content[:len(content)/2])
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}, new(*UnreachableError), "unexpected EOF",
		},
		"an archive is shorter than it should be": {
			controllerBlob, func(f *fakeRegistry) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					_, _ = w.Write(f.content[r.URL.Path][:10])
				}
			}, new(*UnreachableError), "mismatch Content-Length",
		},
		"an archive is another": {
			controllerBlob, func(f *fakeRegistry) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					_, _ = w.Write([]byte(strings.Repeat("x", len(f.content[r.URL.Path]))))
				}
			}, new(*DigestError), "does not match its digest, so it is not used",
		},
		"a manifest is another": {
			"/manifests/sha256:", func(f *fakeRegistry) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
					_, _ = w.Write([]byte(strings.Repeat(" ", len(f.content[r.URL.Path]))))
				}
			}, new(*DigestError), "does not match its digest, so it is not used",
		},
		"no credentials":    {"", func(*fakeRegistry) http.HandlerFunc { return answering(http.StatusUnauthorized, "") }, new(*AuthError), "refuses access without credentials"},
		"none for archives": {controllerBlob, func(*fakeRegistry) http.HandlerFunc { return answering(http.StatusForbidden, "") }, new(*AuthError), "refuses access without credentials"},
		"too many requests": {
			"/manifests/", func(*fakeRegistry) http.HandlerFunc {
				return answering(http.StatusTooManyRequests, `{"errors":[{"code":"TOOMANYREQUESTS","message":"Rate exceeded"}]}`)
			}, new(*UnreachableError), "429",
		},
		"its own trouble": {"", func(*fakeRegistry) http.HandlerFunc { return answering(http.StatusServiceUnavailable, "") }, new(*UnreachableError), "503"},
		"no answer": {
			"", func(*fakeRegistry) http.HandlerFunc {
				return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
			}, new(*UnreachableError), "EOF",
		},
		"no answer in time": {
			"", func(*fakeRegistry) http.HandlerFunc {
				return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			}, new(*UnreachableError), "deadline exceeded",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := serve(t, "1.14.1")
			registry.server.Config.ErrorLog = nil
			between(registry, test.part, test.spoil(registry))
			dir := t.TempDir()
			store := NewStore(StoreOptions{Dir: dir})
			resolve := func(patience time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := store.Resolve(ctx, registry.ref("1.14.1"), Access{})
				return err
			}
			var said string
			for range 2 {
				patience := 10 * time.Second
				if name == "no answer in time" {
					patience = 50 * time.Millisecond
				}
				err := resolve(patience)
				if err == nil || !errors.As(err, test.want) || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("Resolve() = %T: %v, want %T that says %q", err, err, test.want, test.says)
				}
				if said != "" && said != err.Error() {
					t.Errorf("it says %q and then %q", said, err)
				}
				said = err.Error()
				whole(t, dir)
			}
			registry.spoiled.Store(nil)
			if err := resolve(10 * time.Second); err != nil {
				t.Errorf("when the cause is gone: %v", err)
			}
		})
	}
}

// whole checks that the cache contains no version, and that the content of each archive matches its name.
func whole(t *testing.T, dir string) {
	t.Helper()
	if versions := cached(t, dir, "versions", "*"); len(versions) > 0 {
		t.Errorf("a version that did not resolve is remembered: %v", versions)
	}
	for _, name := range append(cached(t, dir, "sha256", "*"), cached(t, dir, "sha256", ".new-*")...) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) != digest.FromBytes(content).Encoded()+".tgz" {
			t.Errorf("%s is in the cache and is not whole", filepath.Base(name))
		}
	}
}
