package rollout

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// at is a minute of the test.
func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
}

var (
	good = "main@sha1:" + strings.Repeat("1", 40)
	bad  = "main@sha1:" + strings.Repeat("2", 40)
	next = "main@sha1:" + strings.Repeat("3", 40)
)

// braked returns a pool that has been stopped since a minute of the test.
func braked(name string, minute int) v1alpha1.PoolRollout {
	since := at(minute)
	return v1alpha1.PoolRollout{
		Pool: name, Definition: "d", Reason: v1alpha1.BrakeFailedLaunches, Message: name + " fails", BrakedAt: &since, Revision: bad, From: good,
	}
}

func syncOf(change func(*v1alpha1.NodeSync)) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod.eu", Generation: 1}, Spec: v1alpha1.NodeSyncSpec{
		Path:    "./fleet",
		Source:  v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
		Report:  []v1alpha1.Report{{Provider: "generic", URL: "https://a.example.com"}, {Provider: "gitea", SecretRef: v1alpha1.LocalReference{Name: "host"}}},
		Rollout: v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutBrakeAndPropose},
	}}
	sync.Status.Rollout = &v1alpha1.Rollout{Revision: bad, From: good}
	if change != nil {
		change(sync)
	}
	return sync
}

// TestDue shows what is proposed, and why something is not.
func TestDue(t *testing.T) {
	changed := func(change func(*v1alpha1.PoolRollout)) v1alpha1.PoolRollout {
		e := braked("a", 3)
		change(&e)
		return e
	}
	none := func(e *v1alpha1.PoolRollout) { e.BrakedAt = nil }
	cases := map[string]struct {
		sync  func(*v1alpha1.NodeSync)
		pools []v1alpha1.PoolRollout
		// recorded are the pools in the status, if they differ.
		recorded []v1alpha1.PoolRollout
		want     []string
		none     string
	}{
		"stopped":                                         {pools: []v1alpha1.PoolRollout{braked("a", 3)}, want: []string{"1..2 a since 3: a fails"}},
		"two pools by one commit":                         {pools: []v1alpha1.PoolRollout{braked("a", 5), braked("b", 3)}, want: []string{"1..2 a,b since 3: b fails"}},
		"it is not recorded yet":                          {pools: []v1alpha1.PoolRollout{braked("a", 3)}, recorded: []v1alpha1.PoolRollout{changed(none)}},
		"another stop is recorded":                        {pools: []v1alpha1.PoolRollout{braked("a", 3)}, recorded: []v1alpha1.PoolRollout{braked("a", 2)}},
		"a condition holds it":                            {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Reason = v1alpha1.BrakeHeldByCondition })}},
		"its nodes drift by no commit, and it is stopped": {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Reason = v1alpha1.BrakeUnexpectedDrift })}},
		"resumed, or not too many":                        {pools: []v1alpha1.PoolRollout{changed(none)}},
		"only the brake is asked for":                     {sync: func(n *v1alpha1.NodeSync) { n.Spec.Rollout.OnFailure = v1alpha1.RolloutBrake }, pools: []v1alpha1.PoolRollout{braked("a", 3)}},
		"it is proposed already, and is looked at":        {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Proposal = &v1alpha1.RevertProposal{URL: "https://x"} })}, want: []string{"1..2 a since 3: a fails"}},
		"it was merged":                                   {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Proposal = &v1alpha1.RevertProposal{URL: "https://x", Merged: true} })}},
		"it was closed by a person":                       {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Proposal = &v1alpha1.RevertProposal{URL: "https://x", Closed: true} })}},
		"it has failed before":                            {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Proposal = &v1alpha1.RevertProposal{Message: "403"} })}, want: []string{"1..2 a since 3: a fails"}},
		"by no commit":                                    {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Revision = "" })}, none: "no commit made its nodes out of date, so there is none to revert"},
		"the first commit":                                {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.From = "" })}, none: "no revision is recorded before main@sha1:22222222: revert or correct it by hand"},
		"no host opens any":                               {sync: func(n *v1alpha1.NodeSync) { n.Spec.Report = n.Spec.Report[:1] }, pools: []v1alpha1.PoolRollout{braked("a", 3)}, none: "revert main@sha1:22222222 by hand: spec.report of this NodeSync names no host where plumbline can open pull requests (GitHub, GitLab, Gitea, Forgejo)"},
		"no branch is followed":                           {sync: func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.Ref.Tag = "v1" }, pools: []v1alpha1.PoolRollout{braked("a", 3)}, none: "revert main@sha1:22222222 by hand: spec.source.git.ref names no branch that a pull request could target"},
		"an unrelated commit came since": {
			sync:  func(n *v1alpha1.NodeSync) { n.Status.Rollout = &v1alpha1.Rollout{Revision: next, From: bad} },
			pools: []v1alpha1.PoolRollout{braked("a", 3)}, want: []string{"1..2 a since 3: a fails"},
		},
		"a correction that fails too": {
			sync: func(n *v1alpha1.NodeSync) { n.Status.Rollout = &v1alpha1.Rollout{Revision: next, From: bad} },
			pools: []v1alpha1.PoolRollout{
				changed(func(e *v1alpha1.PoolRollout) { e.Revision, e.From = next, bad }),
				changed(func(e *v1alpha1.PoolRollout) { e.Pool, e.Revision = "b", next }),
			}, want: []string{"1..3 a,b since 3: a fails"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := ProposalLook{Sync: syncOf(c.sync), Recorded: c.recorded, Pools: c.pools}
			if c.recorded == nil {
				l.Recorded = c.pools
			}
			reverts, why := l.due()
			var got []string
			for _, r := range reverts {
				got = append(got, fmt.Sprintf("%.1s..%.1s %s since %d: %s", render.CommitOf(r.From), render.CommitOf(r.Bad), strings.Join(r.Pools, ","), r.At.Minute(), r.Why))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || why["a"] != c.none {
				t.Errorf("why not: %q, want %q (-want +got):\n%s", why["a"], c.none, diff)
			}
		})
	}
}

