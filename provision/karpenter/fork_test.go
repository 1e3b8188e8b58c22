package karpenter

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestIsFork(t *testing.T) {
	for version, want := range map[string]bool{
		"1.14.0": false, "v1.14.0": false, "1.99.0": false, "1.14.0+acme.3": true, "1.14.1-acme.3": true,
		"1.14.0-rc.1": false, "1.15.0-rc1": false, "1.14.0-rc.1+acme.3": true, "1.14.0-rc.acme": true, "latest": false, "": false,
	} {
		if got := IsFork(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

// TestFork: what the tables contain about a release is unknown about its fork.
func TestFork(t *testing.T) {
	const fork = "1.14.0+acme.3"
	if knows, err := KubernetesOf(fork); err != nil || knows != (Kubernetes{}) {
		t.Errorf("kubernetes %s, %v", knows, err)
	}
	if err := CheckKubernetes("1.20", fork); err != nil {
		t.Errorf("refused: %v", err)
	}
	for name, way := range map[string][2]string{
		"to the fork": {"1.14.0", fork}, "from an older release": {"1.8.6", fork}, "to a later build": {fork, "1.14.0+acme.4"}, "back into a fork": {"1.14.1", fork},
	} {
		path, err := Path(way[0], way[1])
		if err != nil || len(path) != 1 || path[0].To != way[1] {
			t.Fatalf("%s: %v, %v", name, path, err)
		}
		if hop := path[0]; hop.Kubernetes != (Kubernetes{}) || len(hop.Hashes) > 0 || !strings.Contains(strings.Join(hop.Notes, "\n"), way[1]+" is not a release of upstream: ") {
			t.Errorf("%s: %+v", name, hop)
		}
	}
	path, err := Path(fork, "1.14.0")
	if err != nil || len(path) != 1 || path[0].Kubernetes == (Kubernetes{}) || len(path[0].Notes) != 1 ||
		!strings.HasPrefix(path[0].Notes[0], fork+" is not a release of upstream: what it hashes") {
		t.Errorf("back to the release: %+v, %v", path, err)
	}
	for _, way := range [][2]string{{"1.14.0", fork}, {fork, "1.14.1"}} {
		got, err := Effects(Upgrade{
			From: way[0], To: way[1], Old: crds(t, "1.14.1"), New: crds(t, "1.14.1"),
			Classes: []*unstructured.Unstructured{class(t, "a", "{amiSelectorTerms: [{alias: al2023@v1}]}")},
			Pools:   []*unstructured.Unstructured{pool(t, "workers", "a", "")},
		})
		if err != nil || len(got) != 1 || got[0].String() != "unknown: 1.14.0+acme.3 is not a release of upstream, and what it hashes is unknown" {
			t.Errorf("%v: %v, %v", way, got, err)
		}
	}
}
