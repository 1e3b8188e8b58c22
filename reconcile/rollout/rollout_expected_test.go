package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const subnetsOfOne = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-0001}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

// otherSubnets returns a Plan that changes subnets, for which AWS reports that one of two NodeClaims is in none of
// them.
func otherSubnets(t *testing.T, claims []plan.NodeClaim) *plan.Plan {
	t.Helper()
	validator, err := schema.New(applytest.CRDs())
	if err != nil {
		t.Fatal(err)
	}
	server, owner := applytest.New(t), plan.OwnerOf("plumbline-system", "prod")
	if err := server.ApplyAs(t.Context(), plan.Desired(server.Definition(t, subnetsOfOne), owner), v1alpha1.FieldManager, true); err != nil {
		t.Fatal(err)
	}
	all := intstr.FromString("100%")
	git := &render.Set{Revision: "main@sha1:2", Objects: []render.Object{server.Definition(t, strings.Replace(subnetsOfOne, "subnet-0001", "subnet-0002", 1))}}
	made, err := plan.Make(t.Context(), git, plan.Live{Objects: plan.NewObjects(server.Objects()), NodeClaims: claims}, plan.Policy{
		Owner: owner, NewRevision: true, Guard: v1alpha1.Guard{MaxDisruptedNodes: &all},
		Answers: map[render.Ref]plan.Answer{{Kind: render.EC2NodeClass, Name: "default"}: {
			Subnets: plan.Resolved[string]{Found: []string{"subnet-0002"}},
			Running: map[string]plan.Running{"aws:///a/i-1": {Subnet: "subnet-0001"}, "aws:///a/i-2": {Subnet: "subnet-0002"}},
		}},
	}, validator)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestNodesThatAWSSaysAreOutdatedCount shows that, although no object shows which nodes new subnets outdate until
// Karpenter has checked them, the commit is no success before these are gone; then it is, as there are no others. After
// a restart, the daemon waits until Karpenter has checked.
func TestNodesThatAWSSaysAreOutdatedCount(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	one := plan.NodeClaim{Name: "1", UID: "1", Pool: "a", Class: "default", ProviderID: "aws:///a/i-1", Created: now}
	two := plan.NodeClaim{Name: "2", UID: "2", Pool: "a", Class: "default", ProviderID: "aws:///a/i-2", Created: now}
	made := otherSubnets(t, []plan.NodeClaim{one, two})
	memory := &rollout.Memory{}
	var status v1alpha1.NodeSyncStatus
	revision := "main@sha1:2"
	look := func(after time.Duration, changes []plan.Change, claims ...plan.NodeClaim) *v1alpha1.Rollout {
		now = now.Add(after)
		r := rollout.Rollouts{
			Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{pool("a")}, Before: status.Rollout, Reported: status.Rollout, Changes: changes,
			Revision: revision, Now: now, Memory: memory, Events: &spoken{},
		}
		r.Begin(&status)
		r.Before = status.Rollout
		status.Rollout = r.Look(t.Context()).Rollout
		return status.Rollout
	}
	if got := look(0, made.Changes, one, two); got == nil || got.Outdated != 1 || got.SettlesAt == nil {
		t.Fatalf("with the commit: %+v, %+v", got, made.Changes)
	}
	if got := look(time.Second, nil, one, two); got == nil || got.Outdated != 1 {
		t.Fatalf("before Karpenter has looked: %+v", got)
	}
	restarted := status.Rollout.DeepCopy()
	if got := look(time.Minute, nil, two); got != nil {
		t.Errorf("when it is gone: %+v", got)
	}
	memory, status.Rollout = &rollout.Memory{}, restarted
	if got := look(time.Second, nil, one, two); got == nil {
		t.Error("after a restart it is over before Karpenter has looked")
	}
	if got := look(rollout.Settles, nil, two); got != nil {
		t.Errorf("after Karpenter has looked: %+v", got)
	}

	// another commit, before Karpenter has checked for the first one
	begin := func() {
		memory, status.Rollout, revision = &rollout.Memory{}, nil, "main@sha1:2"
		look(0, made.Changes, one, two)
		revision = "main@sha1:3"
	}
	three := plan.NodeClaim{Name: "3", UID: "3", Pool: "a", Class: "else", Created: now}
	drains := []plan.Change{{Ref: render.Ref{Kind: render.NodePool, Name: "b"}, Action: plan.Update, Effect: plan.EffectDrain, Nodes: 1}}
	begin()
	if got := look(time.Minute, drains, one, two, three); got == nil || got.Revision != revision || got.Outdated != 2 || got.SettlesAt == nil {
		t.Errorf("with the node of the first commit and one of its own: %+v", got)
	}
	if got := look(time.Second, nil, one, two); got == nil || got.Outdated != 1 {
		t.Errorf("the first commit's node is still there: %+v", got)
	}
	if got := look(time.Second, nil, two); got != nil {
		t.Errorf("all are gone, and there were no others: %+v", got)
	}
	upTo := []plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Action: plan.Update, Effect: plan.EffectReplace, Nodes: 2, UpTo: true, DriftReasons: []string{"SubnetDrift"}}}
	memory, status.Rollout, revision = &rollout.Memory{}, nil, "main@sha1:2"
	look(0, upTo, one, two)
	revision = "main@sha1:3"
	look(time.Minute, made.Changes, one, two)
	if got := look(time.Minute, nil, two); got == nil || got.SettlesAt == nil {
		t.Errorf("the node of the second commit is gone, and those of the first are not known: %+v", got)
	}
}

