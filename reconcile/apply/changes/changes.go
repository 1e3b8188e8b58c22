// Package changes applies the Plan of one reconcile to the cluster: it selects which Changes are due, and reports their
// results and the readiness of the definitions. The input is a Plan, the readiness of the charts' Stages, and the live
// objects; the output is what was written, held, drifted or could not be written. Package apply does the writes. It
// decides nothing that a Plan decides, and never waits.
package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
	"github.com/plumbline-dev/plumbline/render"
)

// concurrentWrites is the number of concurrent writes.
const concurrentWrites = 8

// Tools are the dependencies of a Step, the same for all NodeSyncs.
type Tools struct {
	Client   apply.Client
	Uncached client.Reader
	// Arrivals is shared by all Steps of the process.
	Arrivals *apply.Arrivals
	// StillLeader returns an error if the process no longer holds the lease.
	StillLeader func(context.Context) error
}

// Step is the work on the definitions of one reconcile of one NodeSync.
type Step struct {
	Tools
	finding.Findings

	Owner plan.Owner
	Plan  *plan.Plan
	Set   *render.Set
	// Live are the live definitions.
	Live plan.Live
	// CRDs and Controller are the readiness of the first two Stages. Changing reports whether the charts are being
	// changed.
	CRDs, Controller cluster.Readiness
	Changing         bool
	// Unrecorded reports that the API server denies the record of the Changes in the status: those that disrupt nodes wait
	// for it (docs/decisions/0002).
	Unrecorded bool
	Memory     *Memory

	Now time.Time
	// Timeout limits the duration of all writes together, and Retry is how long an object that something in the cluster
	// mutates is not written again.
	Timeout, Retry time.Duration
	// StallAfter is how long to wait for another NodeSync until that counts as stalled.
	StallAfter time.Duration
	// Requested reports whether a person has requested this reconcile.
	Requested bool

	applied apply.Result
}

// Result is the result of a Step.
type Result struct {
	Written []apply.Written
	// Unwritten joins the errors of objects that could not be written; the rest of the Plan was written.
	Unwritten error
	// Whole reports whether everything that the revision adds or changes is in the cluster.
	Whole bool
	// Drifted are objects whose difference from Git is only reported.
	Drifted []render.Ref
	// Held are the changes that would disrupt more nodes than the guard allows.
	Held []plan.Change
}

// Memory is what one reconcile passes to the next to avoid repeated work. The zero value is empty.
type Memory struct {
	// forms are the definitions as each was last in the cluster.
	forms forms
	// mutated are the objects that something in the cluster changes at each write.
	mutated mutated
	answers answers
	// reverts are the objects whose edits were reverted.
	reverts repeatedReverts
}

// Run writes what changed. New objects wait for the charts. Existing objects, especially reverts, wait only for the
// CRDs, unless the charts are being changed.
func (s *Step) Run(ctx context.Context) Result {
	if !s.CRDs.Ready {
		if s.CRDs.Message != "" { // empty if a first install is recorded, which already has its wait
			s.Wait("CRDs", s.CRDs.Message)
		}
		return Result{}
	}
	if !s.Controller.Ready {
		s.Wait("Controller", cmp.Or(s.Controller.Message, "plumbline checks it once the charts match Git"))
	}
	if s.Changing {
		return Result{}
	}
	// If each write is slow, a newer commit would wait for all of them.
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.applied = apply.Apply(bounded, s.Client, s.Due(), apply.Options{
		Owner:       s.Owner,
		Uncached:    s.Uncached,
		Arrivals:    s.Arrivals,
		Concurrency: concurrentWrites,
		StillLeader: s.StillLeader,
	})
	s.noteAnswers()
	s.noteMutated()
	s.noteReverts()
	s.noteForms()
	s.reportWritten()
	result := Result{Written: s.applied.Written}
	result.Drifted, result.Held = s.noteUnwritten()
	result.Unwritten = s.failedWrites()
	result.Whole = s.wholeWritten() && (result.Unwritten == nil || onlyPausedCorrections(result.Unwritten))
	return result
}

// Due returns the Changes that can be written now.
func (s *Step) Due() []plan.Change {
	return slices.DeleteFunc(slices.Clone(s.Plan.Changes), func(c plan.Change) bool {
		_, _, waits := s.referencesUnreadyClass(c)
		return waits || s.Unrecorded && c.Disrupts() || !s.Controller.Ready && c.Action == plan.Create || s.stillMutated(c) != nil ||
			s.correctionPaused(c) != nil
	})
}

// Writes returns how many Changes Run is about to write.
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

// noteUnwritten records the Changes that write nothing: those that wait, are held, or are only reported.
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
				s.Wait("Controller", c.Ref.String()+" is created once the controller is ready")
			}
		case plan.Update, plan.Adopt, plan.TakeBack:
			if class, message, waits := s.referencesUnreadyClass(c); waits {
				s.Wait(class.String(), message)
			} else if s.Unrecorded && c.Disrupts() {
				s.Wait("the status", c.Ref.String()+" is applied once the API server stores the status, which records first that nodes are disrupted")
			}
		case plan.None, plan.Conflict, plan.Refuse:
		}
	}
	for _, message := range s.Plan.Warnings {
		s.Warn(v1alpha1.ReasonWarning, message)
	}
	return drifted, held
}

