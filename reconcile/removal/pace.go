package removal

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// endsAtOnce is how many NodeClaims of a pool one reconcile ends where the pods of
// their nodes are read before.
const endsAtOnce = 20

// Pace is how fast NodeClaims are ended.
type Pace struct {
	// Grace is how long a removal stands recorded before anything of it begins.
	Grace time.Duration
	// All ends all NodeClaims of a pool in one step, and waits for no pods: a drain does.
	All bool
	// MaxUnavailable is how many NodeClaims may be leaving at a time: a number, or
	// a percentage of those that there were when the removals were recorded.
	MaxUnavailable intstr.IntOrString
	// AwaitPods has the next NodeClaims wait for the pods of those before.
	AwaitPods bool
	// Replaces has Karpenter replace nodes instead of terminating them, if it can.
	Replaces bool
}

// Turn is what one removal may end in a reconcile.
type Turn struct {
	// Ends is how many NodeClaims may be ended now.
	Ends int
	// Most is how many of the removal may be leaving at a time; 0 for all.
	Most int
	// AwaitPods has them wait for the pods of those that were ended before, and Replaces for their
	// replacements.
	AwaitPods, Replaces bool
	// Behind is the removal that has used up what all may end together.
	Behind string
}

func (t Turn) message() string {
	if t.Most == 0 {
		return "its NodeClaims are drained and terminated"
	}
	if t.Replaces {
		return fmt.Sprintf("its NodeClaims are replaced, drained and terminated, at most %d at a time", t.Most)
	}
	return fmt.Sprintf("its NodeClaims are drained and terminated, at most %d at a time", t.Most)
}

// share is what one removal has to do with the pace of all.
type share struct {
	removal string
	// recorded are the NodeClaims when it was recorded, leaving those that are
	// ending now or are about to, and left those that nobody has ended.
	recorded, leaving, left int
	// granted are those that Karpenter may begin to replace at any time, and waits reports that it waits
	// for others to end.
	granted int
	waits   bool
}

// limit is how many of a number of NodeClaims may be leaving at a time.
func (p Pace) limit(claims int) int {
	return v1alpha1.ShareOf(p.MaxUnavailable, claims)
}

// turn is that of one of several removals, oldest first.
func (p Pace) turn(all []share, of int) Turn {
	if p.All {
		return Turn{Ends: math.MaxInt}
	}
	mine := all[of]
	t := Turn{Most: p.limit(mine.recorded), AwaitPods: p.AwaitPods, Replaces: p.Replaces}
	recorded, leaving := 0, 0
	for i, s := range all {
		recorded += s.recorded
		leaving += s.leaving
		if i == of {
			continue
		}
		leaving += s.granted
		if i < of && s.waits {
			leaving = math.MaxInt32 // it goes before
		}
		if (s.leaving > 0 || s.granted > 0 || i < of && s.waits) && t.Behind == "" {
			t.Behind = s.removal
		}
	}
	t.Ends = max(0, min(t.Most-mine.leaving, p.limit(recorded)-leaving, endsAtOnce))
	if t.Ends > 0 || mine.leaving > 0 {
		t.Behind = ""
	}
	return t
}

// share is that of a removal as it is seen, with its record.
func (it *item) share(of record) share {
	s := share{removal: it.before.Kind + "/" + it.before.Name, recorded: of.NodeClaims}
	if it.unbegun(of) {
		return share{removal: s.removal}
	}
	s.left = len(it.seen.untouched())
	s.leaving, s.granted = len(it.seen.NodeClaims)-s.left, it.seen.granted()
	if it.seen.alive() && it.seen.Static && it.seen.Replicas > 0 {
		s.leaving += max(0, s.left-it.seen.Replicas) // Karpenter is about to choose them
	}
	return s
}

// unbegun reports whether a removal is held and, by its record, has ended no node: what ends of its pool is
// not its doing.
func (it *item) unbegun(of record) bool {
	return it.seen.Hold != nil && it.seen.Exists && len(of.Workloads) == 0
}

// ending is how many NodeClaims a removal ends in this pass by its actions, or
// may end once its questions are answered.
func (it *item) ending() int {
	n := 0
	for _, a := range it.actions {
		switch a := a.(type) {
		case DeleteNodeClaim:
			n++
		case Replace:
			return 0 // it is granted
		case ScaleTo:
			n += max(0, len(it.seen.undeleted())-a.Replicas)
		case Reread, ReadPods, AskLeader:
			return min(it.seen.Turn.Ends, len(it.seen.undeleted()))
		}
	}
	return n
}

// patience is how long it takes until pods are read again that a removal waits
// for: nothing watches them. It grows with the time that nothing has moved.
func patience(r v1alpha1.Removal, now time.Time) time.Duration {
	return min(max(now.Sub(r.LastProgress.Time)/4, 2*time.Second), 30*time.Second)
}
