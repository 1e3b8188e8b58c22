package source

import (
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// longestChain is of how many deltas an object may be made, one upon the other: to read it
// each of them is read. Git makes chains of 50, and of 250 with --aggressive.
const longestChain = 300

// made says what a delta of a pack is applied to.
type made struct {
	// at is where the delta stands in the pack, and on where the object that it is applied
	// to does: 0 where it is named by its hash.
	at, on int64
	hash   plumbing.Hash
}

// deltas are those of one pack, in its order.
type deltas []made

// add notes an object of the pack.
func (d *deltas) add(h *packfile.ObjectHeader) {
	if h.Type.IsDelta() {
		*d = append(*d, made{at: h.Offset, on: h.OffsetReference, hash: h.Reference})
	}
}

// check refuses chains that are too long, by the index of the pack. Errors: *LimitError, or
// the index's.
func (d deltas) check(index *idxfile.MemoryIndex) error {
	on := make(map[int64]int64, len(d))
	for _, one := range d {
		if one.on == 0 {
			offset, err := index.FindOffset(one.hash)
			if err != nil {
				return err
			}
			one.on = offset
		}
		on[one.at] = one.on
	}
	depths := make(map[int64]int, len(on))
	for at := range on {
		var above []int64
		depth, known := 0, false
		for {
			if depth, known = depths[at]; known {
				break
			}
			base, delta := on[at]
			if !delta {
				break
			}
			if above = append(above, at); len(above) > longestChain {
				return tooLong()
			}
			at = base
		}
		if depth+len(above) > longestChain {
			return tooLong()
		}
		for i := len(above) - 1; i >= 0; i-- {
			depth++
			depths[above[i]] = depth
		}
	}
	return nil
}

func tooLong() error {
	return &LimitError{What: "the number of deltas that one object of the repository is made of", Limit: longestChain, Unit: "deltas"}
}