// TestARevertOfSelectors shows that nodes that AWS has reported as outdated no longer are once the selectors are
// reverted, whether Karpenter has found them already or not, and that the commit does not wait for Karpenter's next
// check.
func TestARevertOfSelectors(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	claim := func(name string, drifted bool) plan.NodeClaim {
		c := plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "a", Class: "default", ProviderID: "aws:///a/i-" + name, Created: now}
		if drifted {
			c.Drifted, c.DriftReason = true, "SubnetDrift"
		}
		return c
	}
	made := otherSubnets(t, []plan.NodeClaim{claim("1", false), claim("2", false)})
	reverts := plan.Change{Ref: made.Changes[0].Ref, Action: plan.Update, Fields: []plan.Field{{Path: "spec.subnetSelectorTerms[0].id", From: "subnet-0002", To: "subnet-0001"}}}
	groups := reverts
	groups.Fields = []plan.Field{{Path: "spec.securityGroupSelectorTerms[0].id"}}
	held := reverts
	held.Action = plan.Hold
	for name, c := range map[string]struct {
		change plan.Change
		// drifts is true while the first node still has Karpenter's condition.
		drifts bool
		want   string
	}{
		"before Karpenter has looked":  {change: reverts, want: "none"},
		"while its condition is there": {change: reverts, drifts: true, want: "0 of 1"},
		"other selectors":              {change: groups, want: "0 of 1"},
		"held":                         {change: held, want: "0 of 1"},
	} {
		memory := &rollout.Memory{}
		var status v1alpha1.NodeSyncStatus
		look := func(at time.Duration, revision string, changes []plan.Change, drifts bool) {
			r := rollout.Rollouts{
				Live: plan.Live{NodeClaims: []plan.NodeClaim{claim("1", drifts), claim("2", false)}}, Pools: []rollout.Pool{pool("a")}, Before: status.Rollout, Reported: status.Rollout,
				Changes: changes, Revision: revision, Now: now.Add(at), Memory: memory, Events: &spoken{},
			}
			r.Begin(&status)
			r.Before = status.Rollout
			status.Rollout = r.Look(t.Context()).Rollout
		}
		look(0, "main@sha1:2", made.Changes, false)
		look(time.Second, "main@sha1:2", nil, c.drifts)
		look(2*time.Second, "main@sha1:3", []plan.Change{c.change}, c.drifts)
		got := "none"
		if r := status.Rollout; r != nil {
			got = fmt.Sprintf("%d of %d", r.Nodes-r.Outdated, r.Nodes)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.want, status.Rollout)
		}
		if c.drifts {
			if look(3*time.Second, "main@sha1:3", nil, false); status.Rollout != nil {
				t.Errorf("%s, when it is gone: %+v", name, status.Rollout)
			}
		}
	}
}

