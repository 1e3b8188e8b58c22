package approval

import (
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// InGit says whether what is held is approved by plumbline.yaml of a revision. Where the NodeSync does not
// count that, or has counted it before, what is held says so.
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
		held.Message = "approve in " + render.FileName + " has this digest, which was used already: take it out, and add it again in a later push to approve it once more"
		return false
	}
	held.Approvers, held.Message = []string{render.FileName + " of " + render.ShortRevision(revision)}, ""
	return true
}

// UsedInGit are the digests that have counted, without those that HEAD approves no more: such a one
// counts again once HEAD has it again. They are as many as a list may have at the most.
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

// FromGit says whether a commit may approve what is held.
func FromGit(guard v1alpha1.Guard) bool {
	return guard.ApproveFrom == v1alpha1.ApproveFromGit && (guard.Approvals == nil || *guard.Approvals <= 1)
}

// Line is what a commit has in plumbline.yaml that approves what is held.
func Line(digest string) string { return "approve: [" + render.ShownDigest(digest) + "]" }
