package charts

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

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
	// Each is a minute older than the next, and all of them are of long ago.
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
	young := filepath.Join(dir, "sha256", "young.tgz") // of a process that is about to name it
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
