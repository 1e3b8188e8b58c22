package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
)

const commit = "0123456789012345678901234567890123456789"

// reporting returns a NodeSync that reports to a Gitea.
func reporting(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	return nodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Report = []v1alpha1.Report{{Provider: "gitea", SecretRef: v1alpha1.LocalReference{Name: "token"}}}
		change(n)
	})
}

// reports runs a reconcile that has fetched the commit, and concludes it.
func (b *bed) reports(sync *v1alpha1.NodeSync, f ...found) *pass {
	p := b.begin(sync)
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	p.want.Karpenter = &render.Karpenter{Cluster: render.Cluster{Name: "prod-eu"}}
	for _, f := range f {
		f(p)
	}
	if _, err := p.conclude(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// ledger returns the queue in the cluster.
func (b *bed) ledger() report.Ledger {
	b.t.Helper()
	var l report.Ledger
	object := &corev1.ConfigMap{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: report.SubjectWhole.ObjectName("prod")}, object)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	if err == nil {
		if err := json.Unmarshal([]byte(object.Data["ledger.json"]), &l); err != nil {
			b.t.Fatal(err)
		}
	}
	return l
}

// queued lists what waits for each host.
func (b *bed) queued() []string {
	b.t.Helper()
	var list []string
	for _, lane := range b.ledger().Lanes {
		for _, e := range lane.Waiting {
			list = append(list, fmt.Sprintf("%s %s %s %s: %s", lane.Provider, lane.URL, lane.Context, e.State, e.Description))
		}
	}
	return list
}

func waits(p *pass) { p.Wait("CRDs", "not there yet") }

func TestReportSaysTheVerdict(t *testing.T) {
	cases := map[string]struct {
		found []found
		state report.State
		text  string
		// applied is the state in the context for applied.
		applied report.State
	}{
		"done":    {nil, report.Success, "applied, Ready, no removal open, each node matches", ""},
		"at work": {[]found{waits}, report.Pending, "waiting for CRDs: not there yet", report.Pending},
		"failed":  {[]found{stopped(t, &render.EmptyError{Path: "./prod"})}, report.Failure, `path "./prod" holds no NodePool`, report.Failure},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			p := b.reports(b.read(), c.found...)
			l := b.ledger()
			if len(l.Lanes) != 1 || len(l.Lanes[0].Waiting) != 1 {
				t.Fatalf("queued %+v", l)
			}
			lane, e := l.Lanes[0], l.Lanes[0].Waiting[0]
			if e.State != c.state || !strings.HasPrefix(e.Description, c.text) || e.Commit != commit {
				t.Errorf("%s %s %q", e.Commit, e.State, e.Description)
			}
			want := report.Host{Provider: "gitea", URL: "https://git.example.com/acme/fleet.git", Secret: "token"}
			if lane.Host != want || lane.Context != "plumbline/prod-eu/prod" {
				t.Errorf("to %+v as %s", lane.Host, lane.Context)
			}
			if page := "https://git.example.com/acme/fleet/src/commit/" + commit + "/prod"; e.TargetURL != page {
				t.Errorf("it links to %s, want %s", e.TargetURL, page)
			}
			told := v1alpha1.Reported{
				Provider: "gitea", URL: lane.URL, Context: lane.Context, Commit: commit, State: string(e.State), Description: e.Description,
			}
			list := []v1alpha1.Reported{told}
			if c.applied != "" { // a reconcile that did not get that far reports nothing
				told.Context += "/applied"
				told.State = string(c.applied)
				list = append(list, told)
			}
			if diff := cmp.Diff(list, p.sync.Status.Reported); diff != "" {
				t.Errorf("the status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportIsSaidOnce(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	first := b.reports(b.read(), waits)
	version := b.ledgerVersion()
	b.reports(first.sync.DeepCopy(), waits)
	stale := b.reports(b.read(), waits)
	if got := b.ledgerVersion(); got != version {
		t.Error("nothing is new, and it is written")
	}
	if diff := cmp.Diff(first.sync.Status.Reported, stale.sync.Status.Reported); diff != "" {
		t.Errorf("a stale pass notes another thing:\n%s", diff)
	}
	b.reports(first.sync.DeepCopy())
	if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "success") {
		t.Errorf("the next verdict: %v", got)
	}
}

func (b *bed) ledgerVersion() string {
	b.t.Helper()
	object := &corev1.ConfigMap{}
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: report.SubjectWhole.ObjectName("prod")}, object); err != nil {
		b.t.Fatal(err)
	}
	return object.ResourceVersion
}

// TestReportThatCannotBeQueued shows that this fails no reconcile: an event reports it, and it is retried.
func TestReportThatCannotBeQueued(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	inTheWay := &corev1.ConfigMap{}
	inTheWay.Namespace, inTheWay.Name = namespace, report.SubjectWhole.ObjectName("prod")
	if err := b.client.Create(t.Context(), inTheWay); err != nil {
		t.Fatal(err)
	}
	p := b.pass()
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	if again := b.concluded(p); again != p.sync.GetRetryInterval() {
		t.Errorf("again in %s, want %s", again, p.sync.GetRetryInterval())
	}
	if p.Fault != nil || p.verdict().Class != status.Done {
		t.Errorf("a report that fails makes the verdict %v", p.verdict())
	}
	if got := b.told(); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "ReportFailed") && strings.Contains(e, "in the way") }) {
		t.Errorf("events %q", got)
	}
}

