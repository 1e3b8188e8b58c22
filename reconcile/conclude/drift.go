package conclude

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// maxDrift is how many objects status.drift names, the newest.
	maxDrift = 20
	// driftLasts is for how long it names one that was corrected.
	driftLasts = 24 * time.Hour
)

// Drift is an object that another client has changed or deleted.
type Drift struct {
	Ref render.Ref `redact:"-"`
	// What says which fields, from what to what.
	What string
	// By are the field managers that own them, as far as they are known.
	By []string `redact:"-"`
	// Corrected says that this pass has corrected it, and Reported that it is left, as
	// spec.drift says.
	Corrected, Reported bool
}

// DriftsOf are those of a Plan, by what was written of it; not nil.
func DriftsOf(p *plan.Plan, written []apply.Written) []Drift {
	corrected := map[render.Ref]bool{}
	for _, w := range written {
		corrected[w.Ref] = true
	}
	found := []Drift{}
	for i := range p.Changes {
		c := &p.Changes[i]
		drifts, fields := c.Drift, c.Fields
		if !drifts && c.Action == plan.Hold { // the other fields differ by a commit
			drifts, fields = len(c.Edited) > 0, c.Edited
		}
		ours := c.Reason == plan.ReasonReturned && len(c.Editors) == 0 // what a removal or a drain has taken
		if !drifts || ours || c.Action == plan.Wait || c.Reason == plan.ReasonOwnership {
			continue
		}
		found = append(found, Drift{Ref: c.Ref, What: driftWords(c.Live, fields), By: c.Editors, Corrected: corrected[c.Ref], Reported: c.Action == plan.Drifted})
	}
	return found
}

// driftWords say what another client has changed: from Git's value to that of the cluster.
func driftWords(live *unstructured.Unstructured, fields []plan.Field) string {
	if live == nil {
		return "deleted"
	}
	words := make([]string, 0, len(fields))
	for _, f := range fields {
		words = append(words, fmt.Sprintf("%s: %s → %s", f.Path, orAbsent(f.To), orAbsent(f.From)))
	}
	return finding.Few(words, "; ")
}

func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return finding.Bounded(value, maxDriftValue)
}

// maxDriftValue is how much of a value is shown.
const maxDriftValue = 80

// left are the drifts that are only reported.
func (s *Step) left() []render.Ref {
	var refs []render.Ref
	for _, d := range s.Drifts {
		if d.Reported {
			refs = append(refs, d.Ref)
		}
	}
	return refs
}

// noteDrift keeps in the status what differs from Git by no commit, and what was corrected of late.
func (s *Step) noteDrift() {
	if s.Drifts == nil {
		return
	}
	now := s.timestamp()
	var list []v1alpha1.DriftedObject
	for _, d := range s.Drifts {
		o := v1alpha1.DriftedObject{Kind: d.Ref.Kind, Name: d.Ref.Name, Message: finding.Bounded(d.What, maxRemovalMessage), By: d.By, Since: now}
		if before := s.drifted(o); before != nil && before.CorrectedAt == nil {
			o.Since = before.Since
		}
		if d.Corrected {
			o.CorrectedAt = &now
		}
		list = append(list, o)
	}
	for _, before := range s.Before.Status.Drift {
		again := slices.ContainsFunc(list, func(o v1alpha1.DriftedObject) bool {
			return o.Kind == before.Kind && o.Name == before.Name && (before.CorrectedAt == nil || o.Message == before.Message)
		})
		if again {
			continue
		}
		if before.CorrectedAt == nil { // another client has reverted it, or Git says so now
			before.CorrectedAt = &now
		}
		if s.Began.Sub(before.CorrectedAt.Time) < driftLasts {
			list = append(list, before)
		}
	}
	s.Sync.Status.Drift = list[:min(len(list), maxDrift)]
}

// drifted is what the status said of an object before.
func (s *Step) drifted(o v1alpha1.DriftedObject) *v1alpha1.DriftedObject {
	for i := range s.Before.Status.Drift {
		if before := &s.Before.Status.Drift[i]; before.Kind == o.Kind && before.Name == o.Name {
			return before
		}
	}
	return nil
}

// sayDrift has the commit told what differs from it by no commit: objects, nodes, and instances.
func (s *Step) sayDrift(u queue.Update) (queue.Update, bool) {
	if s.Drifts == nil {
		return u, false
	}
	u.Subject, u.State, u.Description = queue.Drift, report.Success, "no drift"
	u.Inputs = "" // what becomes of older commits is not drift
	var open, corrected []string
	for _, o := range s.Sync.Status.Drift {
		words := fmt.Sprintf("%s/%s %s", o.Kind, o.Name, o.Message)
		if len(o.By) > 0 {
			words += " by " + strings.Join(o.By, ", ")
		}
		if o.CorrectedAt == nil {
			open = append(open, words)
		} else {
			corrected = append(corrected, words)
		}
	}
	r := s.Sync.Status.Rollout
	switch {
	case len(open) > 0:
		u.State, u.Description = report.Failure, fmt.Sprintf("%s: %s", differ(len(open), "object"), finding.Few(open, "; "))
	case r != nil && r.Revision == "" && (r.Outdated > 0 || len(r.StaticPools) == 0):
		u.State, u.Description = report.Failure, "nodes are outdated by no commit of this NodeSync: "+nodes.Uncommitted(*r)
	case len(s.Sync.Status.Terminations) > 0:
		u.State, u.Description = report.Failure, TerminationWords(&s.Sync.Status)
	case len(corrected) > 0:
		u.Description = "no drift; edits corrected: " + finding.Few(corrected, "; ")
	}
	if u.State == report.Success {
		s.sayInstances(&u)
	}
	return u, true
}

// differ says that so many do.
func differ(n int, what string) string {
	return english.Plural(n, what, "") + " " + english.PluralWord(n, "differs", "differ")
}

// sayApplied has the commit told whether all of it is applied, whatever the verdict on its nodes.
func (s *Step) sayApplied(u queue.Update, v Verdict) (queue.Update, bool) {
	u.Subject = queue.Applied
	if v.ofNodes {
		v = s.stateVerdict()
		u.State, u.Description = v.CommitState(), v.CommitText()
	}
	u.Ended = nil // that is about its nodes
	if s.appliedAll() {
		u.State, u.Description = report.Success, "applied"
	}
	return u, u.State != report.Success || u.Description == "applied"
}

// appliedAll says that nothing of the commit is yet to be applied: definitions, charts, or removals that are
// held.
func (s *Step) appliedAll() bool {
	charts := s.NotUpgraded == nil && s.uncharted() == nil && !slices.ContainsFunc(s.Waits, func(w finding.Wait) bool { return w.On == "charts" })
	return render.CommitOf(s.Sync.Status.LastAppliedRevision) == s.Commit && s.Unwritten == nil && charts && !s.holds()
}