// TestANodeThatMatchesAgainIsNotOfTheRollout, although it was counted while it had Karpenter's condition.
func TestANodeThatMatchesAgainIsNotOfTheRollout(t *testing.T) {
	memory, now := &rollout.Memory{}, time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var before *v1alpha1.Rollout
	upTo := []plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "default"}, Action: plan.Update, Effect: plan.EffectReplace, Nodes: 2, UpTo: true, DriftReasons: []string{"SubnetDrift"}}}
	for i, c := range []struct {
		drifts  [2]bool
		changes []plan.Change
		want    string
	}{
		{[2]bool{true, true}, upTo, "0 of 2"},
		{[2]bool{true, false}, nil, "0 of 1"},
		{[2]bool{true, true}, nil, "0 of 2"},
		{[2]bool{false, false}, nil, "0 of 0"},
	} {
		var claims []plan.NodeClaim
		for j, drifts := range c.drifts {
			claim := plan.NodeClaim{Name: fmt.Sprint(j), UID: types.UID(fmt.Sprint(j)), Pool: "a", Class: "default", ProviderID: "aws:///a/i-1", Created: now.Add(-time.Hour)}
			if drifts {
				claim.Drifted, claim.DriftReason = true, "SubnetDrift"
			}
			claims = append(claims, claim)
		}
		r := rollout.Rollouts{
			Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{pool("a")}, Before: before, Reported: before, Changes: c.changes, Revision: "main@sha1:3", Now: now.Add(time.Duration(i) * time.Second), Memory: memory, Events: &spoken{},
		}
		before = r.Look(t.Context()).Rollout
		if got := fmt.Sprintf("%d of %d", before.Nodes-before.Outdated, before.Nodes); got != c.want {
			t.Errorf("look %d: %s, want %s", i+1, got, c.want)
		}
	}
}

// inSubnets is an EC2 that returns the subnet of each instance that it has.
type inSubnets struct {
	of  map[string]string
	err error
}

func (s *inSubnets) TerminationProtected(context.Context, string) (bool, error) { return false, nil }

func (s *inSubnets) Instances(_ context.Context, query cloud.Query) (found []cloud.Instance, err error) {
	for _, id := range query.ProviderIDs {
		instance := strings.TrimPrefix(id, "aws:///a/")
		if subnet := s.of[instance]; subnet != "" && s.err == nil {
			found = append(found, cloud.Instance{ID: instance, Zone: "a", Subnet: subnet, SecurityGroups: []string{"sg-1"}})
		}
	}
	return found, s.err
}

// unmarked is a rollout of other subnets, in a cluster in which Karpenter marks no node as drifted.
type unmarked struct {
	*testing.T

	now      time.Time
	ec2      *inSubnets
	claims   []plan.NodeClaim
	class    *plan.Object
	pools    []rollout.Pool
	revision string
	memory   *rollout.Memory
	status   v1alpha1.NodeSyncStatus
}

func newUnmarked(t *testing.T) *unmarked {
	t.Helper()
	u := &unmarked{
		T: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), pools: []rollout.Pool{pool("a")}, revision: "main@sha1:2", memory: &rollout.Memory{},
		ec2: &inSubnets{of: map[string]string{"i-1": "subnet-0001", "i-2": "subnet-0002"}}, class: resolvedSubnet(2, "subnet-0001"),
	}
	u.claims = []plan.NodeClaim{u.claim("1", "a"), u.claim("2", "a")}
	return u
}

func (u *unmarked) claim(name, pool string) plan.NodeClaim {
	return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, Class: "default", ProviderID: "aws:///a/i-" + name, Image: "ami-1", Created: u.now}
}

// resolvedSubnet returns an EC2NodeClass whose status is for generation 2.
func resolvedSubnet(generation int64, subnet string) *plan.Object {
	var conditions []any
	for _, kind := range []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "observedGeneration": int64(2), "reason": kind, "message": "", "lastTransitionTime": "2026-11-24T12:00:00Z"})
	}
	return plan.NewObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default", "generation": generation, "resourceVersion": fmt.Sprint(generation, subnet)},
		"status": map[string]any{"subnets": []any{map[string]any{"id": subnet, "zone": "a"}}, "securityGroups": []any{map[string]any{"id": "sg-1"}}, "conditions": conditions},
	}})
}

