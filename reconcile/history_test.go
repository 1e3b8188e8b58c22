package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
)

// applied is a commit that was applied before.
const applied = "abcdefabcdefabcdefabcdefabcdefabcdefabcd"

func rendered(p *pass) { p.want.Set = &render.Set{Inputs: render.Inputs{"prod/pool.yaml": "1"}} }

// toldOn lists the commits that the newest verdict is reported on.
func (b *bed) toldOn() []string {
	var commits []string
	for _, lane := range b.ledger().Lanes {
		for _, e := range lane.Waiting {
			commits = append(commits, e.Commit)
		}
	}
	return commits
}

func TestCommitsThatARevisionBrought(t *testing.T) {
	others := []string{commit, strings.Repeat("1", 40)}
	cases := map[string]struct {
		applied string
		found   []found
		commits []string
		err     error
		want    []string
		asked   int
		event   string
	}{
		"those that changed an input": {applied, []found{rendered}, others, nil, others, 1, ""},
		"none":                        {applied, []found{rendered}, nil, nil, []string{commit}, 1, ""},
		"of the first revision":       {"", []found{rendered}, others, nil, []string{commit}, 0, ""},
		"of one that was applied":     {commit, []found{rendered}, others, nil, []string{commit}, 0, ""},
		"without any inputs":          {applied, nil, others, nil, []string{commit}, 0, ""},
		"by the last inputs": {applied, []found{func(p *pass) {
			p.memory.desired.Set = &render.Set{Inputs: render.Inputs{"prod/pool.yaml": "1"}}
		}, stopped(t, &render.EmptyError{})}, others, nil, others, 1, ""},
		"that cannot be known": {applied, []found{rendered}, nil, errors.New("it was rewritten"), []string{commit}, 1, "it was rewritten"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(func(n *v1alpha1.NodeSync) {
				if c.applied != "" {
					n.Status.LastAppliedRevision = "main@sha1:" + c.applied
				}
			}))
			b.source.commits, b.source.unknown = c.commits, c.err
			b.reports(b.read(), c.found...)
			if diff := cmp.Diff(c.want, b.toldOn()); diff != "" {
				t.Errorf("told on (-want +got):\n%s", diff)
			}
			if len(b.source.asked) != c.asked {
				t.Errorf("asked for %v", b.source.asked)
			}
			events := strings.Join(b.told(), "\n")
			if told := strings.Contains(events, "HistoryUnknown"); told != (c.event != "") || !strings.Contains(events, c.event) {
				t.Errorf("events %s", events)
			}
			b.reports(b.read(), c.found...)
			if len(b.source.asked) != c.asked {
				t.Errorf("asked again for a revision: %v", b.source.asked)
			}
		})
	}
}

// deafReports accept nothing.
type deafReports struct{ status.Reports }

func (deafReports) Record(context.Context, *v1alpha1.NodeSync, report.Update) error {
	return errUnreachable
}

// TestTheHistoryIsKeptUntilItIsSaid shows that the history is kept until it is reported: by then the revision may be
// the applied one.
func TestTheHistoryIsKeptUntilItIsSaid(t *testing.T) {
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:" + applied }))
	b.source.commits = []string{commit, strings.Repeat("1", 40)}
	reports := b.Reports
	b.Reports = deafReports{Reports: reports}
	b.reports(b.read(), rendered)
	b.Reports = reports
	sync := b.read()
	sync.Status.LastAppliedRevision = "main@sha1:" + commit
	b.reports(sync, rendered)
	if diff := cmp.Diff(b.source.commits, b.toldOn()); diff != "" {
		t.Errorf("told on (-want +got):\n%s", diff)
	}
}

// TestTheStatusDoesNotWaitForTheHistory shows that the status is saved before the Git host is queried, and that the
// commits are reported on in the same reconcile.
func TestTheStatusDoesNotWaitForTheHistory(t *testing.T) {
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:" + applied }))
	b.source.commits = []string{commit, strings.Repeat("1", 40)}
	saved := ""
	b.source.before = func() { saved = conditions.GetReason(b.read(), meta.ReadyCondition) }
	p := b.pass()
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	rendered(p)
	if again := b.concluded(p); again > time.Second {
		t.Errorf("what was told is shown in the status in %s", again)
	}
	if saved != v1alpha1.ReasonSucceeded {
		t.Errorf("when the host was asked, Ready was %q", saved)
	}
	if diff := cmp.Diff(b.source.commits, b.toldOn()); diff != "" {
		t.Errorf("told on (-want +got):\n%s", diff)
	}
}
