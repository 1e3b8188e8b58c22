package render

import "fmt"

// maxApprove is how many digests may be approved in plumbline.yaml: each counts once, and a list that
// nobody clears is one that nobody reads.
const maxApprove = 100

// checkApprove lets through whole digests: a short one, as messages have it, may be of two plans.
func (k *Karpenter) checkApprove() []problem {
	if n := len(k.Approve); n > maxApprove {
		return []problem{{"approve", fmt.Sprintf("approve has %d digests, and may have %d: remove those of what was done", n, maxApprove)}}
	}
	var found []problem
	for i, digest := range k.Approve {
		if !sha256Digest.MatchString(digest) {
			found = append(found, problem{
				fmt.Sprintf("approve[%d]", i),
				fmt.Sprintf("approve entry %q is no digest of what is held: write it whole, sha256: and 64 digits, as status.held.digest of the NodeSync has it", digest),
			})
		}
	}
	return found
}