// TestWithin shows that only files of the NodeSync, in the current or the earlier revision, are reverted.
func TestWithin(t *testing.T) {
	before := fstest.MapFS{}
	for name, content := range map[string]string{
		"fleet/plumbline.yaml":           "{apiVersion: config.plumbline.dev/v1alpha1, kind: Karpenter, cluster: {name: prod, region: eu-west-1}, version: 1.14.1, nodes: [./nodes]}",
		"fleet/nodes/kustomization.yaml": "resources: [../../base]",
		"base/kustomization.yaml":        "resources: [class.yaml, pool.yaml]",
		"base/class.yaml":                "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}}",
		"base/pool.yaml":                 "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: general}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}",
		"base/README.md":                 "read by nobody",
	} {
		before[name] = &fstest.MapFile{Data: []byte(content)}
	}
	now := render.Inputs{"fleet/plumbline.yaml": "1", "base/kustomization.yaml": "2", "base/pool.yaml": "3", "fleet": "is:folder"}
	cases := map[string]struct {
		path, name   string
		want, broken bool // broken: the same if the earlier revision does not render
	}{
		"below the path":                     {"./fleet", "fleet/nodes/a.yaml", true, true},
		"beside the path":                    {"fleet", "fleet-2/a.yaml", false, false},
		"a file of the root":                 {"fleet", "README.md", false, false},
		"a base outside":                     {"fleet", "base/pool.yaml", true, true},
		"a file of the base that is gone":    {"fleet", "base/class.yaml", true, false},
		"beside the base, gone and not read": {"fleet", "base/README.md", false, false},
		"the path is the root":               {"./", "README.md", true, true},
	}
	for name, c := range cases {
		p := proposal{ProposalLook: ProposalLook{Sync: syncOf(func(n *v1alpha1.NodeSync) { n.Spec.Path = c.path }), Inputs: now}}
		if got := p.within(t.Context(), &render.Snapshot{FS: before})(c.name); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := p.within(t.Context(), &render.Snapshot{FS: fstest.MapFS{}})(c.name); got != c.broken {
			t.Errorf("%s, where nothing renders: %v", name, got)
		}
	}
}

