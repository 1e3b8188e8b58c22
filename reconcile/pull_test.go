package reconcile

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/render"
)

// TestChartsAreAskedForAsGitSays shows with which repository, version and checkout the charts are pulled.
func TestChartsAreAskedForAsGitSays(t *testing.T) {
	b := newBed(t, nodeSync(unchanged)) // its path is ./prod
	p := b.installing()
	p.snapshot = &render.Snapshot{Revision: "main@sha1:1", FS: fstest.MapFS{"charts/karpenter-1.14.1.tgz": {Data: []byte("x")}}}
	p.want.Files = render.NewFiles(*p.snapshot)
	p.want.Karpenter.Repository = "../charts"
	p.want.Karpenter.Digests = render.Digests{CRD: "sha256:c", Controller: "sha256:d"}
	if _, err := p.desiredStep().Pull(t.Context()); err == nil {
		t.Fatal("no error")
	}
	want := charts.Ref{Repository: "charts", Version: "1.14.1", Digests: charts.Digests{CRD: "sha256:c", Controller: "sha256:d"}}
	if diff := cmp.Diff([]charts.Ref{want}, b.charts.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := b.charts.with.Files.Open("charts/karpenter-1.14.1.tgz"); err != nil {
		t.Errorf("the checkout is not at hand: %v", err)
	}

	// A new commit may have what the last one did not.
	again := b.installing()
	again.want.Karpenter, again.snapshot = p.want.Karpenter, p.snapshot
	if _, err := again.desiredStep().Pull(t.Context()); err == nil || len(b.charts.asked) != 1 {
		t.Errorf("the same commit was looked at %d times, %v", len(b.charts.asked), err)
	}
	newer := b.installing()
	newer.want.Karpenter, newer.snapshot = p.want.Karpenter, &render.Snapshot{Revision: "main@sha1:2", FS: p.snapshot.FS}
	if _, err := newer.desiredStep().Pull(t.Context()); err == nil || len(b.charts.asked) != 2 {
		t.Errorf("after a new commit: looked %d times, %v", len(b.charts.asked), err)
	}
}
