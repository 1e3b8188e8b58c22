package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// fakeHelmRepository serves files by their paths, only with the password if it has one, and records the requests.
type fakeHelmRepository struct {
	server *httptest.Server

	mu       sync.Mutex
	files    map[string][]byte
	redirect map[string]string
	password string
	// asked are paths; authorized are those of requests with credentials.
	asked, authorized []string
}

func newFakeHelmRepository(t *testing.T) *fakeHelmRepository {
	t.Helper()
	f := &fakeHelmRepository{files: map[string][]byte{}, redirect: map[string]string{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeHelmRepository) host() string { return strings.TrimPrefix(f.server.URL, "http://") }

func (f *fakeHelmRepository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.URL.Path)
	if r.Header.Get("Authorization") != "" {
		f.authorized = append(f.authorized, r.URL.Path)
	}
	if _, password, _ := r.BasicAuth(); password != f.password {
		http.Error(w, "no entry for "+password, http.StatusUnauthorized)
		return
	}
	if to, ok := f.redirect[r.URL.Path]; ok {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	content, ok := f.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}

// listed returns an index.yaml with both charts of one version at URLs with a prefix.
func listed(version, prefix string, crd, controller []byte) []byte {
	entry := func(name string, archive []byte) string {
		return fmt.Sprintf("  %s:\n  - {name: %s, version: %s, digest: %s, urls: [%q]}\n", name, name, version, digest.FromBytes(archive).Encoded(), prefix+archiveName(name, version))
	}
	return []byte("apiVersion: v1\nentries:\n" + entry(CRDChart, crd) + entry(ControllerChart, controller) + "  other:\n  - 1\n")
}

// serveIndex serves both charts of a version in a Helm repository below /charts.
func serveIndex(t *testing.T, version, prefix string) *fakeHelmRepository {
	t.Helper()
	f := newFakeHelmRepository(t)
	crd, controller := chartstest.CRDs(t, version), chartstest.Controller(t, version)
	f.files["/charts/index.yaml"] = listed(version, prefix, crd, controller)
	for _, at := range []string{"/charts/", "/archives/"} {
		f.files[at+archiveName(CRDChart, version)] = crd
		f.files[at+archiveName(ControllerChart, version)] = controller
	}
	return f
}

func (f *fakeHelmRepository) ref(version string) Ref {
	return Ref{Repository: f.server.URL + "/charts", Version: version}
}

func TestAHelmRepositoryIsReadOnce(t *testing.T) {
	for name, test := range map[string]struct{ prefix, at string }{
		"relative":                {"", "/charts/"},
		"relative, a folder down": {"../archives/", "/archives/"},
		"from the root":           {"/archives/", "/archives/"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serveIndex(t, "1.14.1", test.prefix)
			store := NewStore(StoreOptions{Dir: t.TempDir()})
			first, err := store.Resolve(t.Context(), f.ref("1.14.1"), Access{})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"/charts/index.yaml", test.at + "karpenter-crd-1.14.1.tgz", test.at + "karpenter-1.14.1.tgz"}
			if got := fmt.Sprint(f.asked); got != fmt.Sprint(want) {
				t.Errorf("asked for %v, want %v", got, want)
			}
			if want := digest.FromBytes(f.files[test.at+"karpenter-1.14.1.tgz"]).String(); first.Digest != want {
				t.Errorf("digest %s, want that of the archive, %s", first.Digest, want)
			}
			again, err := store.Resolve(t.Context(), f.ref("1.14.1"), Access{})
			if err != nil || again.CRDDigest != first.CRDDigest || len(f.asked) != len(want) {
				t.Errorf("again: %v, digest %s after %s, %d requests in all", err, again.CRDDigest, first.CRDDigest, len(f.asked))
			}
		})
	}
}

func TestAnIndexMayNameAnotherHost(t *testing.T) {
	archives := serveIndex(t, "1.14.1", "")
	f := serveIndex(t, "1.14.1", archives.server.URL+"/charts/")
	if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), f.ref("1.14.1"), Access{}); err != nil || len(archives.asked) != 2 {
		t.Errorf("%v; the other host was asked for %v", err, archives.asked)
	}
}

