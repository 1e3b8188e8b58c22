package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// MaxAge is the maximum age at which an Approval counts, whatever its expiresAt.
const MaxAge = 7 * 24 * time.Hour

// Publish returns what is held. Its digest stays the same while only a few nodes come and go, so that people can
// approve what they read in a commit status earlier. The summary and the nodes of each object are current, as in the
// messages about what is held; an approval shows the same numbers.
func Publish(before *v1alpha1.HeldPlan, held *plan.Approvable, needed int32) *v1alpha1.HeldPlan {
	if held == nil {
		return nil
	}
	if before != nil && held.Within(before) {
		same := &v1alpha1.HeldPlan{
			Digest: before.Digest, Outcome: before.Outcome, Summary: before.Summary, Nodes: before.Nodes, WeighedBy: before.WeighedBy,
			Entries: before.Entries, Needed: needed,
		}
		if now, changed := held.Counted(before); changed {
			same.Summary, same.Entries = now.Summary(), now.Entries
		}
		return same
	}
	return &v1alpha1.HeldPlan{
		Digest: held.Digest, Outcome: held.Outcome, Summary: held.Summary(), Nodes: int32(held.Nodes()), WeighedBy: held.WeighedBy,
		Entries: held.Entries, Needed: needed,
	}
}

// ExpiresAt returns the time until which an Approval may be used.
func ExpiresAt(a *v1alpha1.Approval) time.Time {
	latest := a.CreationTimestamp.Add(MaxAge)
	if a.Spec.ExpiresAt.After(latest) {
		return latest
	}
	return a.Spec.ExpiresAt.Time
}

// Expired returns the Approvals that have expired and are not being deleted yet.
func Expired(all []v1alpha1.Approval, now time.Time) []v1alpha1.Approval {
	return slices.DeleteFunc(slices.Clone(all), func(a v1alpha1.Approval) bool {
		return now.Before(ExpiresAt(&a)) || !a.DeletionTimestamp.IsZero()
	})
}

// Of returns the Approvals that reference a NodeSync.
func Of(sync *v1alpha1.NodeSync, all []v1alpha1.Approval) []v1alpha1.Approval {
	return slices.DeleteFunc(slices.Clone(all), func(a v1alpha1.Approval) bool {
		return a.Namespace != sync.Namespace || a.Spec.NodeSync != sync.Name || a.Spec.UID != sync.UID
	})
}

// MayCount returns those that may count for what is held: not expired, not being deleted, and not used before.
func MayCount(held *v1alpha1.HeldPlan, of []v1alpha1.Approval, used []types.UID, now time.Time) []v1alpha1.Approval {
	if held == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(of), func(a v1alpha1.Approval) bool {
		return !render.NamesDigest(a.Spec.Digest, held.Digest) || !now.Before(ExpiresAt(&a)) || !a.DeletionTimestamp.IsZero() ||
			slices.Contains(used, a.UID)
	})
}

// Count determines who has approved what is held, and whether that is enough. Each principal counts once; trusted are
// the roles of spec.guard.trustedSessions. An Approval whose author the API server has not checked does not count, and
// the message lists it.
func Count(held *v1alpha1.HeldPlan, naming []v1alpha1.Approval, proof Proof, trusted []string) (enough bool) {
	held.Approvers, held.Message = nil, ""
	var checked []*v1alpha1.Approval
	for i := range naming {
		a := &naming[i]
		if refused := proof.refuses(a); refused != "" {
			held.Message = fmt.Sprintf("Approval %s by %s does not count: %s", a.Name, a.Spec.Author, refused)
			continue
		}
		checked = append(checked, a)
	}
	for _, p := range principals(checked, trusted) {
		held.Approvers = append(held.Approvers, p.name(trusted))
		held.Message = cmp.Or(held.Message, p.countsOnce())
	}
	if enough = len(held.Approvers) >= int(held.Needed); enough {
		held.Message = ""
	}
	return enough
}

// Record adds what was approved to the remaining earlier approvals. Package plan tolerates a few more nodes once:
// relative to when the digest was made, whatever the number of nodes was at the approval.
func Record(left []v1alpha1.ApprovedPlan, held *v1alpha1.HeldPlan, now time.Time) []v1alpha1.ApprovedPlan {
	left = slices.DeleteFunc(slices.Clone(left), func(a v1alpha1.ApprovedPlan) bool { return a.Digest == held.Digest })
	return append(left, v1alpha1.ApprovedPlan{
		Digest: held.Digest, By: held.Approvers, At: metav1.NewTime(now.Truncate(time.Second)), WeighedBy: held.WeighedBy, Nodes: held.Nodes,
		Entries: held.Entries,
	})
}