// TestBranch shows that Git accepts the branch of any cluster and NodeSync.
func TestBranch(t *testing.T) {
	for want, of := range map[string][2]string{
		"plumbline/revert-prod-eu_fleet-22222222":     {"prod-eu", "fleet"},
		"plumbline/revert-prod_eu-fleet-22222222":     {"prod", "eu-fleet"},
		"plumbline/revert-prod_eu.fleet-22222222":     {"prod", "eu.fleet"},
		"plumbline/revert-a-b--c_fleet.lock-22222222": {"a b..c", "fleet.lock"},
	} {
		if got := branchOf(of[0], of[1], bad); got != want {
			t.Errorf("branch %s, want %s", got, want)
		}
	}
	long := strings.Repeat("a", 100)
	one, other := branchOf(long, long+long+"b", bad), branchOf(long, long+long+"c", bad)
	if len(one) > 220 || one == other || !strings.HasSuffix(one, "-22222222") {
		t.Errorf("branches %s and %s", one, other)
	}
}

func proposalOf(verify *v1alpha1.GitVerification, why string) proposal {
	return proposal{
		ProposalLook: ProposalLook{Sync: syncOf(func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.Verify = verify }), Cluster: "prod"},
		revert:       revert{From: good, Bad: bad, Pools: []string{"a", "b"}, Why: why},
	}
}

// TestBody shows that the body says what is reverted, and what is unknown or lost.
func TestBody(t *testing.T) {
	got := proposalOf(nil, "no node joins @team <img>\n# x `y`").body(source.Reverted{
		Files: []string{"fleet/a.yaml", "fleet/b`c.yaml"}, Newer: []string{"fleet/a.yaml"}, More: true,
		Undone: []source.Undone{{Commit: strings.Repeat("3", 40), Subject: "closes #1 [x](http://evil)"}},
	})
	for _, want := range []string{
		"rollout of `main@sha1:22222222` in the cluster `prod`, in `NodePool/a`, `NodePool/b`: `no node joins @team <img> # x 'y'`.",
		"This reverts the files of NodeSync `prod.eu` to `main@sha1:11111111`",
		"`plumbline resume-rollout prod.eu`",
		"Files:\n\n- `fleet/a.yaml`\n- `fleet/b'c.yaml`\n\n",
		"- 33333333 `closes #1 [x](http://evil)`\n",
		"There may be others",
		"**Changed again since then.** Newer changes to these files are also reverted:\n\n- `fleet/a.yaml`\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "signed") {
		t.Errorf("no signature is wanted:\n%s", got)
	}
	var many []string
	for i := range maxListed + 7 {
		many = append(many, fmt.Sprintf("fleet/%d.yaml", i))
	}
	if got := proposalOf(nil, "x").body(source.Reverted{Files: many}); !strings.Contains(got, "- and 7 more\n") || strings.Contains(got, "Commits whose") || strings.Contains(got, "Changed again") {
		t.Errorf("many files:\n%s", got)
	}
}

// TestLongBodies: no names of files and no subjects make a text that GitHub refuses.
func TestLongBodies(t *testing.T) {
	var all source.Reverted
	for i := range maxListed {
		name := fmt.Sprintf("fleet/%d%s", i, strings.Repeat("/long", 900))
		all.Files, all.Newer = append(all.Files, name), append(all.Newer, name)
		all.Undone = append(all.Undone, source.Undone{Commit: strings.Repeat("3", 40), Subject: strings.Repeat("many words ", 100)})
	}
	got := proposalOf(&v1alpha1.GitVerification{}, "x").body(all)
	if len(got) > 65_536 || !strings.Contains(got, "too long for a pull request") || !strings.Contains(got, "**The commit is not signed**") {
		t.Errorf("%d bytes:\n%s", len(got), got[max(0, len(got)-500):])
	}
}

