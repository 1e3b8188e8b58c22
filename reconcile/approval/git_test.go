package approval_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/render"
)

// TestInGit: the whole digest of what is held now counts, where the NodeSync says so. Old ones do no harm,
// however many.
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
		"it was used":             {guard: fromGit, digests: []string{now}, used: []string{now}, says: "was used already: take it out, and add it again"},
		"another was used":        {guard: fromGit, digests: []string{now}, used: old(1), counts: true},
		"as it is shown":          {guard: fromGit, digests: []string{render.ShownDigest(now)}, counts: true},
		"shown, and used":         {guard: fromGit, digests: []string{render.ShownDigest(now)}, used: []string{now}, says: "was used already: take it out, and add it again"},
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

// TestUsedInGit: a digest that has counted stays used as long as HEAD lists it, in whichever form.
func TestUsedInGit(t *testing.T) {
	now, old := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for name, digests := range map[string][]string{"in full": {now}, "as shown": {render.ShownDigest(now)}} {
		if used := approval.UsedInGit([]string{now, old, now}, digests); len(used) != 1 || used[0] != now {
			t.Errorf("%s: %v", name, used)
		}
	}
}
