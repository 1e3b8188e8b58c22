package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

const commit = "0123456789012345678901234567890123456789"

// reporting is a NodeSync that reports to a Gitea.
func reporting(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	return nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Report = []v1alpha1.Report{{Provider: "gitea", SecretRef: v1alpha1.LocalReference{Name: "token"}}}
		change(n)
	})
}

// reports runs a pass that has fetched the commit, and its report alone. It
// returns the pass and what it posted.
func (b *bed) reports(sync *v1alpha1.NodeSync, f ...found) (*pass, []post) {
	before := len(b.hosts.posted)
	p := b.begin(sync)
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	p.karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
	for _, f := range f {
		f(p)
	}
	p.summarize()
	p.report(b.t.Context())
	return p, b.hosts.posted[before:]
}

func waits(p *pass) { p.waitFor("CRDs", "not there yet") }

func TestReportSaysTheVerdict(t *testing.T) {
	cases := map[string]struct {
		found []found
		state report.State
		text  string
	}{
		"done":    {nil, report.Success, "applied, Ready, no removal open; node rollouts are not tracked yet"},
		"at work": {[]found{waits}, report.Pending, "waiting for CRDs: not there yet"},
		"failed":  {[]found{stopped(t, &render.EmptyError{Path: "./prod"})}, report.Failure, `path "./prod" holds no NodePool`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			_, posted := b.reports(b.read(), c.found...)
			if len(posted) != 1 {
				t.Fatalf("posted %v", posted)
			}
			got := posted[0]
			if got.status.State != c.state || !strings.HasPrefix(got.status.Description, c.text) {
				t.Errorf("%s %q", got.status.State, got.status.Description)
			}
			if got.status.Commit != commit || got.status.Context != "plumbline/prod-eu/prod" || got.repository != "https://git.example.com/acme/fleet.git" || b.hosts.token != "s3cret" {
				t.Errorf("%+v with token %q", got, b.hosts.token)
			}
		})
	}
}

func TestReportIsPostedOnce(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	first, posted := b.reports(b.read(), waits)
	if len(posted) != 1 {
		t.Fatalf("posted %v", posted)
	}
	if _, again := b.reports(first.sync.DeepCopy(), waits); len(again) > 0 {
		t.Errorf("posted again: %v", again)
	}
	stale, again := b.reports(b.read(), waits)
	if len(again) > 0 {
		t.Errorf("posted again on a status that does not know of it yet: %v", again)
	}
	if diff := cmp.Diff(first.sync.Status.Reported, stale.sync.Status.Reported); diff != "" {
		t.Errorf("a stale pass notes another thing:\n%s", diff)
	}
	restarted := newBed(t, reporting(unchanged))
	if _, again := restarted.reports(first.sync.DeepCopy(), waits); len(again) > 0 {
		t.Errorf("posted again after a restart: %v", again)
	}
	if _, next := b.reports(first.sync.DeepCopy()); len(next) != 1 {
		t.Errorf("the next verdict is posted %d times", len(next))
	}
}

// TestReportOfAStaleStatus: what this process has posted counts, not a status
// in the cache that is one verdict behind.
func TestReportOfAStaleStatus(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	pending, _ := b.reports(b.read(), waits)
	b.reports(pending.sync.DeepCopy())
	if _, posted := b.reports(pending.sync.DeepCopy(), waits); len(posted) != 1 {
		t.Errorf("pending, success, and pending again is posted %d times", len(posted))
	}
}