func TestHelmRepositoriesThatCannotBeUsed(t *testing.T) {
	crd := "/charts/karpenter-crd-1.14.1.tgz"
	tests := map[string]struct {
		spoil func(t *testing.T, f *fakeHelmRepository)
		want  any
		text  string
	}{
		"no index": {
			func(_ *testing.T, f *fakeHelmRepository) { delete(f.files, "/charts/index.yaml") },
			new(*NotFoundError), "which has no index.yaml: is it a Helm repository?",
		},
		"no such version": {
			func(t *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = listed("1.14.0", "", chartstest.CRDs(t, "1.14.0"), chartstest.Controller(t, "1.14.0"))
			}, new(*NotFoundError), "the nearest versions are 1.14.0",
		},
		"only one of the two": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = bytes.Replace(f.files["/charts/index.yaml"], []byte("  karpenter:\n"), []byte("  carpenter:\n"), 1)
			}, new(*NotFoundError), "chart karpenter 1.14.1 is not in",
		},
		"nothing in it": {
			func(_ *testing.T, f *fakeHelmRepository) { f.files["/charts/index.yaml"] = nil },
			new(*NotFoundError), "chart karpenter-crd 1.14.1 is not in",
		},
		"an index that is none": {
			func(_ *testing.T, f *fakeHelmRepository) { f.files["/charts/index.yaml"] = []byte("<html>\n\t<p>") },
			new(*MalformedError), "index.yaml",
		},
		"a list of nonsense": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = []byte("entries: {karpenter-crd: yes}\n")
			}, new(*MalformedError), "index.yaml",
		},
		"no URL": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = []byte("entries: {karpenter-crd: [{version: v1.14.1}]}\n")
			}, new(*MalformedError), "gives no URL",
		},
		"a URL of another kind": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = []byte("entries: {karpenter-crd: [{version: 1.14.1, urls: ['file:///etc/passwd']}]}\n")
			}, new(*MalformedError), `"file:///etc/passwd"`,
		},
		"an endless index": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = bytes.Repeat([]byte("#"), maxIndex+1)
			}, new(*MalformedError), "has more than 8388608 bytes",
		},
		"eight mebibytes of empty lists": {
			func(_ *testing.T, f *fakeHelmRepository) {
				f.files["/charts/index.yaml"] = append([]byte("entries: [\n"), bytes.Repeat([]byte("[],"), maxIndex/3-8)...)
			}, new(*MalformedError), "it has more than 250000 values",
		},
		"an endless archive": {
			func(_ *testing.T, f *fakeHelmRepository) { f.files[crd] = make([]byte, maxArchive+1) },
			new(*MalformedError), "has more than 16777216 bytes",
		},
		"an archive that is gone": {
			func(_ *testing.T, f *fakeHelmRepository) { delete(f.files, crd) },
			new(*NotFoundError), "chart karpenter-crd 1.14.1 is not in",
		},
		"another archive than the index says": {
			func(t *testing.T, f *fakeHelmRepository) {
				f.files[crd] = chartstest.Archive(t, CRDChart, "1.14.1", map[string]string{"a.yaml": "kind: A\n"})
			}, new(*DigestError), "does not match its digest, so it is not used",
		},
		"round and round": {
			func(_ *testing.T, f *fakeHelmRepository) { f.redirect[crd] = crd },
			new(*UnreachableError), "redirected more than 5 times",
		},
		"down to plain HTTP": {
			func(_ *testing.T, f *fakeHelmRepository) { f.redirect[crd] = "http://charts.example.com/a.tgz" },
			new(*UnreachableError), "plain HTTP, which only loopback addresses may use",
		},
		"no password": {
			func(_ *testing.T, f *fakeHelmRepository) { f.password = "secret" },
			new(*AuthError), "refuses access without credentials",
		},
		"away": {
			func(_ *testing.T, f *fakeHelmRepository) { f.server.Close() },
			new(*UnreachableError), "connection refused",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := serveIndex(t, "1.14.1", "")
			test.spoil(t, f)
			dir := t.TempDir()
			_, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), f.ref("1.14.1"), Access{})
			if err == nil || !errors.As(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Resolve() = %T: %v, want %T that says %q", err, err, test.want, test.text)
			}
			whole(t, dir)
		})
	}
}

// TestAnArchiveThatWasReplaced: a cache that has lost an archive does not accept another one for it.
func TestAnArchiveThatWasReplaced(t *testing.T) {
	f := serveIndex(t, "1.14.1", "")
	dir := t.TempDir()
	store := NewStore(StoreOptions{Dir: dir})
	if _, err := store.Resolve(t.Context(), f.ref("1.14.1"), Access{}); err != nil {
		t.Fatal(err)
	}
	other := chartstest.Archive(t, ControllerChart, "1.14.1", map[string]string{"other.yaml": "kind: Other\n"})
	f.files["/charts/karpenter-1.14.1.tgz"] = other
	f.files["/charts/index.yaml"] = listed("1.14.1", "", f.files["/charts/karpenter-crd-1.14.1.tgz"], other)
	if _, err := store.Resolve(t.Context(), f.ref("1.14.1"), Access{}); err != nil {
		t.Errorf("with the cache: %v", err)
	}
	for _, path := range cached(t, dir, "sha256", "*.tgz") {
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
	}
	var replaced *DigestError
	if _, err := store.Resolve(t.Context(), f.ref("1.14.1"), Access{}); !errors.As(err, &replaced) {
		t.Errorf("without: %v, want a DigestError", err)
	}
}

// keysOf returns Keys with passwords for hosts, and records the hosts for which it is called.
func keysOf(passwords map[string]string, asked *[]string) Keys {
	return func(_ context.Context, host string) (Credentials, error) {
		if asked != nil {
			*asked = append(*asked, host)
		}
		if passwords[host] == "" {
			return Credentials{}, nil
		}
		return Credentials{Username: "ada", Password: passwords[host], Origin: "secret mirror"}, nil
	}
}

func TestNearest(t *testing.T) {
	tags := []string{"0.37.7", "1.0.8", "1.12.1", "1.13.0", "1.14.0", "1.14.1", "1.15.0-rc.1", "latest", "v0.32.0"}
	tests := map[string]struct {
		version string
		tags    []string
		want    []string
	}{
		"the minor's own come first": {"1.14.9", tags, []string{"1.14.1", "1.14.0", "1.13.0"}},
		"a major that is not there":  {"2.0.0", tags, []string{"1.0.8", "1.12.1", "1.13.0"}},
		"between two, the newer":     {"1.13.1", []string{"1.13.0", "1.13.2"}, []string{"1.13.2", "1.13.0"}},
		"nothing to offer":           {"1.14.9", []string{"latest"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, nearest(test.version, test.tags)); diff != "" {
				t.Errorf("nearest (-want +got):\n%s", diff)
			}
		})
	}
}
