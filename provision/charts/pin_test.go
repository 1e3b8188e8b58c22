package charts

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

func TestPins(t *testing.T) {
	registry := serve(t, "1.14.1")
	dir := t.TempDir()
	resolve := func(dir string, ref Ref) (*Charts, error) {
		return NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), ref, Access{})
	}
	ref := registry.ref("1.14.1")
	free, err := resolve(dir, ref)
	if err != nil {
		t.Fatal(err)
	}
	right := ref
	right.Digests = Digests{CRD: free.CRDDigest, Controller: free.Digest}
	if _, err := resolve(t.TempDir(), right); err != nil {
		t.Errorf("the right pins: %v", err)
	}

	none := "sha256:" + strings.Repeat("0", 64)
	for name, wrong := range map[string]struct {
		pins         Digests
		chart, found string
	}{
		"of the CRD chart":  {Digests{CRD: none}, CRDChart, free.CRDDigest},
		"of the main chart": {Digests{CRD: free.CRDDigest, Controller: none}, ControllerChart, free.Digest},
		"exchanged":         {Digests{CRD: free.Digest, Controller: free.CRDDigest}, CRDChart, free.CRDDigest},
	} {
		// Neither what is in the cache nor what the registry has is accepted for it.
		for _, cache := range []string{dir, t.TempDir()} {
			mistaken := ref
			mistaken.Digests = wrong.pins
			_, err := resolve(cache, mistaken)
			var refused *PinnedError
			if !errors.As(err, &refused) || refused.Chart != wrong.chart || refused.Found != wrong.found || refused.Pinned != string(wrong.pins.of(wrong.chart)) {
				t.Errorf("%s: %v", name, err)
			} else if !strings.Contains(err.Error(), refused.Found) || !strings.Contains(err.Error(), refused.Pinned) {
				t.Errorf("%s: %q names not both", name, err)
			}
		}
	}

	// Pinned charts in the cache need no request, not even from another repository.
	registry.server.Close()
	if _, err := resolve(dir, right); err != nil {
		t.Errorf("without a registry: %v", err)
	}
	moved := right
	moved.Repository = "oci://mirror.invalid/karpenter"
	got, err := resolve(dir, moved)
	if err != nil || got.Digest != free.Digest {
		t.Errorf("from a mirror that is not there: %v", err)
	}
	another := right
	another.Version = "1.14.2"
	var away *UnreachableError
	if _, err := resolve(dir, another); !errors.As(err, &away) {
		t.Errorf("another version with the old pins: %v, want the registry's error", err)
	}
}

// TestPinsOfAnotherVersion: the version was changed, but not the pins.
func TestPinsOfAnotherVersion(t *testing.T) {
	registry := serve(t, "1.14.1")
	store := NewStore(StoreOptions{Dir: t.TempDir()})
	old, err := store.Resolve(t.Context(), registry.ref("1.14.1"), Access{})
	if err != nil {
		t.Fatal(err)
	}
	registry.push(t, CRDChart, "1.14.2", chartstest.CRDs(t, "1.14.2"))
	registry.push(t, ControllerChart, "1.14.2", chartstest.Controller(t, "1.14.2"))
	ref := registry.ref("1.14.2")
	ref.Digests = Digests{CRD: old.CRDDigest, Controller: old.Digest}
	var refused *PinnedError
	if _, err := store.Resolve(t.Context(), ref, Access{}); !errors.As(err, &refused) || refused.Pinned != old.CRDDigest {
		t.Errorf("Resolve() = %v, want a PinnedError", err)
	}
}

// TestPinsOfFiles: those of a checkout are checked each time.
func TestPinsOfFiles(t *testing.T) {
	files := vendored(t, "1.14.1")
	store := NewStore(StoreOptions{Dir: t.TempDir()})
	ref := Ref{Repository: "prod/charts", Version: "1.14.1"}
	free, err := store.Resolve(t.Context(), ref, Access{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	ref.Digests = Digests{CRD: free.CRDDigest, Controller: free.Digest}
	if _, err := store.Resolve(t.Context(), ref, Access{Files: files}); err != nil {
		t.Errorf("the right pins: %v", err)
	}
	files["prod/charts/karpenter-1.14.1.tgz"].Data = chartstest.Archive(t, ControllerChart, "1.14.1", map[string]string{"other.yaml": "kind: Other\n"})
	var refused *PinnedError
	if _, err := store.Resolve(t.Context(), ref, Access{Files: files}); !errors.As(err, &refused) || refused.Chart != ControllerChart {
		t.Errorf("another archive: %v, want a PinnedError", err)
	}
}