// TestUnsigned: where signatures are verified, the pull request says who has to sign.
func TestUnsigned(t *testing.T) {
	for mode, want := range map[v1alpha1.VerificationMode]string{
		v1alpha1.VerifyHEAD: "merge it with a commit signed by a trusted key", v1alpha1.VerifyRange: "requires a signature on each new commit",
	} {
		if got := proposalOf(&v1alpha1.GitVerification{Mode: mode}, "x").body(source.Reverted{}); !strings.Contains(got, "**The commit is not signed**") || !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", mode, got)
		}
	}
}

const page = "https://git.example.com/acme/fleet/pulls/7"

// world is a Git host and what is asked of it.
type world struct {
	mu sync.Mutex
	// there is the pull request that the host has.
	there *report.Proposed
	// calls are in order: find, push and open.
	calls []string
	// pushing, finding and opening fail with these, and reverted is what was pushed.
	pushing, finding, opening, lease error
	reverted                         source.Reverted
	pushed                           source.Revert
	opened                           report.Proposal
	// stuck holds each push up until it is closed.
	stuck chan struct{}
	asker ProposalWorker
	sync  *v1alpha1.NodeSync
	now   time.Time
}

func newWorld() *world {
	return &world{
		sync: syncOf(nil), now: at(10).Time,
		reverted: source.Reverted{Commit: "c0ffee", Head: "beef", Files: []string{"fleet/a.yaml"}, Undone: []source.Undone{{Commit: strings.Repeat("2", 40), Subject: "bad `AMI` @everyone"}}},
	}
}

func (w *world) note(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *world) Proposer(provider, repository string, secret map[string][]byte) (report.Proposer, error) {
	if provider != "gitea" || repository != "https://git.example.com/acme/fleet.git" || string(secret["token"]) != "t" {
		return nil, fmt.Errorf("opened %s at %s with %v", provider, repository, secret)
	}
	return w, nil
}

func (w *world) Proposed(_ context.Context, branch, base string) (*report.Proposed, error) {
	w.note("find")
	if branch != "plumbline/revert-prod_prod.eu-22222222" || base != "main" {
		return nil, fmt.Errorf("looked for %s into %s", branch, base)
	}
	return w.there, w.finding
}

func (w *world) Propose(_ context.Context, p report.Proposal) (*report.Proposed, error) {
	w.note("open")
	if w.opening != nil {
		return nil, w.opening
	}
	w.opened, w.there = p, &report.Proposed{URL: page, State: report.ProposedOpen, Head: w.reverted.Commit}
	return w.there, nil
}

func (w *world) revert(_ context.Context, r source.Revert) (source.Reverted, error) {
	w.note("push")
	if w.stuck != nil {
		<-w.stuck
	}
	w.pushed = r
	return w.reverted, w.pushing
}

// look is one reconcile; recorded is what the one before has left in the status.
func (w *world) look(t *testing.T, recorded v1alpha1.PoolRollout) (v1alpha1.PoolRollout, finding.Findings) {
	t.Helper()
	var found finding.Findings
	pools := w.asker.See(t.Context(), ProposalLook{
		ProposalTools: ProposalTools{
			Revert: func() func(context.Context, source.Revert) (source.Reverted, error) { return w.revert }, Hosts: w,
			Secret: func(_ context.Context, name string) (*corev1.Secret, error) {
				return &corev1.Secret{Data: map[string][]byte{"token": []byte("t")}}, map[bool]error{true: nil, false: errors.New("no such secret")}[name == "host"]
			},
			Grants: grant.Policy{Unannotated: true}, StillLeader: func(context.Context) error { return w.lease },
		},
		Sync: w.sync, Recorded: []v1alpha1.PoolRollout{*recorded.DeepCopy()}, Pools: []v1alpha1.PoolRollout{*recorded.DeepCopy()}, Cluster: "prod", Now: w.now,
	}, &found)
	return pools[0], found
}