func TestReportIsTriedAgain(t *testing.T) {
	cases := map[string]struct {
		err   error
		after time.Duration
	}{
		"an error":                {errors.New("no route"), time.Minute},
		"a host that sets a time": {&report.RateLimitedError{RetryAfter: 7 * time.Minute}, 7 * time.Minute},
		"a host that sets none":   {&report.RateLimitedError{}, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			b.hosts.err = c.err
			p, posted := b.reports(b.read())
			if len(posted) != 1 || len(p.sync.Status.Reported) > 0 {
				t.Fatalf("posted %v, noted %v", posted, p.sync.Status.Reported)
			}
			if p.fault != nil || p.verdict().class != done {
				t.Errorf("a report that fails makes the verdict %v", p.verdict())
			}
			if want := []note{{"Warning", "ReportFailed", "commit status on gitea: " + c.err.Error()}}; !cmp.Equal(want, p.notes, cmp.AllowUnexported(note{})) {
				t.Errorf("notes %v", p.notes)
			}
			if !p.again.Equal(b.clock.now().Add(c.after)) {
				t.Errorf("again in %s, want %s", p.again.Sub(b.clock.now()), c.after)
			}

			b.clock.forward(c.after - time.Second)
			p, posted = b.reports(b.read())
			if len(posted) > 0 || len(p.notes) > 0 || p.again.Sub(b.clock.now()) != time.Second {
				t.Errorf("before its time: posted %v, notes %v, again %s", posted, p.notes, p.again)
			}
			b.clock.forward(time.Second)
			b.hosts.err = nil
			if p, posted = b.reports(b.read()); len(posted) != 1 || len(p.sync.Status.Reported) != 1 {
				t.Errorf("at its time: posted %v, noted %v", posted, p.sync.Status.Reported)
			}
		})
	}
}

func TestReportToEachHost(t *testing.T) {
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) {
		n.Spec.Report = append(n.Spec.Report,
			v1alpha1.Report{Provider: "gitea", URL: "https://mirror.example.com/acme/fleet", SecretRef: v1alpha1.LocalReference{Name: "token"}},
			v1alpha1.Report{Provider: "github", URL: "https://github.com/acme/fleet", SecretRef: v1alpha1.LocalReference{Name: "token"}})
	}))
	p, posted := b.reports(b.read())
	var to []string
	for _, one := range posted {
		to = append(to, one.to+" "+one.repository)
	}
	want := []string{"gitea https://git.example.com/acme/fleet.git", "gitea https://mirror.example.com/acme/fleet", "github https://github.com/acme/fleet"}
	if diff := cmp.Diff(want, to); diff != "" {
		t.Error(diff)
	}
	if len(p.sync.Status.Reported) != 3 {
		t.Errorf("noted %v", p.sync.Status.Reported)
	}
	restarted := newBed(t, reporting(unchanged))
	if _, again := restarted.reports(p.sync.DeepCopy()); len(again) > 0 {
		t.Errorf("posted again after a restart: %v", again)
	}
}

func TestReportWithoutItsSecret(t *testing.T) {
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) { n.Spec.Report[0].SecretRef.Name = "absent" }))
	p, posted := b.reports(b.read())
	if len(posted) > 0 || p.verdict().class != done || len(p.notes) != 1 || !strings.Contains(p.notes[0].message, "absent") {
		t.Errorf("posted %v, verdict %v, notes %v", posted, p.verdict(), p.notes)
	}
}

func TestNothingIsReported(t *testing.T) {
	for name, f := range map[string]found{
		"without a commit": func(p *pass) { p.snapshot.Commit = "" },
		"without a fetch":  func(p *pass) { p.snapshot = nil },
		"suspended":        func(p *pass) { p.suspended = true },
		"elsewhere":        func(p *pass) { p.notWatched() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			if _, posted := b.reports(b.read(), f); len(posted) > 0 {
				t.Errorf("posted %v", posted)
			}
		})
	}
}

// TestPendingIsPostedNowAndThen: what it waits for may change faster than a host
// takes statuses. A verdict is never kept back.
func TestPendingIsPostedNowAndThen(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	waitsFor := func(on string) found { return func(p *pass) { p.waitFor(on, "not there yet") } }
	p, _ := b.reports(b.read(), waitsFor("CRDs"))
	p, posted := b.reports(p.sync.DeepCopy(), waitsFor("Controller"))
	if len(posted) > 0 || !p.again.Equal(b.clock.now().Add(pendingEvery)) {
		t.Errorf("posted %v, again in %s", posted, p.again.Sub(b.clock.now()))
	}
	b.clock.forward(pendingEvery)
	if p, posted = b.reports(p.sync.DeepCopy(), waitsFor("Controller")); len(posted) != 1 {
		t.Errorf("in its time: posted %v", posted)
	}
	if _, posted = b.reports(p.sync.DeepCopy()); len(posted) != 1 || posted[0].status.State != report.Success {
		t.Errorf("the verdict: posted %v", posted)
	}
}
