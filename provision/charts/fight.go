package charts

import (
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// Who changes an object again after it was put right so often, all within so
// long, fights for it. Nobody wins that, and each round is a revision.
const (
	rounds = 3
	truce  = time.Hour
)

// putRight begins the description of a revision that repairs a release. What
// follows names the objects, so that the release itself tells of a fight.
const putRight = "put right: "

// repairOf is the description of a revision that puts objects right.
func repairOf(moved []Move) string {
	objects := make([]string, 0, len(moved))
	for _, m := range moved {
		objects = append(objects, m.Object)
	}
	return putRight + strings.Join(objects, ", ")
}

// repairs are the times at which each object was put right by the last revisions
// of a release, the newest first. One that brought something else ends them.
// history has the newest first.
func repairs(history []*release.Release) map[string][]time.Time {
	found := map[string][]time.Time{}
	for _, revision := range history {
		objects, repair := strings.CutPrefix(revision.Info.Description, putRight)
		if !repair || revision.Labels[revisionLabel] != strconv.Itoa(revision.Version) {
			break
		}
		for _, object := range strings.Split(objects, ", ") {
			found[object] = append(found[object], revision.Info.LastDeployed.Time)
		}
	}
	return found
}

// fought says whether a move is one more round of a fight. Where it is not kept
// when it was made, it counts as made now.
func fought(m Move, repaired []time.Time, now time.Time) bool {
	if len(repaired) < rounds {
		return false
	}
	at := m.At
	if at.IsZero() {
		at = now
	}
	return repaired[0].Sub(repaired[rounds-1]) <= truce && at.Sub(repaired[0]) <= truce
}
