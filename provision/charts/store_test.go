package charts

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// serve serves both charts of a version in a registry.
func serve(t *testing.T, version string) *fakeRegistry {
	t.Helper()
	registry := newFakeRegistry(t)
	registry.push(t, CRDChart, version, chartstest.CRDs(t, version))
	registry.push(t, ControllerChart, version, chartstest.Controller(t, version))
	return registry
}

func TestAVersionIsPulledOnce(t *testing.T) {
	registry := serve(t, "1.14.1")
	dir := filepath.Join(t.TempDir(), "cache")
	first, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), registry.ref("1.14.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	asked := registry.asked()
	registry.server.Close()
	// Another process, and no registry.
	second, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), registry.ref("1.14.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	if got := registry.asked(); got != asked {
		t.Errorf("a version that was resolved before cost %d requests", got-asked)
	}
	if first.Digest != second.Digest || first.CRDDigest != second.CRDDigest || !strings.HasPrefix(first.Digest, "sha256:") {
		t.Errorf("digests %s, %s became %s, %s", first.CRDDigest, first.Digest, second.CRDDigest, second.Digest)
	}
	crds, err := second.CRDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range crds {
		names = append(names, crd.Name)
	}
	if diff := cmp.Diff([]string{"nodeclaims.karpenter.sh", "nodepools.karpenter.sh"}, names); diff != "" {
		t.Errorf("CRDs (-want +got):\n%s", diff)
	}
}

func TestATagThatMovesChangesNothing(t *testing.T) {
	registry := serve(t, "1.14.1")
	store := NewStore(StoreOptions{Dir: t.TempDir()})
	before, err := store.Resolve(t.Context(), registry.ref("1.14.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	registry.push(t, ControllerChart, "1.14.1", chartstest.Archive(t, ControllerChart, "1.14.1", map[string]string{"other.yaml": "kind: Other\n"}))
	after, err := store.Resolve(t.Context(), registry.ref("1.14.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	if before.Digest != after.Digest {
		t.Errorf("the version's digest moved from %s to %s", before.Digest, after.Digest)
	}
}

func TestADamagedCacheIsPulledAgainByDigest(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"a changed byte": func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) },
		"a missing file": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			registry := serve(t, "1.14.1")
			dir := t.TempDir()
			store := NewStore(StoreOptions{Dir: dir})
			before, err := store.Resolve(t.Context(), registry.ref("1.14.1"), Access{})
			if err != nil {
				t.Fatal(err)
			}
			archives, err := filepath.Glob(filepath.Join(dir, "sha256", "*.tgz"))
			if err != nil || len(archives) != 2 {
				t.Fatalf("the cache holds %v, %v; want two archives", archives, err)
			}
			for _, path := range archives {
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
			}
			// The tag is gone: only the digest can find it.
			registry.set(func() { delete(registry.content, "/v2/karpenter/karpenter/manifests/1.14.1") })
			after, err := store.Resolve(t.Context(), registry.ref("1.14.1"), Access{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := after.CRDs(t.Context()); err != nil || after.Digest != before.Digest {
				t.Errorf("got digest %s, %v; want %s", after.Digest, err, before.Digest)
			}
		})
	}
}

