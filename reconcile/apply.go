package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// writers is how many objects are written at a time.
const writers = 8

// applyPlan writes what changed. Arrivals wait for the charts; what exists
// already, a revert above all, waits for the CRDs alone, unless the charts are
// being changed.
func (p *pass) applyPlan(ctx context.Context) error {
	if !p.stages.CRDs.Ready {
		if p.stages.CRDs.Message != "" { // of a first install that is written down the wait is noted
			p.Wait("CRDs", p.stages.CRDs.Message)
		}
		return nil
	}
	if !p.stages.Controller.Ready {
		p.Wait("Controller", cmp.Or(p.stages.Controller.Message, "it is looked at once the charts are as Git says"))
	}
	if p.stages.Changing {
		return nil
	}
	// Where each write is slow, a newer commit would wait for all of them.
	bounded, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	p.applied = apply.Apply(bounded, p.Client, p.due(), apply.Options{
		Owner:       plan.OwnerOf(p.sync.Namespace, p.sync.Name),
		Uncached:    p.Uncached,
		Arrivals:    &p.arrivals,
		Concurrency: writers,
		StillLeader: p.Settings.StillLeader,
	})
	p.noteMutated()
	p.noteForms()
	p.tellWritten()
	p.noteUnwritten()
	return p.failedWrites()
}

// due are the Changes that can be written now.
func (p *pass) due() []plan.Change {
	return slices.DeleteFunc(slices.Clone(p.plan.Changes), func(c plan.Change) bool {
		return !p.stages.Controller.Ready && c.Action == plan.Create || p.stillMutated(c) != nil
	})
}

// tellWritten says what was done, and whose edit was put right.
func (p *pass) tellWritten() {
	byRef := map[render.Ref]plan.Change{}
	for _, c := range p.plan.Changes {
		byRef[c.Ref] = c
	}
	var applied, warnings []string
	for _, w := range p.applied.Written {
		warnings = append(warnings, byRef[w.Ref].Warnings...)
		switch c := byRef[w.Ref]; {
		case c.Drift && c.Action == plan.Create:
			p.Wrote(corev1.EventTypeWarning, "DriftCorrected", fmt.Sprintf("%s was missing and is recreated", w.Ref))
		case c.Drift && c.Action == plan.Update, len(c.Editors) > 0:
			p.Wrote(corev1.EventTypeWarning, "DriftCorrected", fmt.Sprintf("%s: %s, edited by %s, is as Git says again", w.Ref, fieldPaths(c.Fields), editors(c.Editors)))
		default:
			applied = append(applied, fmt.Sprintf("%s: %s", w.Ref, c.Action))
		}
	}
	if len(applied) > 0 {
		p.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonApplied, finding.Some(applied))
	}
	if len(warnings) > 0 {
		p.Wrote(corev1.EventTypeWarning, "NodesDisrupted", finding.Some(warnings))
	}
}

func editors(managers []string) string {
	if len(managers) == 0 {
		return "someone"
	}
	return strings.Join(managers, ", ")
}

func fieldPaths(fields []plan.Field) string {
	if len(fields) == 0 {
		return "the object"
	}
	paths := make([]string, 0, len(fields))
	for _, f := range fields {
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, ", ")
}

// noteUnwritten notes the Changes that write nothing: what waits, what is
// reported alone.
func (p *pass) noteUnwritten() {
	for _, c := range p.plan.Changes {
		switch c.Action {
		case plan.Wait:
			p.Wait(c.WaitsFor, c.Message)
		case plan.Drifted:
			p.Drifted = append(p.Drifted, c.Ref)
		case plan.Hold:
			p.Held = append(p.Held, conclude.Held{Ref: c.Ref, Message: c.Message})
		case plan.Create:
			if !p.stages.Controller.Ready {
				p.Wait("Controller", c.Ref.String()+" arrives when the controller is there")
			}
		case plan.None, plan.Update, plan.Adopt, plan.TakeBack, plan.Conflict, plan.Refuse:
		}
	}
	for _, message := range p.plan.Warnings {
		p.Warn("Warning", message)
	}
}

// failedWrites says what a person, or another try, has to put right; the rest of
// the Plan is written by then. What was overtaken is looked at again.
func (p *pass) failedWrites() error {
	errs := fault.Apart(p.plan.Err())
	for _, c := range p.plan.Changes {
		if err := p.stillMutated(c); err != nil && !p.attemptedNow(c.Ref) {
			errs = append(errs, err)
		}
	}
	for _, f := range p.applied.Failed {
		switch fault.Classify(f.Err).Class {
		case fault.Superseded:
			// Not at once: the cache has yet to learn of what overtook it.
			p.WakeBy(p.now.Add(finding.Soon))
			p.Wait(f.Ref.String(), f.Err.Error())
		case fault.Waiting:
			p.Wait(f.Ref.String(), f.Err.Error())
		case fault.Transient, fault.Terminal:
			errs = append(errs, f.Err)
		}
	}
	p.Unwritten = fault.Several(errs)
	if p.Unwritten == nil && p.wholeWritten() {
		p.sync.Status.LastAppliedRevision, p.sync.Status.LastAppliedInputs = p.snapshot.Revision, p.want.Set.Inputs.Fingerprint()
	}
	return nil
}

// wholeWritten says whether every arrival and change of the revision stands in
// the cluster.
func (p *pass) wholeWritten() bool {
	written := map[render.Ref]bool{}
	for _, w := range p.applied.Written {
		written[w.Ref] = true
	}
	for _, c := range p.plan.Changes {
		if c.Action != plan.Drifted && !written[c.Ref] {
			return false
		}
	}
	return true
}
