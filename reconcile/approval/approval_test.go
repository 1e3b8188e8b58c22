package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// full is the complete digest of what is held.
var full = "sha256:" + strings.Repeat("a", 64)

// by returns an Approval that is a minute old and expires in an hour.
func by(author string) v1alpha1.Approval {
	return v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Name: author + "-yes", UID: types.UID(author), CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec:       v1alpha1.ApprovalSpec{NodeSync: "prod", Digest: full, Author: author, ExpiresAt: metav1.NewTime(now.Add(time.Hour))},
	}
}

// TestWhichApprovalsCount: which of the Approvals that reference what is held count.
func TestWhichApprovalsCount(t *testing.T) {
	changed := func(change func(*v1alpha1.Approval)) []v1alpha1.Approval {
		a := by("ann")
		change(&a)
		return []v1alpha1.Approval{a}
	}
	enforced := approval.Proof{Since: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		of     []v1alpha1.Approval
		used   []types.UID
		needed int32
		proof  approval.Proof
		enough bool
		by     []string
		says   string
	}{
		"one of one":            {of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: enforced, enough: true, by: []string{"ann"}},
		"one of two":            {of: []v1alpha1.Approval{by("ann")}, needed: 2, proof: enforced, by: []string{"ann"}},
		"two of two":            {of: []v1alpha1.Approval{by("ben"), by("ann")}, needed: 2, proof: enforced, enough: true, by: []string{"ann", "ben"}},
		"one person twice":      {of: []v1alpha1.Approval{by("ann"), by("ann")}, needed: 2, proof: enforced, by: []string{"ann"}},
		"of two letter cases":   {of: []v1alpha1.Approval{by("ann"), by("Ann")}, needed: 2, proof: enforced, by: []string{"Ann"}},
		"as it is shown":        {of: changed(func(a *v1alpha1.Approval) { a.Spec.Digest = render.ShownDigest(full) }), needed: 1, proof: enforced, enough: true, by: []string{"ann"}},
		"by twelve digits":      {of: changed(func(a *v1alpha1.Approval) { a.Spec.Digest = full[:19] }), needed: 1, proof: enforced},
		"used before":           {of: []v1alpha1.Approval{by("ann")}, used: []types.UID{"ann"}, needed: 1, proof: enforced},
		"of something else":     {of: changed(func(a *v1alpha1.Approval) { a.Spec.Digest = "sha256:b" }), needed: 1, proof: enforced},
		"expired":               {of: changed(func(a *v1alpha1.Approval) { a.Spec.ExpiresAt = metav1.NewTime(now) }), needed: 1, proof: enforced},
		"the policy is missing": {of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: approval.Proof{Missing: "no policy"}, says: "no policy"},
		"older than the policy": {of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: approval.Proof{Since: now}, says: "may not have been checked"},
		"as old as the policy":  {of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: approval.Proof{Since: now.Add(-time.Minute)}, says: "may not have been checked"},
		"the policy is too new": {of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: approval.Proof{Since: now.Add(-time.Minute - approval.Settled + time.Second)}, says: "not 30s younger"},
		"the policy has settled": {
			of: []v1alpha1.Approval{by("ann")}, needed: 1, proof: approval.Proof{Since: now.Add(-time.Minute - approval.Settled)}, enough: true, by: []string{"ann"},
		},
		"expires later than it may": {of: changed(func(a *v1alpha1.Approval) {
			a.CreationTimestamp, a.Spec.ExpiresAt = metav1.NewTime(now.Add(-approval.MaxAge)), metav1.NewTime(now.Add(time.Hour))
		}), needed: 1, proof: approval.Proof{}},
	} {
		t.Run(name, func(t *testing.T) {
			held := &v1alpha1.HeldPlan{Digest: full, Needed: c.needed}
			enough := approval.Count(held, approval.MayCount(held, c.of, c.used, now), c.proof, nil)
			if diff := cmp.Diff(c.by, held.Approvers); enough != c.enough || diff != "" || !strings.Contains(held.Message, c.says) || c.says == "" && held.Message != "" {
				t.Errorf("enough: %t, says %q, by (-want +got):\n%s", enough, held.Message, diff)
			}
		})
	}
}

