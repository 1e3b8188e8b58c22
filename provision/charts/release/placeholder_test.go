package release

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
)

// TestTheClustersAPIsAreInOrder: Helm lists them in any order. A chart that was too much
// for a child process is known again by the whole question, which has them in it.
func TestTheClustersAPIsAreInOrder(t *testing.T) {
	helm, err := newHelm(newFakeAPIServer(t).config(), "kube-system", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := helm.capabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(cluster.APIs) < 7 || !slices.IsSorted(cluster.APIs) {
		t.Errorf("the cluster's APIs are %q, want them all, in order", cluster.APIs)
	}
}
