// Package changes takes one pass's Plan to the cluster: which of its Changes are due, what
// became of them, and how far the definitions are. A Plan, the readiness of the charts' Stages
// and what lives go in; what was written, held, drifted or could not be written comes out.
// Package apply below it writes. It decides nothing that a Plan decides, and never waits.
package changes

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// writers is how many objects are written at a time.
const writers = 8

// Tools are what a Step works with, the same for all NodeSyncs.
type Tools struct {
	Client   apply.Client
	Uncached client.Reader
	// Arrivals is shared by all Steps of the process.
	Arrivals *apply.Arrivals
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Step is the work on the definitions of one pass over one NodeSync.
type Step struct {
	Tools
	finding.Findings

	Owner plan.Owner
	Plan  *plan.Plan
	Set   *render.Set
	// Live is what lives of the definitions.
	Live plan.Live
	// CRDs and Controller say how far the first two Stages are, and Changing that the
	// charts are being changed.
	CRDs, Controller observe.Readiness
	Changing         bool
	Memory           *Memory

	Now time.Time
	// Timeout is how long all writes together may take, and Retry how long what was changed
	// by something in the cluster is left as it is.
	Timeout, Retry time.Duration
	// StallAfter is how long another NodeSync may be waited for until that counts as stalled.
	StallAfter time.Duration
	// Insist says that a person has asked for this pass.
	Insist bool

	applied apply.Result
}

// Result is what a Step comes to.
type Result struct {
	Written []apply.Written
	// Unwritten joins the errors of objects that could not be written; the rest of the
	// Plan was.
	Unwritten error
	// Whole says that every arrival and change of the revision stands in the cluster.
	Whole bool
	// Drifted are objects that differ from Git and are only reported.
	Drifted []render.Ref
	// Held are the changes that would disrupt more nodes than the guard allows.
	Held []plan.Change
}

// Memory is what one pass leaves to the next so that unchanged things are not done
// again. The zero value remembers nothing.
type Memory struct {
	// forms are the definitions as each was in the cluster last.
	forms forms
	// mutated are the objects that something in the cluster changes at each write.
	mutated mutated
	answers answers
	// fights are the objects whose edits were reverted.
	fights fights
}

// Run writes what changed. Arrivals wait for the charts; what exists
// already, a revert above all, waits for the CRDs only, unless the charts are
// being changed.
func (s *Step) Run(ctx context.Context) Result {
	if !s.CRDs.Ready {
		if s.CRDs.Message != "" { // of a first install that is recorded the wait is noted
			s.Wait("CRDs", s.CRDs.Message)
		}
		return Result{}
	}
	if !s.Controller.Ready {
		s.Wait("Controller", cmp.Or(s.Controller.Message, "it is looked at once the charts are as Git says"))
	}
	if s.Changing {
		return Result{}
	}
	// Where each write is slow, a newer commit would wait for all of them.
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.applied = apply.Apply(bounded, s.Client, s.Due(), apply.Options{
		Owner:       s.Owner,
		Uncached:    s.Uncached,
		Arrivals:    s.Arrivals,
		Concurrency: writers,
		StillLeader: s.StillLeader,
	})
	s.noteAnswers()
	s.noteMutated()
	s.noteReverts()
	s.noteForms()
	s.tellWritten()
	result := Result{Written: s.applied.Written}
	result.Drifted, result.Held = s.noteUnwritten()
	result.Unwritten = s.failedWrites()
	result.Whole = s.wholeWritten() && (result.Unwritten == nil || onlyFought(result.Unwritten))
	return result
}

// Due are the Changes that can be written now.
func (s *Step) Due() []plan.Change {
	return slices.DeleteFunc(slices.Clone(s.Plan.Changes), func(c plan.Change) bool {
		_, _, waits := s.repoints(c)
		return waits || !s.Controller.Ready && c.Action == plan.Create || s.stillMutated(c) != nil || s.fought(c) != nil
	})
}

// Writes is how many Changes Run is about to write.
func (s *Step) Writes() int {
	if !s.CRDs.Ready || s.Changing {
		return 0
	}
	writes := 0
	for _, c := range s.Due() {
		switch c.Action {
		case plan.Create, plan.Update, plan.Adopt, plan.TakeBack:
			writes++
		case plan.None, plan.Wait, plan.Drifted, plan.Hold, plan.Conflict, plan.Refuse:
		}
	}
	return writes
}

// noteUnwritten notes the Changes that write nothing: what waits, what is
// only reported.
func (s *Step) noteUnwritten() (drifted []render.Ref, held []plan.Change) {
	for _, c := range s.Plan.Changes {
		switch c.Action {
		case plan.Wait:
			s.WaitFor(c.WaitsFor, c.Message, c.WaitsSince, s.StallAfter)
		case plan.Drifted:
			drifted = append(drifted, c.Ref)
		case plan.Hold:
			held = append(held, c)
		case plan.Create:
			if !s.Controller.Ready {
				s.Wait("Controller", c.Ref.String()+" arrives when the controller is there")
			}
		case plan.Update, plan.Adopt, plan.TakeBack:
			if class, message, waits := s.repoints(c); waits {
				s.Wait(class.String(), message)
			}
		case plan.None, plan.Conflict, plan.Refuse:
		}
	}
	for _, message := range s.Plan.Warnings {
		s.Warn(v1alpha1.ReasonWarning, message)
	}
	return drifted, held
}

// failedWrites joins what a person, or another try, has to correct; the rest of
// the Plan is written by then. What was overtaken is looked at again.
func (s *Step) failedWrites() error {
	errs, written := fault.Apart(s.Plan.Err()), s.written()
	for _, c := range s.Plan.Changes {
		if err := s.stillMutated(c); err != nil && !s.attemptedNow(c.Ref) {
			errs = append(errs, err)
		}
		if err := s.fought(c); err != nil && !written[c.Ref] {
			errs = append(errs, err)
		}
	}
	for _, f := range s.applied.Failed {
		switch fault.Classify(f.Err).Class {
		case fault.Superseded:
			// Not at once: the cache has yet to learn of what overtook it.
			s.WakeBy(s.Now.Add(finding.Soon))
			s.Wait(f.Ref.String(), f.Err.Error())
		case fault.Waiting:
			s.Wait(f.Ref.String(), f.Err.Error())
		case fault.Transient, fault.Terminal:
			errs = append(errs, f.Err)
		}
	}
	return fault.Several(errs)
}

// written are the objects that this pass has written.
func (s *Step) written() map[render.Ref]bool {
	written := map[render.Ref]bool{}
	for _, w := range s.applied.Written {
		written[w.Ref] = true
	}
	return written
}

// wholeWritten says whether every arrival and change of the revision stands in
// the cluster.
func (s *Step) wholeWritten() bool {
	written := s.written()
	for _, c := range s.Plan.Changes {
		if c.Action != plan.Drifted && !written[c.Ref] && s.fought(c) == nil {
			return false
		}
	}
	return true
}