func (u *unmarked) look(what string, after time.Duration, changes []plan.Change, want string) {
	u.Helper()
	u.now = u.now.Add(after)
	live := plan.Live{NodeClaims: u.claims, Objects: map[render.Ref]*plan.Object{{Kind: render.EC2NodeClass, Name: "default"}: u.class}}
	r := rollout.Rollouts{
		Live: live, Pools: u.pools, Before: u.status.Rollout, Reported: u.status.Rollout, Changes: changes, EC2: func(context.Context) (rollout.EC2, error) { return u.ec2, nil },
		Revision: u.revision, Now: u.now, Memory: u.memory, Events: &spoken{},
	}
	r.Begin(&u.status)
	r.Before = u.status.Rollout
	u.status.Rollout = r.Look(u.Context()).Rollout
	got := "over"
	if u.status.Rollout != nil {
		got = rollout.Replaced(*u.status.Rollout)
	}
	if got != want {
		u.Errorf("%s: %s, want %s: %+v", what, got, want, u.status.Rollout)
	}
}

// restarts forgets what only the daemon knows.
func (u *unmarked) restarts() { u.memory = &rollout.Memory{} }

func (u *unmarked) reports(words string) {
	u.Helper()
	if !strings.Contains(u.status.Rollout.Message, words) {
		u.Errorf("message: %q, want %q", u.status.Rollout.Message, words)
	}
}

// TestOutdatedNodesThatKarpenterDoesNotFind stay outdated while EC2 reports so, after the time that Karpenter needs and
// after a restart at any time.
func TestOutdatedNodesThatKarpenterDoesNotFind(t *testing.T) {
	const one, unfound = "0 of 1 nodes replaced", "EC2 reports that 1 node is outdated (SubnetDrift), but Karpenter has not marked"
	u := newUnmarked(t)
	changes := otherSubnets(t, u.claims).Changes
	u.look("with the commit", 0, changes, one)
	u.restarts()
	u.class = resolvedSubnet(3, "subnet-0001")
	u.look("after a restart, before Karpenter has resolved the class", time.Second, nil, one)
	u.class = resolvedSubnet(2, "subnet-0002")
	u.look("after a restart", time.Minute, nil, one)
	u.look("Karpenter does not look at its nodes", rollout.Settles, nil, one)
	u.reports(unfound)
	u.look("nor later", 3*rollout.Settles, nil, one)
	u.restarts()
	u.ec2.err = errors.New("denied")
	u.look("after another restart, while EC2 does not answer", time.Second, nil, one)
	u.reports("unknown since a restart of plumbline whether 2 nodes are outdated: denied")
	u.ec2.err = nil
	u.look("when EC2 answers", time.Minute, nil, one)
	u.reports(unfound)
	u.ec2.of["i-1"] = "subnet-0002"
	u.look("its instance matches", rollout.Settles, nil, "over")
}

