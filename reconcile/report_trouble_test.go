package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/status"
)

// fakeReports returns what a test sets for hosts.
type fakeReports struct {
	status.Reports
	list []v1alpha1.Reported
	said []report.Update
	fail error
}

func (f *fakeReports) Reported(*v1alpha1.NodeSync) ([]v1alpha1.Reported, bool) { return f.list, true }

func (f *fakeReports) Record(_ context.Context, _ *v1alpha1.NodeSync, s report.Update) error {
	f.said = append(f.said, s)
	return f.fail
}

// TestTroubleIsToldOnce shows that a failure is reported by one event, and in the status while it lasts.
func TestTroubleIsToldOnce(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	f := &fakeReports{Reports: b.Reports, list: []v1alpha1.Reported{{Provider: "gitea", Context: "x", Commit: commit, State: "success"}}}
	b.Reports = f
	events := func() (n int) {
		b.concluded(b.pass())
		for _, event := range b.told() {
			if strings.Contains(event, "Warning ReportFailed no token") {
				n++
			}
		}
		return n
	}
	if n := events(); n != 0 {
		t.Errorf("told %d times without trouble", n)
	}
	f.list[0].Failure = "no token"
	if n := events(); n != 1 || b.read().Status.Reported[0].Failure != "no token" {
		t.Errorf("told %d times, status %+v", n, b.read().Status.Reported)
	}
	if n := events(); n != 0 {
		t.Errorf("told again %d times", n)
	}
	f.list = []v1alpha1.Reported{{Provider: "gitea", Context: "x", Commit: commit, State: "success"}}
	if n := events(); n != 0 || b.read().Status.Reported[0].Failure != "" {
		t.Errorf("it is over: told %d times, status %+v", n, b.read().Status.Reported)
	}
}

// TestAReconcileRequestTriesStatuses shows that a requested reconcile retries them at once.
func TestAReconcileRequestTriesStatuses(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	f := &fakeReports{Reports: b.Reports}
	b.Reports = f
	b.reports(b.read())
	b.reports(b.read(), func(p *pass) { p.sync.Status.SetLastHandledReconcileRequest("now") })
	if len(f.said) != 2 || f.said[0].Retry || !f.said[1].Retry {
		t.Errorf("said %+v", f.said)
	}
}

// TestAQueueThatIsStuckIsInTheStatus shows that status and metrics report it while it lasts, with what to do; an event
// reports it once.
func TestAQueueThatIsStuckIsInTheStatus(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	f := &fakeReports{Reports: b.Reports}
	b.Reports = f
	passes := func() (n int) {
		b.reports(b.read())
		for _, event := range b.told() {
			if strings.Contains(event, "is immutable") {
				n++
			}
		}
		return n
	}
	f.fail = fmt.Errorf("say: %w", &configmap.StuckError{Name: types.NamespacedName{Namespace: "plumbline-system", Name: "x"}, Holds: "the queue", Why: "is immutable: delete it"})
	if n := passes(); n != 1 {
		t.Errorf("told %d times", n)
	}
	reported := b.read().Status.Reported
	if len(reported) != 1 || reported[0].Provider != "gitea" || reported[0].Failure != "commit statuses are not posted: ConfigMap plumbline-system/x (the queue) is immutable: delete it" {
		t.Fatalf("status %+v", reported)
	}
	f.list = reported
	if n := passes(); n != 0 || b.read().Status.Reported[0].Failure == "" {
		t.Errorf("told again %d times, status %+v", n, b.read().Status.Reported)
	}
	f.fail, f.list = nil, []v1alpha1.Reported{{Provider: "gitea", Context: "x", Commit: commit, State: "success"}}
	if n := passes(); n != 0 || b.read().Status.Reported[0].Failure != "" {
		t.Errorf("it is over: told %d times, status %+v", n, b.read().Status.Reported)
	}
}
