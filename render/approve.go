package render

import (
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// maxApprove is how many digests may be approved in plumbline.yaml: each counts once, and a list that
// nobody clears is one that nobody reads.
const maxApprove = 100

// shownLength is the length of a digest as it is shown: 26 characters of base32 carry 130 bits. Fewer than
// 128 bits would let a committer search for two plans that are shown alike.
const shownLength = 26

// shownDigest matches what ShownDigest returns.
var shownDigest = regexp.MustCompile(fmt.Sprintf(`^[a-z2-7]{%d}$`, shownLength))

// ShownDigest is the form in which people read, copy and type the digest of what is held: the first 130
// bits of a sha256:<hex> digest in base32 (RFC 4648) in lower case. It is one word of 26 characters, which
// leaves room for a sentence in the 140 characters of a commit status. Any other text is returned as it is.
func ShownDigest(digest string) string {
	digits, found := strings.CutPrefix(digest, "sha256:")
	raw, err := hex.DecodeString(digits)
	if shown := strings.ToLower(base32.StdEncoding.EncodeToString(raw)); found && err == nil && len(shown) >= shownLength {
		return shown[:shownLength]
	}
	return digest
}

// NamesDigest reports whether a person who wrote typed means a digest: typed is the digest itself or its
// shown form, each in full.
func NamesDigest(typed, digest string) bool {
	return typed != "" && (typed == digest || typed == ShownDigest(digest))
}

// checkApprove accepts digests in full only: a prefix can belong to two plans.
func (k *Karpenter) checkApprove() []problem {
	if n := len(k.Approve); n > maxApprove {
		return []problem{{"approve", fmt.Sprintf("approve has %d digests, and may have %d: remove those of what was done", n, maxApprove)}}
	}
	var found []problem
	for i, digest := range k.Approve {
		if !sha256Digest.MatchString(digest) && !shownDigest.MatchString(digest) {
			found = append(found, problem{
				fmt.Sprintf("approve[%d]", i),
				fmt.Sprintf("approve entry %q is not the digest of a plan: copy all %d characters that plumbline shows, or sha256: and 64 digits as in status.held.digest of the NodeSync", digest, shownLength),
			})
		}
	}
	return found
}