// failedWrites joins the errors that a person, or a retry, must correct; the rest of the Plan is written by then. A
// superseded write is only a wait.
func (s *Step) failedWrites() error {
	errs, written := fault.Apart(s.Plan.Err()), s.written()
	for _, c := range s.Plan.Changes {
		if err := s.stillMutated(c); err != nil && !s.attemptedNow(c.Ref) {
			errs = append(errs, err)
		}
		if err := s.correctionPaused(c); err != nil && !written[c.Ref] {
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

// written returns the objects that this reconcile has written.
func (s *Step) written() map[render.Ref]bool {
	written := map[render.Ref]bool{}
	for _, w := range s.applied.Written {
		written[w.Ref] = true
	}
	return written
}

// wholeWritten reports whether everything that the revision adds or changes is in the cluster.
func (s *Step) wholeWritten() bool {
	written := s.written()
	for _, c := range s.Plan.Changes {
		if c.Action != plan.Drifted && !written[c.Ref] && s.correctionPaused(c) == nil {
			return false
		}
	}
	return true
}

// lagLasts is how long the watch cache may be older than the last write. After that the cache counts: the API server
// may have been restored to an earlier state.
const lagLasts = 10 * time.Second

// answers are the definitions in the API server's responses to the last writes, while the watch cache is older. With
// the older ones, a reconcile would treat its own write as an edit by another client, and write it again.
type answers map[render.Ref]answer

type answer struct {
	object *unstructured.Unstructured
	at     time.Time
}

// noteAnswers keeps the responses to the writes of this reconcile.
func (s *Step) noteAnswers() {
	for _, w := range s.applied.Written {
		if w.Object == nil {
			continue
		}
		if s.Memory.answers == nil {
			s.Memory.answers = answers{}
		}
		s.Memory.answers[w.Ref] = answer{object: w.Object, at: s.Now}
	}
}

// Newest returns the live state, in which no definition is older than the response to the last write.
func (m *Memory) Newest(live plan.Live, now time.Time) plan.Live {
	for ref, a := range m.answers {
		cached := live.Objects[ref]
		lasts := now.Sub(a.at)
		if cached == nil || cached.GetUID() != a.object.GetUID() || lasts < 0 || lasts > lagLasts ||
			!watch.Older(cached.GetResourceVersion(), a.object.GetResourceVersion()) {
			delete(m.answers, ref)
			continue
		}
		live.Objects[ref] = plan.NewObject(a.object)
	}
	return live
}

// reportWritten reports what was done, and whose edit was corrected.
func (s *Step) reportWritten() {
	byRef := map[render.Ref]plan.Change{}
	for _, c := range s.Plan.Changes {
		byRef[c.Ref] = c
	}
	var applied, warnings []string
	for _, w := range s.applied.Written {
		warnings = append(warnings, byRef[w.Ref].Warnings...)
		switch c := byRef[w.Ref]; {
		case c.Drift && c.Action == plan.Create:
			s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonDriftCorrected, fmt.Sprintf("%s was missing and is recreated", w.Ref))
		case c.Drift && c.Action == plan.Update, len(c.Editors) > 0:
			s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonDriftCorrected,
				fmt.Sprintf("%s: reverted %s, edited by %s, to Git", w.Ref, fieldPaths(c.Fields), editors(c.Editors)))
		default:
			applied = append(applied, fmt.Sprintf("%s: %s", w.Ref, c.Action))
		}
	}
	if len(applied) > 0 {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonApplied, finding.Some(applied))
	}
	if len(warnings) > 0 {
		s.Wrote(corev1.EventTypeWarning, v1alpha1.ReasonNodesDisrupted, finding.Some(warnings))
	}
}

func editors(managers []string) string {
	if len(managers) == 0 {
		return "another client"
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

// Ready reports whether each definition of a Set is Ready at its newest generation. For an object that was just
// written, the response replaces the live object, because the status there is not for the new spec yet. Objects that
// are not Ready are recorded as waits.
func Ready(set *render.Set, live plan.Live, written []apply.Written) (cluster.ByRef, finding.Findings) {
	readiness, found := make(cluster.ByRef, len(set.Objects)), finding.Findings{}
	for _, object := range set.Objects {
		if lives := live.Objects[object.Ref]; lives != nil {
			readiness[object.Ref] = cluster.Ready(lives)
		}
	}
	for _, w := range written {
		object := plan.NewObject(w.Object)
		readiness[w.Ref], live.Objects[w.Ref] = cluster.Ready(object), object
	}
	for _, object := range set.Objects {
		if ready, seen := readiness[object.Ref]; seen && !ready.Ready {
			found.Wait(object.Ref.String(), ready.Message)
		}
	}
	return readiness, found
}

// referencesUnreadyClass reports whether a Change makes a NodePool reference another EC2NodeClass that is not Ready,
// while the current one is: with it, the pool could launch no node. A class that this reconcile writes counts as Ready
// only in a later one. message describes the wait.
func (s *Step) referencesUnreadyClass(c plan.Change) (class render.Ref, message string, waits bool) {
	changes := c.Action == plan.Update || c.Action == plan.Adopt || c.Action == plan.TakeBack && c.Reason == plan.ReasonBrakeEnds
	if !changes || c.Live == nil || c.Object.Desired == nil {
		return render.Ref{}, "", false
	}
	before, named := render.Reference(c.Ref, c.Live)
	after, names := render.Reference(c.Ref, c.Object.Desired)
	if !named || !names || before == after || !s.ready(before) || s.ready(after) && !s.writes(after) {
		return render.Ref{}, "", false
	}
	return after, fmt.Sprintf("%s keeps referencing %s until %s is Ready", c.Ref, before, after), true
}

// writes reports whether the Plan writes an object, so that its known status is out of date.
func (s *Step) writes(ref render.Ref) bool {
	return slices.ContainsFunc(s.Plan.Changes, func(c plan.Change) bool { return c.Ref == ref && c.Action.Writes() })
}

// ready reports whether a live object is Ready.
func (s *Step) ready(ref render.Ref) bool {
	object := s.Live.Objects[ref]
	return object != nil && cluster.Ready(object).Ready
}