// TestADigestStays while a few nodes come and go, but not if more do.
func TestADigestStays(t *testing.T) {
	first := approval.Publish(nil, &plan.Approvable{Digest: "sha256:1", Outcome: "x", Drained: 30, Of: 60, Pools: 2}, 1)
	for name, c := range map[string]struct {
		then plan.Approvable
		want string
	}{
		"fewer nodes":        {plan.Approvable{Digest: "sha256:2", Outcome: "x", Drained: 12}, "sha256:1"},
		"a tenth more":       {plan.Approvable{Digest: "sha256:2", Outcome: "x", Drained: 33}, "sha256:1"},
		"more than that":     {plan.Approvable{Digest: "sha256:2", Outcome: "x", Drained: 34}, "sha256:2"},
		"another outcome":    {plan.Approvable{Digest: "sha256:2", Outcome: "y", Drained: 30}, "sha256:2"},
		"replaced, not more": {plan.Approvable{Digest: "sha256:2", Outcome: "x", Replaced: 33}, "sha256:1"},
	} {
		if got := approval.Publish(first, &c.then, 1).Digest; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	none := approval.Publish(nil, &plan.Approvable{Digest: "sha256:1", Outcome: "x"}, 1)
	if got := approval.Publish(none, &plan.Approvable{Digest: "sha256:2", Outcome: "x", Drained: 1}, 1).Digest; got != "sha256:2" {
		t.Errorf("a node where none was shown: %s", got)
	}
	if approval.Publish(first, nil, 1) != nil {
		t.Error("what is held no more is published")
	}
}

// TestWhatIsShownIsOfNow: nodes come and go under one digest. What is published has the current nodes, as the messages
// have, and the pods that people were shown.
func TestWhatIsShownIsOfNow(t *testing.T) {
	held := func(nodes, fleet int, pods ...v1alpha1.PendingPods) *plan.Approvable {
		return &plan.Approvable{Digest: fmt.Sprintf("sha256:%d", nodes), Outcome: "x", Drained: nodes, Of: fleet, Pools: 1, Entries: []v1alpha1.ApprovedEntry{
			{Kind: "NodePool", Name: "batch", Nodes: int32(nodes), UnschedulablePods: pods, Reasons: []string{plan.ReasonUnschedulablePods}},
		}}
	}
	pods := v1alpha1.PendingPods{Workload: "web/Deployment/api", Pods: 2}
	first := held(4, 9, pods)
	first.Pods = 2
	published := approval.Publish(nil, first, 1)
	for name, c := range map[string]struct {
		nodes, fleet int
		want         string
	}{
		"one more":                {5, 10, "drains 5 of 10 nodes in 1 pool, 2 pods pending"},
		"one fewer":               {3, 8, "drains 3 of 8 nodes in 1 pool, 2 pods pending"},
		"as many, of a new fleet": {4, 30, "drains 4 of 9 nodes in 1 pool, 2 pods pending"},
	} {
		now := approval.Publish(published, held(c.nodes, c.fleet), 1)
		if now.Digest != published.Digest || now.Nodes != 4 || now.Summary != c.want || int(now.Entries[0].Nodes) != c.nodes || len(now.Entries[0].UnschedulablePods) != 1 {
			t.Errorf("%s: %+v, want %q", name, now, c.want)
		}
		if published.Entries[0].Nodes != 4 {
			t.Fatal("what was published before is changed")
		}
	}
}

// TestWhatIsRecordedIsWhatWasRead: the objects as shown at the approval, and the number of nodes when the digest was
// made, so that the tolerance of a tenth applies only once.
func TestWhatIsRecordedIsWhatWasRead(t *testing.T) {
	entries := func(nodes int32) []v1alpha1.ApprovedEntry {
		return []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "batch", Nodes: nodes}}
	}
	first := approval.Publish(nil, &plan.Approvable{Digest: "sha256:1", Outcome: "x", Drained: 30, Entries: entries(30)}, 1)
	later := approval.Publish(first, &plan.Approvable{Digest: "sha256:2", Outcome: "x", Drained: 33, Entries: entries(33)}, 1)
	later.Approvers = []string{"ann"}
	want := []v1alpha1.ApprovedPlan{{Digest: "sha256:1", By: []string{"ann"}, At: metav1.NewTime(now), Nodes: 30, Entries: entries(33)}}
	if diff := cmp.Diff(want, approval.Record(nil, later, now)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// TestHowLongToWait until an Approval can count; if the clocks differ, there is no wait.
func TestHowLongToWait(t *testing.T) {
	proof := approval.Proof{Since: now}
	for after, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: approval.Settled, 10 * time.Second: approval.Settled - 10*time.Second, approval.Settled: 0, time.Hour: 0,
	} {
		if got := proof.Wait(now.Add(after)); got != want {
			t.Errorf("%s after: %s, want %s", after, got, want)
		}
	}
}

