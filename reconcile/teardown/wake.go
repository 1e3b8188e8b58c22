package teardown

import (
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// wake asks for a pass when EC2 may be asked again, and when the removal would
// have stood still for too long.
func (d *drive) wake(it *item) {
	d.wakeForBudgets(it)
	if !it.known || it.after.Phase == v1alpha1.RemovalHeld || it.after.Phase == v1alpha1.RemovalGone || it.after.Drained() {
		return
	}
	if it.seen.Cloud.Open && (it.after.Phase == v1alpha1.RemovalVerifyingCloud || wants[AskEC2](it)) {
		at := d.result.AskedAt.Add(d.pause(firstQuestion(it.after)))
		if !at.After(d.Now) {
			at = d.Now.Add(max(d.AskEvery, soon)) // it was due, and something came before it
		}
		d.wakeAt(at)
	}
	switch it.after.Reason {
	case ReasonGrace:
		d.wakeAt(it.after.RecordedAt.Add(d.Pace.Grace))
	case ReasonPodsPending, ReasonControllerNotReady, ReasonOtherNodeSync, ReasonRecordFull:
		// Nothing watches pods, leases and the record, and the Plan is to see what goes elsewhere.
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	}
	d.wakeForReplacing(it)
	d.wakeForDiagnosis(it)
	// A stall that is overdue was not seen: the pass failed before, and is repeated
	// for that.
	if at := it.after.LastProgress.Add(d.StallAfter); it.after.Stalled == nil && !inLine(it.after.Reason) && at.After(d.Now) {
		d.wakeAt(at)
	}
}

// wakeForBudgets asks for a pass when disruption budgets are to be given back later.
func (d *drive) wakeForBudgets(it *item) {
	if slices.ContainsFunc(it.actions, func(a Action) bool { restore, is := a.(RestoreGrowth); return is && restore.Paced }) {
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	}
}

// wakeForReplacing asks for a pass when what Karpenter may replace is to be lent again, what it does
// not replace is to be looked for, or a window of the pool's budgets may have opened.
func (d *drive) wakeForReplacing(it *item) {
	r := it.seen.Replacing
	switch {
	case it.after.Reason == ReasonFrozen && it.seen.Frozen == "":
		d.wakeAt(d.Now.Add(time.Minute))
	case it.after.Phase != v1alpha1.RemovalDraining || !it.seen.replaces() || len(it.seen.untouched()) == 0:
	case (r == nil || r.Nodes == 0) && it.seen.disrupting() > 0: // a watch tells when it has gone
	case r == nil || r.Nodes == 0:
		d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
	default:
		if !r.Until.IsZero() {
			d.wakeAt(r.Until.Add(-renewed))
		}
		if it.seen.disrupting() == 0 {
			d.wakeAt(it.after.LastProgress.Add(idle))
			if it.seen.idles(it.after, d.Now) {
				d.wakeAt(d.Now.Add(patience(it.after, d.Now)))
			}
		}
	}
}

func (d *drive) wakeAt(at time.Time) {
	if at.Before(d.Now) {
		at = d.Now
	}
	if d.result.Again.IsZero() || at.Before(d.result.Again) {
		d.result.Again = at
	}
}