func TestWhatCannotBeResolved(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, registry *fakeRegistry)
		want  any
		text  string
	}{
		"no such version": {
			func(t *testing.T, r *fakeRegistry) {
				r.set(func() { delete(r.content, "/v2/karpenter/karpenter-crd/manifests/1.14.1") })
				r.push(t, CRDChart, "1.14.0", chartstest.CRDs(t, "1.14.0"))
			}, new(*NotFoundError), "chart karpenter-crd 1.14.1 is not in oci://…/karpenter; the nearest versions are 1.14.0",
		},
		"only one of the two": {
			func(_ *testing.T, r *fakeRegistry) {
				r.set(func() { delete(r.content, "/v2/karpenter/karpenter/manifests/1.14.1") })
			}, new(*NotFoundError), "chart karpenter 1.14.1 is not in",
		},
		"unauthorized": {
			func(_ *testing.T, r *fakeRegistry) { r.set(func() { r.fault = http.StatusUnauthorized }) },
			new(*AuthError), "refuses access without credentials",
		},
		"forbidden": {
			func(_ *testing.T, r *fakeRegistry) { r.set(func() { r.fault = http.StatusForbidden }) },
			new(*AuthError), "refuses access without credentials",
		},
		"an error of the registry": {
			func(_ *testing.T, r *fakeRegistry) { r.set(func() { r.fault = http.StatusBadGateway }) },
			new(*UnreachableError), "502",
		},
		"no registry": {
			func(_ *testing.T, r *fakeRegistry) { r.server.Close() },
			new(*UnreachableError), "connection refused",
		},
		"other content than its digest": {
			func(t *testing.T, r *fakeRegistry) {
				path := r.push(t, ControllerChart, "1.14.1", chartstest.Controller(t, "1.14.1"))
				r.set(func() { r.content[path] = bytes.Repeat([]byte("x"), len(r.content[path])) })
			}, new(*DigestError), "does not match its digest",
		},
		"another version inside": {
			func(t *testing.T, r *fakeRegistry) {
				r.push(t, ControllerChart, "1.14.1", chartstest.Controller(t, "1.13.0"))
			}, new(*MalformedError), "its Chart.yaml says version 1.13.0",
		},
		"another chart inside": {
			func(t *testing.T, r *fakeRegistry) { r.push(t, CRDChart, "1.14.1", chartstest.Controller(t, "1.14.1")) },
			new(*MalformedError), `its Chart.yaml names it "karpenter"`,
		},
		"no archive": {
			func(t *testing.T, r *fakeRegistry) { r.push(t, CRDChart, "1.14.1", []byte("nonsense")) },
			new(*MalformedError), "chart karpenter-crd 1.14.1 cannot be used",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := serve(t, "1.14.1")
			test.spoil(t, registry)
			dir := t.TempDir()
			ref := registry.ref("1.14.1")
			_, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), ref, Access{})
			if err == nil || !errors.As(err, test.want) {
				t.Fatalf("Resolve() = %v, want %T", err, test.want)
			}
			text := strings.ReplaceAll(err.Error(), ref.Repository, "oci://…/karpenter")
			if !strings.Contains(text, test.text) {
				t.Errorf("Resolve() = %q, want it to say %q", text, test.text)
			}
			if _, err := os.Stat(filepath.Join(dir, "versions")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a version that did not resolve was remembered: %v", err)
			}
		})
	}
}

// TestTheCacheIsBounded: versions come and go, and the folder stays small.
func TestTheCacheIsBounded(t *testing.T) {
	registry := newFakeRegistry(t)
	dir := t.TempDir()
	store := NewStore(StoreOptions{Dir: dir})
	long := time.Now().Add(-24 * time.Hour)
	resolve := func(version string) {
		t.Helper()
		registry.push(t, CRDChart, version, chartstest.CRDs(t, version))
		registry.push(t, ControllerChart, version, chartstest.Controller(t, version))
		if _, err := store.Resolve(t.Context(), registry.ref(version), Access{}); err != nil {
			t.Fatal(err)
		}
	}
	// Each is a minute older than the next, and all of them are old.
	age := func() {
		t.Helper()
		for _, name := range append(cached(t, dir, "versions", "*"), cached(t, dir, "sha256", "*")...) {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.ModTime().After(long.Add(time.Hour)) {
				long = long.Add(time.Minute)
				if err := os.Chtimes(name, long, long); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	versions := []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0", "1.8.0", "1.9.0"}
	for _, version := range versions {
		resolve(version)
		age()
	}
	half := filepath.Join(dir, "sha256", ".new-killed")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(half, long.Add(-2*time.Hour), long.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	young := filepath.Join(dir, "sha256", "young.tgz") // of a process that is about to reference it
	if err := os.WriteFile(young, []byte("young"), 0o600); err != nil {
		t.Fatal(err)
	}
	resolve("1.10.0")

	if n := len(cached(t, dir, "versions", "*.json")); n != maxVersions {
		t.Errorf("%d versions are kept, want %d", n, maxVersions)
	}
	if n := len(cached(t, dir, "sha256", "*.tgz")); n != 2*maxVersions+1 {
		t.Errorf("%d archives are kept, want those of %d versions and the young one", n, maxVersions)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a killed process left half written is kept")
	}
	asked := registry.asked()
	for _, version := range append(versions[3:], "1.10.0") {
		if _, err := store.Resolve(t.Context(), registry.ref(version), Access{}); err != nil {
			t.Errorf("a version that is kept: %v", err)
		}
	}
	if got := registry.asked(); got != asked {
		t.Errorf("versions that are kept cost %d requests", got-asked)
	}
	if _, err := store.Resolve(t.Context(), registry.ref("1.0.0"), Access{}); err != nil || registry.asked() == asked {
		t.Errorf("a version that was dropped is pulled again: %v", err)
	}
}

func cached(t *testing.T, dir, folder, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
