package charts

import (
	"errors"
	"os"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// otherController returns a main chart of the same version with other content.
func otherController(t *testing.T, version string) []byte {
	t.Helper()
	return chartstest.Archive(t, ControllerChart, version, map[string]string{"other.yaml": "kind: Other\n"})
}

// TestAMovedTagIsNotInstalled: an empty cache pulls the charts that are in force, even if their tag has moved.
func TestAMovedTagIsNotInstalled(t *testing.T) {
	registry := serve(t, "1.14.1")
	ref := registry.ref("1.14.1")
	before, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{})
	if err != nil {
		t.Fatal(err)
	}
	installed := "/v2/karpenter/karpenter/manifests/" + before.Digest
	registry.push(t, ControllerChart, "1.14.1", otherController(t, "1.14.1"))
	moved, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{})
	if err != nil || moved.Digest == before.Digest {
		t.Fatalf("the tag has not moved: %v", err)
	}

	ref.InForce = Digests{CRD: before.CRDDigest, Controller: before.Digest}
	dir := t.TempDir()
	after, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), ref, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if after.Digest != before.Digest || after.CRDDigest != before.CRDDigest || after.Repository != ref.Repository {
		t.Errorf("resolved %s and %s from %q, want %s and %s", after.CRDDigest, after.Digest, after.Repository, before.CRDDigest, before.Digest)
	}

	// A commit that pins another digest requests it.
	pinned := ref
	pinned.Digests.Controller = moved.Digest
	if got, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), pinned, Access{}); err != nil || got.Digest != moved.Digest {
		t.Errorf("the digest that Git pins is not resolved: %v", err)
	}
	// A pin of what is in force changes nothing.
	pinned.Digests.Controller = before.Digest
	if got, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), pinned, Access{}); err != nil || got.Digest != before.Digest {
		t.Errorf("the pin of the chart in force is not resolved: %v", err)
	}

	// A registry that has dropped the chart in force has nothing to install.
	var held *MovedError
	registry.set(func() { delete(registry.content, installed) })
	if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{}); !errors.As(err, &held) || held.Found != moved.Digest || held.InForce != before.Digest {
		t.Errorf("Resolve() = %v, want a MovedError from %s to %s", err, before.Digest, moved.Digest)
	}
	registry.set(func() { delete(registry.content, "/v2/karpenter/karpenter/manifests/1.14.1") })
	if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{}); !errors.As(err, &held) || held.Found != "" {
		t.Errorf("Resolve() = %v, want a MovedError that names no other digest", err)
	}
	if _, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), ref, Access{}); err != nil {
		t.Errorf("the cache has it: %v", err)
	}
}

// TestAMovedArchiveIsNotInstalled: a Helm repository cannot find archives by digest.
func TestAMovedArchiveIsNotInstalled(t *testing.T) {
	repository := newFakeHelmRepository(t)
	publish := func(controller []byte) {
		crd := chartstest.CRDs(t, "1.14.1")
		repository.mu.Lock()
		defer repository.mu.Unlock()
		repository.files["/index.yaml"] = listed("1.14.1", "", crd, controller)
		repository.files["/"+archiveName(CRDChart, "1.14.1")] = crd
		repository.files["/"+archiveName(ControllerChart, "1.14.1")] = controller
	}
	publish(chartstest.Controller(t, "1.14.1"))
	ref := Ref{Repository: repository.server.URL, Version: "1.14.1"}
	before, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{})
	if err != nil {
		t.Fatal(err)
	}
	publish(otherController(t, "1.14.1"))
	ref.InForce = Digests{CRD: before.CRDDigest, Controller: before.Digest}
	var held *MovedError
	if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{}); !errors.As(err, &held) || held.Chart != ControllerChart || held.InForce != before.Digest {
		t.Errorf("Resolve() = %v, want a MovedError", err)
	}
}

// TestTheChartInForceIsNotPruned: other versions do not evict it, not even after a restart.
func TestTheChartInForceIsNotPruned(t *testing.T) {
	registry, dir := newFakeRegistry(t), t.TempDir()
	resolve := func(store *Store, version string, inForce Digests) *Charts {
		t.Helper()
		registry.push(t, CRDChart, version, chartstest.CRDs(t, version))
		registry.push(t, ControllerChart, version, chartstest.Controller(t, version))
		ref := registry.ref(version)
		ref.InForce = inForce
		found, err := store.Resolve(t.Context(), ref, Access{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	store := NewStore(StoreOptions{Dir: dir})
	first := resolve(store, "1.0.0", Digests{})
	inForce := Digests{CRD: first.CRDDigest, Controller: first.Digest}
	others := []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0", "1.8.0", "1.9.0"}
	for n, store := range []*Store{store, NewStore(StoreOptions{Dir: dir})} {
		resolve(store, "1.0.0", inForce)
		for _, version := range others {
			resolve(store, version, Digests{})
		}
		ref := registry.ref("1.0.0")
		ref.InForce = inForce
		if _, err := os.Stat(store.memos.path(ref)); err != nil {
			t.Errorf("process %d has pruned the version in force: %v", n, err)
		}
		if n := len(cached(t, dir, "versions", "*.json")); n != maxVersions+1 {
			t.Errorf("%d versions are kept, want %d and the one in force", n, maxVersions)
		}
	}
}