// TestARestartWhileKarpenterFindsNoSubnets: which nodes are outdated stays unknown, the message has the reason, and the rollout goes on
// once Karpenter finds them.
func TestARestartWhileKarpenterFindsNoSubnets(t *testing.T) {
	const one = "0 of 1 nodes replaced"
	u := newUnmarked(t)
	u.look("with the commit", 0, otherSubnets(t, u.claims).Changes, one)
	u.restarts()
	u.class = resolvedSubnet(3, "subnet-0001")
	u.look("before Karpenter has resolved the class", time.Second, nil, one)
	found := resolvedSubnet(2, "subnet-0002")
	none := found.DeepCopy()
	conditions, _, _ := unstructured.NestedSlice(none.Object, "status", "conditions")
	subnets := conditions[1].(map[string]any)
	subnets["status"], subnets["reason"], subnets["message"] = "False", "SubnetsNotFound", "SubnetSelector did not match any Subnets"
	if err := unstructured.SetNestedSlice(none.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	u.class = plan.NewObject(none)
	u.look("Karpenter finds none", rollout.Settles, nil, one)
	u.reports("unknown since a restart of plumbline whether 2 nodes are outdated: EC2NodeClass/default: SubnetsReady: SubnetsNotFound: SubnetSelector did not match any Subnets")
	u.class = found
	u.look("Karpenter finds them", time.Minute, nil, one)
	u.ec2.of["i-1"] = "subnet-0002"
	u.look("its instance matches", rollout.Settles, nil, "over")
}

// TestARestartWithManyNodes: each is compared with EC2, and an instance that EC2 no longer has does not keep the rollout
// pending.
func TestARestartWithManyNodes(t *testing.T) {
	const one = "0 of 1 nodes replaced"
	u := newUnmarked(t)
	changes := otherSubnets(t, u.claims).Changes
	for i := 10; i < 160; i++ {
		u.claims = append(u.claims, u.claim(fmt.Sprint(i), "a"))
		u.ec2.of[fmt.Sprintf("i-%d", i)] = "subnet-0002"
	}
	u.look("with the commit", 0, changes, one)
	u.class = resolvedSubnet(2, "subnet-0002")
	u.look("Karpenter does not look at its nodes", rollout.Settles, nil, one)
	delete(u.ec2.of, "i-77")
	u.restarts()
	u.look("after a restart", time.Second, nil, one)
	u.ec2.of["i-1"] = "subnet-0002"
	u.look("its instance matches", rollout.Settles, nil, "over")
}

// TestAnotherCommitKeepsNodesThatKarpenterDoesNotFind: it is no success while EC2 reports the nodes of the previous one
// as outdated, after a restart neither, and these stay nodes of a commit.
func TestAnotherCommitKeepsNodesThatKarpenterDoesNotFind(t *testing.T) {
	const one, two = "0 of 1 nodes replaced", "0 of 2 nodes replaced"
	drains := []plan.Change{{Ref: render.Ref{Kind: render.NodePool, Name: "b"}, Action: plan.Update, Effect: plan.EffectDrain, Nodes: 1}}
	for name, c := range map[string]struct {
		// after is when the other commit comes, and restarts reports whether the daemon restarts before it.
		after    time.Duration
		restarts bool
	}{
		"after the time that Karpenter needs": {after: rollout.Settles},
		"within it":                           {after: time.Minute},
		"after the time that Karpenter needs, with restart": {after: rollout.Settles, restarts: true},
		"within it, with a restart":                         {after: time.Minute, restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUnmarked(t)
			u.pools = append(u.pools, pool("b"))
			u.look("with the commit", 0, otherSubnets(t, u.claims).Changes, one)
			u.class = resolvedSubnet(2, "subnet-0002")
			u.look("Karpenter does not look", c.after, nil, one)
			if c.restarts {
				u.restarts()
			}
			u.revision = "main@sha1:3"
			u.look("with another commit", time.Second, drains, two)
			if got := u.status.Rollout; !got.Changes("a") || got.Revision != u.revision {
				t.Errorf("the nodes of the previous commit belong to none: %+v", got)
			}
			u.look("the node of the second commit is gone", time.Second, nil, "1 of 2 nodes replaced")
			u.restarts()
			u.look("after a restart", 2*rollout.Settles, nil, "1 of 2 nodes replaced")
			u.claims[0].Drifted, u.claims[0].DriftReason = true, "SubnetDrift"
			u.look("Karpenter finds it", time.Second, nil, "1 of 2 nodes replaced")
			if got := u.status.Rollout; len(got.Inputs) > 0 {
				t.Errorf("when Karpenter has found it: %+v", got)
			}
			u.claims = u.claims[1:]
			u.look("it is gone", time.Second, nil, "over")
		})
	}
}

// TestARestartWithAPoolOfAnotherNodeSync: the EC2NodeClass of this NodeSync is used by a pool that another NodeSync, or
// none any more, defines. Its nodes stay outdated after a restart, too.
func TestARestartWithAPoolOfAnotherNodeSync(t *testing.T) {
	const one = "0 of 1 nodes replaced"
	u := newUnmarked(t)
	u.pools = []rollout.Pool{pool("b")}
	u.look("with the commit", 0, otherSubnets(t, u.claims).Changes, one)
	u.class = resolvedSubnet(2, "subnet-0002")
	u.look("Karpenter does not look", rollout.Settles, nil, one)
	u.restarts()
	u.look("after a restart", time.Second, nil, one)
	u.claims = u.claims[1:]
	u.look("it is gone", time.Second, nil, "over")
}
