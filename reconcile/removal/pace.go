package removal

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// maxTerminatedAtOnce is how many NodeClaims of a pool one reconcile terminates if it reads the pods of their nodes
// first.
const maxTerminatedAtOnce = 20

// Pace is how fast NodeClaims are terminated.
type Pace struct {
	// Grace is how long a removal must have been recorded before it starts.
	Grace time.Duration
	// All terminates all NodeClaims of a pool in one step, and waits for no pods, as a drain does.
	All bool
	// MaxUnavailable is how many NodeClaims may be terminating at a time: a number, or a percentage of those that
	// existed when the removals were recorded.
	MaxUnavailable intstr.IntOrString
	// AwaitPods makes the next NodeClaims wait for the pods of those before.
	AwaitPods bool
	// Replaces lets Karpenter replace nodes before it terminates them, if it can.
	Replaces bool
}

// Turn is what one removal may terminate in a reconcile.
type Turn struct {
	// Terminations is how many NodeClaims may be terminated now.
	Terminations int
	// Most is how many NodeClaims of the removal may be terminating at a time; 0 means all.
	Most int
	// AwaitPods makes them wait for the pods of those that were terminated before, and Replaces for their replacements.
	AwaitPods, Replaces bool
	// Behind is the removal that has used up the limit that all removals share.
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

// share is how much of the pace of all removals one of them uses.
type share struct {
	removal string
	// recorded is the number of NodeClaims when it was recorded, leaving the number of those that are terminating or
	// are about to be, and left the number of those that were not deleted.
	recorded, leaving, left int
	// granted is the number of those that Karpenter may start to replace at any time. waits reports whether the removal
	// waits until others are terminated.
	granted int
	waits   bool
}

// limit returns how many of a number of NodeClaims may be terminating at a time.
func (p Pace) limit(claims int) int {
	return v1alpha1.ShareOf(p.MaxUnavailable, claims)
}

// turn returns the turn of one of several removals, oldest first.
func (p Pace) turn(all []share, of int) Turn {
	if p.All {
		return Turn{Terminations: math.MaxInt}
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
			leaving = math.MaxInt32 // the older removal goes first
		}
		if (s.leaving > 0 || s.granted > 0 || i < of && s.waits) && t.Behind == "" {
			t.Behind = s.removal
		}
	}
	t.Terminations = max(0, min(t.Most-mine.leaving, p.limit(recorded)-leaving, maxTerminatedAtOnce))
	if t.Terminations > 0 || mine.leaving > 0 {
		t.Behind = ""
	}
	return t
}

// share returns the share of a removal, given its record.
func (it *item) share(of record) share {
	s := share{removal: it.before.Kind + "/" + it.before.Name, recorded: of.NodeClaims}
	if it.notStarted(of) {
		return share{removal: s.removal}
	}
	s.left = len(it.seen.untouched())
	s.leaving, s.granted = len(it.seen.NodeClaims)-s.left, it.seen.granted()
	if it.seen.alive() && it.seen.Static && it.seen.Replicas > 0 {
		s.leaving += max(0, s.left-it.seen.Replicas) // Karpenter is about to choose them
	}
	return s
}

// notStarted reports whether a removal is held and, by its record, has terminated no node: anything that terminates in
// its pool has another cause.
func (it *item) notStarted(of record) bool {
	return it.seen.Hold != nil && it.seen.Exists && len(of.Workloads) == 0
}

// terminatingNow returns how many NodeClaims a removal's actions terminate in this reconcile, or may terminate once its
// questions are answered.
func (it *item) terminatingNow() int {
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
			return min(it.seen.Turn.Terminations, len(it.seen.undeleted()))
		}
	}
	return n
}

// podReadInterval returns the interval at which awaited pods are read again, because there is no watch on them. It
// grows with the time since the last progress.
func podReadInterval(r v1alpha1.Removal, now time.Time) time.Duration {
	return min(max(now.Sub(r.LastProgress.Time)/4, 2*time.Second), 30*time.Second)
}
