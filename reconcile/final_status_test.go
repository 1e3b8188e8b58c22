package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/status"
)

// deletedWhilePending returns a NodeSync that was deleted while its commit was pending, which was applied or was not.
func deletedWhilePending(t *testing.T, onDelete v1alpha1.OnDelete, applied bool) *bed {
	t.Helper()
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) { n.Spec.OnDelete = onDelete }))
	b.reports(b.read(), waits, func(p *pass) {
		if applied {
			p.sync.Status.LastAppliedRevision = "main@sha1:" + commit
		}
	})
	if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "pending") {
		t.Fatalf("queued: %v", got)
	}
	if err := b.client.Delete(t.Context(), b.read()); err != nil {
		t.Fatal(err)
	}
	return b
}

// untilGone runs reconciles until the NodeSync is gone, and returns how long it stayed.
func (b *bed) untilGone() time.Duration {
	b.t.Helper()
	began := b.clock.at
	for range 200 {
		result := b.reconcile()
		if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: "prod"}, &v1alpha1.NodeSync{}); apierrors.IsNotFound(err) {
			return b.clock.at.Sub(began)
		}
		if result.RequeueAfter <= 0 {
			b.t.Fatal("nothing wakes the next pass")
		}
		b.clock.forward(result.RequeueAfter)
	}
	b.t.Fatal("the NodeSync stays")
	return 0
}

// TestTheLastWordIsPosted shows that the final status is sent before the finalizer is removed, is no success if the commit
// was not applied, and that an unavailable host keeps the NodeSync no longer than allowed.
func TestTheLastWordIsPosted(t *testing.T) {
	const keeps, none = "its objects are no longer managed; their nodes keep running", "none of its nodes is left"
	for name, c := range map[string]struct {
		onDelete v1alpha1.OnDelete
		applied  bool
		want     string
	}{
		"orphaned":                  {v1alpha1.OnDeleteOrphan, true, "success: NodeSync deleted; " + keeps},
		"drained":                   {v1alpha1.OnDeleteDrain, true, "success: NodeSync deleted; " + none},
		"orphaned, and not applied": {v1alpha1.OnDeleteOrphan, false, "failure: NodeSync deleted before all of this commit was applied; " + keeps},
		"drained, and not applied":  {v1alpha1.OnDeleteDrain, false, "failure: NodeSync deleted before all of this commit was applied; " + none},
	} {
		t.Run(name, func(t *testing.T) {
			b, want := deletedWhilePending(t, c.onDelete, c.applied), c.want
			for range 5 {
				b.reconcile()
			}
			if got := b.queued(); len(got) != 1 || !strings.HasSuffix(got[0], want) {
				t.Errorf("queued: %v, want %s", got, want)
			}
			if len(b.read().Finalizers) == 0 {
				t.Error("the NodeSync is let go before the host has it")
			}
			for _, e := range b.told() {
				if strings.Contains(e, "Deleted") {
					t.Errorf("told before it is so: %s", e)
				}
			}
			if took := b.untilGone(); took > report.FinalStatusPatience+time.Second {
				t.Errorf("a host that is away keeps the NodeSync for %s", took)
			}
			if got := strings.Join(b.told(), "\n"); !strings.Contains(got, "Deleted") {
				t.Errorf("told: %s", got)
			}
		})
	}
}

// TestALastWordThatCannotBeQueued shows that such a status does not block the deletion, and is reported by an event.
func TestALastWordThatCannotBeQueued(t *testing.T) {
	b := deletedWhilePending(t, v1alpha1.OnDeleteOrphan, true)
	b.Reports = unqueued{b.Reports}
	if took := b.untilGone(); took > time.Second {
		t.Errorf("it keeps the NodeSync for %s", took)
	}
	if got := strings.Join(b.told(), "\n"); !strings.Contains(got, "ReportFailed the last commit status: the namespace is being deleted") {
		t.Errorf("told: %s", got)
	}
}

// unqueued accepts no final status.
type unqueued struct{ status.Reports }

func (unqueued) PostFinalStatus(context.Context, *v1alpha1.NodeSync, report.FinalStatus) (bool, error) {
	return false, errors.New("the namespace is being deleted")
}