// TestInGit: the complete digest of what is held now counts, if the NodeSync allows it. Old digests do no harm, however
// many.
func TestInGit(t *testing.T) {
	now := "sha256:" + strings.Repeat("a", 64)
	old := func(n int) []string {
		var digests []string
		for i := range n {
			digests = append(digests, fmt.Sprintf("sha256:%064d", i))
		}
		return digests
	}
	fromGit, two := v1alpha1.Guard{ApproveFrom: v1alpha1.ApproveFromGit}, int32(2)
	for name, c := range map[string]struct {
		guard   v1alpha1.Guard
		digests []string
		used    []string
		nothing bool
		counts  bool
		says    string
	}{
		"it is approved":          {guard: fromGit, digests: []string{now}, counts: true},
		"beside old ones":         {guard: fromGit, digests: append(old(1000), now), counts: true},
		"old ones only":           {guard: fromGit, digests: old(1000), says: "has other digests"},
		"it was used":             {guard: fromGit, digests: []string{now}, used: []string{now}, says: "was used already: remove it, and add it again"},
		"another was used":        {guard: fromGit, digests: []string{now}, used: old(1), counts: true},
		"as it is shown":          {guard: fromGit, digests: []string{render.ShownDigest(now)}, counts: true},
		"shown, and used":         {guard: fromGit, digests: []string{render.ShownDigest(now)}, used: []string{now}, says: "was used already: remove it, and add it again"},
		"a part of what is shown": {guard: fromGit, digests: []string{render.ShownDigest(now)[:25]}, says: "has other digests"},
		"a short one":             {guard: fromGit, digests: []string{now[:19]}, says: "has other digests"},
		"nothing is approved":     {guard: fromGit},
		"nothing is held":         {guard: fromGit, digests: []string{now}, nothing: true},
		"in the cluster only":     {guard: v1alpha1.Guard{ApproveFrom: v1alpha1.ApproveFromCluster}, digests: []string{now}, says: "spec.guard.approveFrom of the NodeSync is not Git"},
		"nothing is said of it":   {digests: []string{now}, says: "spec.guard.approveFrom of the NodeSync is not Git"},
		"two people are to":       {guard: v1alpha1.Guard{ApproveFrom: v1alpha1.ApproveFromGit, Approvals: &two}, digests: []string{now}, says: "asks for more than one person"},
		"none, and Cluster says":  {guard: v1alpha1.Guard{ApproveFrom: v1alpha1.ApproveFromCluster}},
	} {
		t.Run(name, func(t *testing.T) {
			held := &v1alpha1.HeldPlan{Digest: now, Needed: 1}
			if c.guard.Approvals != nil {
				held.Needed = *c.guard.Approvals
			}
			if c.nothing {
				held = nil
			}
			if counts := approval.InGit(held, c.guard, c.digests, c.used, "main@sha1:0123456789abcdef"); counts != c.counts {
				t.Fatalf("it counts: %t, want %t", counts, c.counts)
			}
			if held == nil {
				return
			}
			if !strings.Contains(held.Message, c.says) || (c.says == "") != (held.Message == "") {
				t.Errorf("it says %q, want %q", held.Message, c.says)
			}
			if by := strings.Join(held.Approvers, ", "); c.counts && by != "plumbline.yaml of main@sha1:01234567" {
				t.Errorf("approved by %q", by)
			}
		})
	}
}

// TestUsedInGit: a digest that has counted stays used as long as HEAD lists it, in either form.
func TestUsedInGit(t *testing.T) {
	now, old := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for name, digests := range map[string][]string{"in full": {now}, "as shown": {render.ShownDigest(now)}} {
		if used := approval.UsedInGit([]string{now, old, now}, digests); len(used) != 1 || used[0] != now {
			t.Errorf("%s: %v", name, used)
		}
	}
}