func TestReportToEachHost(t *testing.T) {
	b := newBed(t, reporting(func(n *v1alpha1.NodeSync) {
		n.Spec.Source.Git.URL = "https://user:s3cret@git.example.com/acme/fleet.git"
		n.Spec.Report = append(n.Spec.Report,
			v1alpha1.Report{Provider: "gitea", URL: "https://mirror.example.com/acme/fleet", SecretRef: v1alpha1.LocalReference{Name: "token"}, TargetURL: "https://grafana.example.com"},
			v1alpha1.Report{Provider: "github", URL: "https://github.com/acme/fleet", SecretRef: v1alpha1.LocalReference{Name: "token"}})
	}))
	b.reports(b.read(), waits)
	said := " plumbline/prod-eu/prod pending: waiting for CRDs: not there yet"
	want := []string{
		"gitea https://git.example.com/acme/fleet.git" + said,
		"gitea https://mirror.example.com/acme/fleet" + said,
		"github https://github.com/acme/fleet" + said,
	}
	if diff := cmp.Diff(want, b.queued()); diff != "" {
		t.Error(diff)
	}
	lanes := b.ledger().Lanes
	if got := lanes[1].Waiting[0].TargetURL; got != "https://grafana.example.com" {
		t.Errorf("the mirror's links to %s", got)
	}
	if got := lanes[2].Waiting[0].TargetURL; got != "https://github.com/acme/fleet/tree/"+commit+"/prod" {
		t.Errorf("GitHub's links to %s", got)
	}
}

func TestNothingIsReported(t *testing.T) {
	for name, f := range map[string]found{
		"without a commit":  func(p *pass) { p.snapshot.Commit = "" },
		"without a fetch":   func(p *pass) { p.snapshot = nil },
		"suspended":         func(p *pass) { p.Suspended = true },
		"elsewhere":         func(p *pass) { p.Elsewhere = true },
		"an old snapshot":   func(p *pass) { p.Unfetched = &source.UnreachableError{Err: errUnreachable} },
		"without a report":  func(p *pass) { p.sync.Spec.Report = nil },
		"a busy API server": stopped(t, fmt.Errorf("install: %w", apierrors.NewTooManyRequests("later", 1))),
		"a busy API server, for one object": unwritten(errors.Join(
			fmt.Errorf("apply NodePool/a: %w", apierrors.NewTooManyRequests("later", 1)), fmt.Errorf("apply NodePool/b: %w", apierrors.NewServiceUnavailable("starting")))),
		"an API server that is away": unwritten(fmt.Errorf("apply NodePool/a: %w", refusedConnection())),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			b.reports(b.read(), f)
			if got := b.queued(); len(got) > 0 {
				t.Errorf("queued %v", got)
			}
		})
	}
}

