package propose

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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

// braked is a pool that is stopped since a minute.
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

// TestDue: what is proposed, and why nothing is.
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
		// recorded are those of the status, where they are others.
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
		"by no commit":                                    {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.Revision = "" })}, none: "no commit has outdated its nodes: there is none to revert"},
		"the first commit":                                {pools: []v1alpha1.PoolRollout{changed(func(e *v1alpha1.PoolRollout) { e.From = "" })}, none: "no revision is known that was applied before main@sha1:22222222: revert or correct it by hand"},
		"no host opens any":                               {sync: func(n *v1alpha1.NodeSync) { n.Spec.Report = n.Spec.Report[:1] }, pools: []v1alpha1.PoolRollout{braked("a", 3)}, none: "revert main@sha1:22222222 by hand: no report of this NodeSync is on a host where pull requests are opened (GitHub, GitLab, Gitea, Forgejo)"},
		"no branch is followed":                           {sync: func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.Ref.Tag = "v1" }, pools: []v1alpha1.PoolRollout{braked("a", 3)}, none: "revert main@sha1:22222222 by hand: spec.source.git.ref names no branch that a pull request could go into"},
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
			l := Look{Sync: syncOf(c.sync), Recorded: c.recorded, Pools: c.pools}
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

// TestWithin: what a NodeSync is made of is taken back, now or in the revision of before, and nothing else.
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
		want, broken bool // broken: likewise where the revision of before does not render
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
		p := proposal{Look: Look{Sync: syncOf(func(n *v1alpha1.NodeSync) { n.Spec.Path = c.path }), Inputs: now}}
		if got := p.within(t.Context(), &render.Snapshot{FS: before})(c.name); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := p.within(t.Context(), &render.Snapshot{FS: fstest.MapFS{}})(c.name); got != c.broken {
			t.Errorf("%s, where nothing renders: %v", name, got)
		}
	}
}

// TestBranch: any cluster and NodeSync have a branch that Git takes.
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