// Used returns the UIDs of Approvals that have counted, without those that no longer exist.
func Used(before []types.UID, of, counted []v1alpha1.Approval) []types.UID {
	var used []types.UID
	for i := range of {
		uid := of[i].UID
		if slices.Contains(before, uid) || slices.ContainsFunc(counted, func(a v1alpha1.Approval) bool { return a.UID == uid }) {
			used = append(used, uid)
		}
	}
	slices.Sort(used)
	return used
}

// Instruction returns what a person does about what is held, for a commit status.
func Instruction(held *v1alpha1.HeldPlan) string {
	ask := "approve " + render.ShownDigest(held.Digest)
	if held.Needed > 1 {
		return fmt.Sprintf("%d of %d have approved; %s", len(held.Approvers), held.Needed, ask)
	}
	return ask
}

// Command returns the command that approves what is held.
func Command(sync *v1alpha1.NodeSync, digest string) string {
	return fmt.Sprintf("plumbline approve %s -n %s --digest %s", sync.Name, sync.Namespace, render.ShownDigest(digest))
}

// Sentence describes how to approve what is held, and who has approved it, for the end of a condition's message.
func Sentence(sync *v1alpha1.NodeSync) string {
	held := sync.Status.Held
	if held == nil {
		return ""
	}
	words := fmt.Sprintf("it %s; to approve just that: %s", held.Summary, Command(sync, held.Digest))
	if FromGit(sync.Spec.Guard) {
		words += ", or in " + render.FileName + ": " + Line(held.Digest)
	}
	if held.Needed > 1 {
		words += fmt.Sprintf(" (%d different principals are needed", held.Needed)
		if len(held.Approvers) > 0 {
			words += "; approved by " + strings.Join(held.Approvers, ", ")
		}
		words += ")"
	}
	if held.Message != "" {
		words += "; " + held.Message
	}
	return words
}

// InGit reports whether plumbline.yaml of a revision approves what is held. If the NodeSync does not allow that, or the
// approval was used before, held.Message says so.
func InGit(held *v1alpha1.HeldPlan, guard v1alpha1.Guard, digests, used []string, revision string) bool {
	switch {
	case held == nil || len(digests) == 0:
		return false
	case guard.ApproveFrom != v1alpha1.ApproveFromGit:
		held.Message = "the list approve in " + render.FileName + " does not count: spec.guard.approveFrom of the NodeSync is not Git"
		return false
	case held.Needed > 1:
		held.Message = "the list approve in " + render.FileName + " does not count: spec.guard.approvals asks for more than one person"
		return false
	case !slices.ContainsFunc(digests, func(typed string) bool { return render.NamesDigest(typed, held.Digest) }):
		held.Message = "the list approve in " + render.FileName + " has other digests"
		return false
	case slices.Contains(used, held.Digest):
		held.Message = "approve in " + render.FileName + " has this digest, which was used already: remove it, and add it again in a later push to approve it once more"
		return false
	}
	held.Approvers, held.Message = []string{render.FileName + " of " + render.ShortRevision(revision)}, ""
	return true
}

// UsedInGit returns the digests that have counted, without those that HEAD no longer approves: such a digest counts
// again once HEAD contains it again. There are at most as many as a list may contain.
func UsedInGit(before, digests []string) []string {
	var used []string
	for _, digest := range before {
		listed := slices.ContainsFunc(digests, func(typed string) bool { return render.NamesDigest(typed, digest) })
		if listed && !slices.Contains(used, digest) {
			used = append(used, digest)
		}
	}
	return used
}

// FromGit reports whether a commit may approve what is held.
func FromGit(guard v1alpha1.Guard) bool {
	return guard.ApproveFrom == v1alpha1.ApproveFromGit && (guard.Approvals == nil || *guard.Approvals <= 1)
}

// Line returns the line of plumbline.yaml that approves what is held.
func Line(digest string) string { return "approve: [" + render.ShownDigest(digest) + "]" }
