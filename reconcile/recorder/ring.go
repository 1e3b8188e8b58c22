package recorder

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ring is where the Records of one NodeSync stand: number n in slot n modulo all slots, so that
// just the newest are kept, and one ConfigMap has the slots of one segment.
type ring struct {
	// segments of slots each.
	segments, slots int
}

// usual keeps the newest 2,000 of a NodeSync, in ten ConfigMaps of at most 60 kB.
var usual = ring{segments: 10, slots: 200}

// most is how many Records it keeps.
func (r ring) most() int { return r.segments * r.slots }

// segmentOf is where a number stands.
func (r ring) segmentOf(seq int) int { return seq % r.most() / r.slots }

// segment is the lines of one, by number.
type segment map[int]string

// put puts a line into its slot, unless a newer one stands there.
func (s segment) put(r ring, seq int, line string) {
	for other := range s {
		if other != seq && other%r.most() == seq%r.most() {
			if other > seq {
				return
			}
			delete(s, other)
		}
	}
	s[seq] = line
}

// String is the segment as text, in the order of the numbers.
func (s segment) String() string {
	var text strings.Builder
	for _, seq := range slices.Sorted(maps.Keys(s)) {
		text.WriteString(s[seq] + "\n")
	}
	return text.String()
}

// segmentOf reads a text. Lines that are no Records are left out: a ConfigMap is data that
// others can write.
func parseSegment(text string) segment {
	s := segment{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number, _, _ := strings.Cut(line, "\t")
		if seq, err := strconv.Atoi(number); err == nil && seq >= 0 {
			s[seq] = line
		}
	}
	return s
}