// settle looks until nothing is asked, and returns the last look.
func (w *world) settle(t *testing.T, recorded v1alpha1.PoolRollout) (v1alpha1.PoolRollout, finding.Findings) {
	t.Helper()
	w.look(t, recorded)
	deadline := time.After(time.Minute)
	for w.asks() {
		select {
		case <-deadline:
			t.Fatal("it is asked for ever")
		default:
			runtime.Gosched()
		}
	}
	return w.look(t, recorded)
}

// asks reports whether something is being asked.
func (w *world) asks() bool {
	w.asker.mu.Lock()
	defer w.asker.mu.Unlock()
	for _, s := range w.asker.known {
		if s.asking {
			return true
		}
	}
	return false
}

func events(f finding.Findings) string {
	var all []string
	for _, e := range f.Notes {
		all = append(all, e.Reason+": "+e.Message)
	}
	return strings.Join(all, "; ")
}

// TestAPullRequestIsOpened once, by another daemon neither: that finds it.
func TestAPullRequestIsOpened(t *testing.T) {
	w := newWorld()
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != page || e.Proposal.Branch != "plumbline/revert-prod_prod.eu-22222222" || e.Proposal.Message != "" {
		t.Fatalf("proposal %+v after %s", e.Proposal, w.said())
	}
	if want := "RevertProposed: NodePool/general: " + page + " reverts the failed change: merge it, or correct the definition"; events(found) != want {
		t.Errorf("events %q, want %q", events(found), want)
	}
	if w.pushed.From != strings.Repeat("1", 40) || w.pushed.Bad != strings.Repeat("2", 40) || !w.pushed.At.Equal(at(3).Time) {
		t.Errorf("pushed %+v", w.pushed)
	}
	w.asker = ProposalWorker{} // a restart
	if e, found := w.settle(t, e); e.Proposal == nil || e.Proposal.URL != page || events(found) != "" || w.said() != "find push open find" {
		t.Errorf("after a restart: %+v, events %q, calls %s", e.Proposal, events(found), w.said())
	}
}

// TestTheStatusWasLost: the pull request is found by its branch, whatever became of it.
func TestTheStatusWasLost(t *testing.T) {
	for state, says := range map[report.ProposedState]string{
		report.ProposedOpen: "RevertProposed", report.ProposedMerged: "RevertProposed", report.ProposedClosed: "RevertNotProposed: NodePool/general: the pull request that reverts the failed change was closed and is not reopened: " + page,
	} {
		w := newWorld()
		w.there = &report.Proposed{URL: page, State: state}
		calls := map[bool]string{true: "find push", false: "find"}[state == report.ProposedOpen]
		e, found := w.settle(t, braked("general", 3))
		if e.Proposal == nil || e.Proposal.URL != page || e.Proposal.Closed != (state == report.ProposedClosed) || e.Proposal.Merged != (state == report.ProposedMerged) || w.said() != calls || !strings.HasPrefix(events(found), says) {
			t.Errorf("%s: %+v, calls %s, events %q", state, e.Proposal, w.said(), events(found))
		}
	}
}

// TestAPullRequestOfSomebodyElse: an open one with another commit is not called plumbline's.
func TestAPullRequestOfSomebodyElse(t *testing.T) {
	w := newWorld()
	w.there, w.pushing = &report.Proposed{URL: page, State: report.ProposedOpen}, &source.BranchError{URL: "https://git.example.com/acme/fleet", Branch: "b"}
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, page+" is open but does not contain the commit that plumbline would create") || !strings.HasPrefix(events(found), "RevertNotProposed") {
		t.Errorf("%+v, calls %s, events %q", e.Proposal, w.said(), events(found))
	}
}

