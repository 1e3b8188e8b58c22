package reconcile

import (
	"slices"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAReportOnACommitThatIsReverted shows the report on a commit that waited for a window and was reverted to the
// applied files; a refused commit in between settles nothing.
func TestAReportOnACommitThatIsReverted(t *testing.T) {
	const window, broken, revert = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222", "3333333333333333333333333333333333333333"
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) {
		n.Status.LastAppliedRevision, n.Status.LastAppliedInputs = "main@sha1:"+commit, "1"
	}))
	on := func(commit, inputs string, found func(*pass)) {
		t.Helper()
		b.reports(b.read(), func(p *pass) {
			p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
			if p.sync.Status.LastAttemptedRevision = p.snapshot.Revision; inputs != "" {
				p.want.Set = &render.Set{Sum: inputs}
			}
			found(p)
		})
	}
	on(window, "2", waits)
	on(broken, "", stopped(t, &render.EmptyError{Path: "./prod"}))
	pending := b.queued()
	on(revert, "1", func(p *pass) { p.sync.Status.LastAppliedRevision = p.snapshot.Revision })
	want := "gitea https://git.example.com/acme/fleet.git plumbline/prod-eu/prod failure: reverted by 3333333: it was not complete"
	if got := b.queued(); slices.Contains(pending, want) || !slices.Contains(got, want) {
		t.Errorf("queued %q, then %q", pending, got)
	}
}