// TestWhatIsFoundWhileGitIsAway shows that problems are reported on the last commit if the reconcile gets that far; a
// success is not, as there may be a newer commit.
func TestWhatIsFoundWhileGitIsAway(t *testing.T) {
	looked := func(p *pass) {
		p.Unfetched, p.SawRollout, p.Drifts = &source.UnreachableError{Err: errUnreachable}, true, []status.Drift{}
	}
	rolls := func(p *pass) { p.Rollout = &v1alpha1.Rollout{Nodes: 2, Outdated: 1, Reasons: []string{"AMIDrift"}} }
	const done, rolling = " plumbline/prod-eu/prod success: applied, Ready, no removal open, each node matches", " plumbline/prod-eu/prod pending: rolling out: 1 of 2 nodes replaced (AMIDrift, not caused by a commit)"
	for name, c := range map[string]struct {
		found []found
		want  string
		drift report.State
	}{
		"nodes drift":            {[]found{looked, rolls}, rolling, report.Failure},
		"all is well":            {[]found{looked}, done, report.Success},
		"it has not come so far": {[]found{rolls, func(p *pass) { p.Unfetched = &source.UnreachableError{Err: errUnreachable} }}, done, ""},
		"another commit":         {[]found{looked, rolls, func(p *pass) { p.snapshot.Commit = strings.Repeat("9", 40) }}, done, ""},
		"the API server, too":    {[]found{looked, rolls, unwritten(fmt.Errorf("apply: %w", refusedConnection()))}, done, ""},
		"it is refused":          {[]found{looked, rolls, stopped(t, fmt.Errorf("apply: %w", refusedConnection()))}, done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged))
			p := b.reports(b.read())
			p = b.reports(p.sync.DeepCopy(), c.found...)
			if diff := cmp.Diff([]string{"gitea https://git.example.com/acme/fleet.git" + c.want}, b.queued()); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
			drift := report.State("")
			for _, r := range p.sync.Status.Reported {
				if strings.HasSuffix(r.Context, "/drift") {
					drift = report.State(r.State)
				}
			}
			if drift != c.drift {
				t.Errorf("drift is %q, want %q", drift, c.drift)
			}
		})
	}
}

// refusedConnection is client-go's error for an API server that is down.
func refusedConnection() error {
	return &url.Error{Op: "Patch", URL: "https://10.0.0.1/", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
}

// TestABrokenCommitIsToldOfByABusyAPIServer shows that an error of the commit is reported even if the API server is
// busy.
func TestABrokenCommitIsToldOfByABusyAPIServer(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	b.reports(b.read(), unwritten(errors.Join(apierrors.NewTooManyRequests("later", 1), &plan.RefusedError{})))
	if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], " failure: ") {
		t.Errorf("queued %v", got)
	}
}

// TestTheClusterIsNotKnownYet shows that a commit without a plumbline.yaml is reported on, and corrected if the same
// commit becomes valid.
func TestTheClusterIsNotKnownYet(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	p := b.reports(b.read(), func(p *pass) { p.want.Karpenter = nil }, stopped(t, &render.EmptyError{Path: "./prod"}))
	if got := b.queued(); len(got) != 1 || !strings.Contains(got[0], "plumbline/plumbline-system/prod failure") {
		t.Fatalf("queued %v", got)
	}
	b.reports(p.sync.DeepCopy())
	got := b.queued()
	if len(got) != 2 || !strings.Contains(got[0], "plumbline/plumbline-system/prod success") || !strings.Contains(got[1], "plumbline/prod-eu/prod success") {
		t.Errorf("queued %v", got)
	}
}