// TestItIsTriedAgain: later after each failure, and at once when the NodeSync is another one. What
// fails is reported once.
func TestItIsTriedAgain(t *testing.T) {
	w := newWorld()
	w.pushing = &source.PushError{URL: "https://git.example.com/acme/fleet.git", Branch: "b", Denied: true, Err: errors.New("403")}
	e, found := w.settle(t, braked("general", 3))
	if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, "let the secret that source.git.secretRef names push branches") || !strings.HasPrefix(events(found), "RevertNotProposed") {
		t.Fatalf("proposal %+v, events %q", e.Proposal, events(found))
	}
	pushes := func() int { return strings.Count(w.said(), "push") }
	for i, wait := range []time.Duration{first, 2 * first, 4 * first} {
		w.now = w.now.Add(wait - time.Second)
		if _, found := w.settle(t, e); pushes() != i+1 || events(found) != "" || !found.WakeAt.Equal(w.now.Add(time.Second)) {
			t.Errorf("a second before %s: %d pushes, events %q, next %s", wait, pushes(), events(found), found.WakeAt)
		}
		w.now = w.now.Add(time.Second)
		if w.settle(t, e); pushes() != i+2 {
			t.Errorf("after %s: %d pushes", wait, pushes())
		}
	}
	w.pushing = nil
	w.sync.Generation++
	if e, found := w.settle(t, e); e.Proposal.URL != page || !strings.HasPrefix(events(found), "RevertProposed") {
		t.Errorf("another generation: %+v", e.Proposal)
	}
}

// TestWhatFailsIsSaid, whichever step it is.
func TestWhatFailsIsSaid(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		says   string
		calls  string
	}{
		"the host cannot be asked": {func(w *world) { w.finding = &report.UnavailableError{Host: "git.example.com", Code: 500} }, "the host responded with HTTP status 500", "find"},
		"the lease is lost":        {func(w *world) { w.lease = errors.New("no longer the leader") }, "no longer the leader", "find"},
		"the token may not":        {func(w *world) { w.opening = &report.UnauthorizedError{Host: "git.example.com"} }, "the host refuses the token", "find push open"},
		"no such secret":           {func(w *world) { w.sync.Spec.Report[1].SecretRef.Name = "gone" }, "read secret gone, which spec.report names: no such secret", ""},
		"nothing is left":          {func(w *world) { w.reverted = source.Reverted{} }, "main has nothing left to revert", "find push"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			e, _ := w.settle(t, braked("general", 3))
			if e.Proposal == nil || e.Proposal.URL != "" || !strings.Contains(e.Proposal.Message, c.says) || w.said() != c.calls {
				t.Errorf("proposal %+v, calls %q", e.Proposal, w.said())
			}
		})
	}
}

// TestALimitIsKept: a host that limits callers is not asked before it says so.
func TestALimitIsKept(t *testing.T) {
	w := newWorld()
	w.finding = &report.RateLimitedError{Host: "git.example.com", RetryAfter: time.Hour}
	_, found := w.settle(t, braked("general", 3))
	if !found.WakeAt.Equal(w.now.Add(time.Hour)) {
		t.Errorf("next %s", found.WakeAt)
	}
}

// TestNoPassWaits for a host that does not answer; a reconcile comes soon to look.
func TestNoPassWaits(t *testing.T) {
	w := newWorld()
	w.stuck = make(chan struct{})
	e, found := w.look(t, braked("general", 3))
	if e.Proposal != nil || !found.WakeAt.Equal(w.now.Add(proposalSoon)) {
		t.Errorf("proposal %+v, next %s", e.Proposal, found.WakeAt)
	}
	close(w.stuck)
	if e, _ := w.settle(t, braked("general", 3)); e.Proposal == nil || e.Proposal.URL != page || w.said() != "find push open" {
		t.Errorf("proposal %+v, calls %s", e.Proposal, w.said())
	}
}

// TestAMessageGoes with the stop that it is of; a pull request stays while the definition does.
func TestAMessageGoes(t *testing.T) {
	w := newWorld()
	resumed := braked("general", 3)
	resumed.BrakedAt, resumed.Proposal = nil, &v1alpha1.RevertProposal{Message: "403"}
	if e, _ := w.settle(t, resumed); e.Proposal != nil {
		t.Errorf("a message stays: %+v", e.Proposal)
	}
	resumed.Proposal = &v1alpha1.RevertProposal{URL: page}
	if e, _ := w.settle(t, resumed); e.Proposal == nil || w.said() != "" {
		t.Errorf("a pull request goes: %+v, calls %s", e.Proposal, w.said())
	}
}
