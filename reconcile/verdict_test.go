package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	statuspkg "github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
)

// found is what a reconcile has found before it concludes.
type found func(*pass)

// stopped returns a reconcile that ends with an error.
func stopped(t *testing.T, err error) found {
	return func(p *pass) { p.takes(t.Context(), func(context.Context) error { return err }) }
}

func unwritten(err error) found { return func(p *pass) { p.Unwritten = err } }

// removals returns those of NodePools a, b, …, one for each phase.
func removals(phases ...v1alpha1.RemovalPhase) found {
	return func(p *pass) {
		for i, phase := range phases {
			name := string(rune('a' + i))
			p.sync.Status.Removals = append(p.sync.Status.Removals, v1alpha1.Removal{Kind: render.NodePool, Name: name, Phase: phase, Message: "why " + name})
		}
	}
}

func stalls(p *pass) {
	removals(v1alpha1.RemovalDraining, v1alpha1.RemovalHeld)(p)
	p.sync.Status.Removals[0].Stalled = &metav1.Time{Time: p.now}
}

func TestVerdict(t *testing.T) {
	const (
		current, failed, inProgress = status.CurrentStatus, status.FailedStatus, status.InProgressStatus
	)
	waits := func(p *pass) { p.Wait("Controller", "deployment/karpenter is scaled to 0"); p.Wait("later", "b") }
	cases := map[string]struct {
		found         []found
		reason, words string
		kstatus       status.Status
		commit        report.State
	}{
		"done":                 {nil, "Succeeded", "applied, Ready, no removal open: main@sha1:01234567", current, report.Success},
		"waits":                {[]found{waits}, "Waiting", "waiting for Controller: deployment/karpenter is scaled to 0", inProgress, report.Pending},
		"a step waits":         {[]found{stopped(t, &release.BusyError{})}, "Waiting", "", inProgress, report.Pending},
		"a race was lost":      {[]found{stopped(t, &apply.StaleError{Err: errors.New("moved")})}, "ApplyFailed", "it changed since it was compared", inProgress, report.Pending},
		"tried again":          {[]found{stopped(t, &source.UnreachableError{Err: errors.New("no route")})}, "SourceFailed", "no route", inProgress, report.Failure},
		"not known":            {[]found{stopped(t, errors.New("odd"))}, "Failed", "odd", inProgress, report.Failure},
		"broken commit":        {[]found{stopped(t, render.Errors{{File: "a.yaml", Line: 3, Message: "odd"}})}, "Invalid", "a.yaml:3: odd", failed, report.Failure},
		"refused object":       {[]found{unwritten(&plan.RefusedError{})}, "Refused", "refused", failed, report.Failure},
		"one refused, one not": {[]found{unwritten(errors.Join(errors.New("odd"), &plan.ConflictError{Owner: "x.y"}))}, "Conflict", "belongs to NodeSync x.y", failed, report.Failure},
		"removing":             {[]found{removals(v1alpha1.RemovalDraining, v1alpha1.RemovalPacing)}, "Removing", "removing NodePool/a: why a; NodePool/b: why b", inProgress, report.Pending},
		"held":                 {[]found{removals(v1alpha1.RemovalHeld, v1alpha1.RemovalHeld)}, "Held", "held: removal of NodePool/a, NodePool/b: NodePool/a: why a; NodePool/b: why b", failed, report.Failure},
		"stalled":              {[]found{stalls}, "Stalled", "removal of NodePool/a stalled: why a", failed, report.Failure},
		"drifted": {[]found{func(p *pass) {
			p.Drifts = []statuspkg.Drift{{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Reported: true}}
		}}, "Drifted", "differs from Git, and drift is Report: NodePool/a", failed, report.Failure},
		"elsewhere": {[]found{func(p *pass) { p.Elsewhere = true }}, "NamespaceNotWatched", "NodeSyncs are served in namespace plumbline-system only", failed, report.Failure},

		"an error before what is held":       {[]found{removals(v1alpha1.RemovalHeld), stopped(t, errors.New("odd"))}, "Failed", "odd", inProgress, report.Failure},
		"what is held before what is waited": {[]found{removals(v1alpha1.RemovalHeld), waits}, "Held", "held", failed, report.Failure},
		"what is in Git again is not held":   {[]found{removals(v1alpha1.RemovalHeld), func(p *pass) { p.sync.Status.Removals[0].Reason = v1alpha1.ReasonReturned }, waits}, "Waiting", "waiting for Controller", inProgress, report.Pending},
		"what is waited before a removal":    {[]found{removals(v1alpha1.RemovalDraining), waits}, "Waiting", "waiting for Controller", inProgress, report.Pending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newBed(t, nodeSync(unchanged)).pass()
			p.snapshot = &render.Snapshot{Revision: "main@sha1:0123456789"}
			for _, f := range c.found {
				f(p)
			}
			p.summarize(t.Context())

			v := p.verdict()
			if v.Reason != c.reason || !strings.Contains(v.Message, c.words) {
				t.Errorf("verdict %s: %q, want %s: …%q…", v.Reason, v.Message, c.reason, c.words)
			}
			if v.CommitState() != c.commit {
				t.Errorf("commit status %s, want %s", v.CommitState(), c.commit)
			}
			if got := compute(t, p.sync); got.Status != c.kstatus {
				t.Errorf("kstatus %s (%s), want %s", got.Status, got.Message, c.kstatus)
			}
		})
	}
}

// compute returns how kubectl wait, Flux and other tools interpret the status.
func compute(t *testing.T, sync *v1alpha1.NodeSync) *status.Result {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sync)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	result, err := status.Compute(u)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestNewSpecIsInProgress shows that an old verdict does not count until a reconcile has handled the new spec.
func TestNewSpecIsInProgress(t *testing.T) {
	p := newBed(t, nodeSync(unchanged)).pass()
	p.summarize(t.Context())
	p.sync.Generation++
	if got := compute(t, p.sync); got.Status != status.InProgressStatus {
		t.Errorf("kstatus %s", got.Status)
	}
}

// TestConditionsLeaveNothingBehind goes from each verdict to done, and to the same verdict again an hour later: then
// nothing may change.
func TestConditionsLeaveNothingBehind(t *testing.T) {
	for name, f := range map[string]found{
		"waits":     func(p *pass) { p.Wait("CRDs", "not yet") },
		"retries":   stopped(t, errors.New("odd")),
		"stuck":     stopped(t, &render.EmptyError{}),
		"stalled":   stalls,
		"removing":  removals(v1alpha1.RemovalDraining),
		"suspended": func(p *pass) { p.Suspended = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			first := b.begin(nodeSync(unchanged))
			f(first)
			first.summarize(t.Context())
			for i := range first.sync.Status.Conditions {
				first.sync.Status.Conditions[i].LastTransitionTime = metav1.Unix(1_000_000_000, 0)
			}

			b.clock.forward(time.Hour)
			again := b.begin(first.sync.DeepCopy())
			again.sync.Status.Removals = nil
			f(again)
			again.sync.Status.Removals = first.sync.Status.Removals
			again.summarize(t.Context())
			if diff := cmp.Diff(first.sync.Status, again.sync.Status); diff != "" {
				t.Errorf("an hour later nothing has changed, but the status has:\n%s", diff)
			}

			over := b.begin(first.sync.DeepCopy())
			over.sync.Status.Removals = nil
			over.summarize(t.Context())
			if got := compute(t, over.sync); got.Status != status.CurrentStatus || len(over.sync.Status.Conditions) != 1 || over.sync.Status.Waiting != nil {
				t.Errorf("kstatus %s, conditions %v, waiting %v", got.Status, over.sync.Status.Conditions, over.sync.Status.Waiting)
			}
		})
	}
}

func TestSuspendedKeepsItsVerdict(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	stopped(t, &render.EmptyError{})(p)
	p.summarize(t.Context())
	q := b.begin(p.sync.DeepCopy())
	q.Suspended = true
	q.summarize(t.Context())
	if got := compute(t, q.sync); got.Status != status.FailedStatus {
		t.Errorf("kstatus %s (%s): a suspended failure is no success", got.Status, got.Message)
	}
}

// TestBeforeTheFirstPass shows that the default status of a new NodeSync is no success, even if the NodeSync was
// suspended from the start.
func TestBeforeTheFirstPass(t *testing.T) {
	fresh := nodeSync(func(n *v1alpha1.NodeSync) { n.Status.ObservedGeneration = -1 })
	if got := compute(t, fresh); got.Status != status.InProgressStatus {
		t.Errorf("new: kstatus %s (%s)", got.Status, got.Message)
	}
	p := newBed(t, fresh).begin(fresh)
	p.Suspended = true
	p.summarize(t.Context())
	if got := compute(t, p.sync); got.Status != status.InProgressStatus {
		t.Errorf("suspended: kstatus %s (%s)", got.Status, got.Message)
	}
}

// TestBeingDeletedIsTerminating shows that tools that wait for the deletion see that it is in progress.
func TestBeingDeletedIsTerminating(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	sync := b.read()
	sync.DeletionTimestamp = &metav1.Time{Time: b.clock.now()}
	p := b.begin(sync)
	p.Wait("objects", "they are let go")
	p.summarize(t.Context())
	if got := compute(t, p.sync); got.Status != status.TerminatingStatus {
		t.Errorf("kstatus %s (%s)", got.Status, got.Message)
	}
}

func TestWaitingKeepsSince(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	since := func(sync *v1alpha1.NodeSync, on, why string) *v1alpha1.NodeSync {
		p := b.begin(sync)
		p.Wait(on, why)
		p.summarize(t.Context())
		return p.sync
	}
	start := b.clock.now()
	sync := since(nodeSync(unchanged), "CRDs", "a")
	b.clock.forward(time.Minute)
	sync = since(sync, "CRDs", "b")
	want := &v1alpha1.Waiting{For: "CRDs", Message: "b", Since: metav1.NewTime(start)}
	if diff := cmp.Diff(want, sync.Status.Waiting); diff != "" {
		t.Errorf("another reason, the same wait:\n%s", diff)
	}
	sync = since(sync, "Controller", "c")
	if got := sync.Status.Waiting.Since.Time; !got.Equal(b.clock.now()) {
		t.Errorf("another wait began at %s", got)
	}
}

func TestOpenRemovals(t *testing.T) {
	p := newBed(t, nodeSync(unchanged)).pass()
	removals(v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalFinalizing)(p)
	p.summarize(t.Context())
	if p.sync.Status.OpenRemovals != 2 {
		t.Errorf("%d removals are open, want the 2 that are not held", p.sync.Status.OpenRemovals)
	}
}

func TestShortRevision(t *testing.T) {
	for in, want := range map[string]string{
		"main@sha1:0123456789abcdef": "main@sha1:01234567",
		"main@sha1:0123":             "main@sha1:0123",
		"folder":                     "folder",
		"":                           "",
	} {
		if got := render.ShortRevision(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestMessagesFitACommitStatus(t *testing.T) {
	p := newBed(t, nodeSync(unchanged)).pass()
	var errs render.Errors
	for i := range 40 {
		errs = append(errs, render.Error{File: fmt.Sprintf("clusters/prod/nodes/pool-%d.yaml", i), Line: i, Message: "unknown field spec.tempalte"})
	}
	stopped(t, errs)(p)
	text := report.Truncate(p.verdict().CommitText())
	if len([]rune(text)) > report.MaxDescription || !strings.Contains(text, "pool-0.yaml") {
		t.Errorf("%d characters: %s", len([]rune(text)), text)
	}
}

// TestAStallIsTold shows that one Warning event reports a stall and its cause.
func TestAStallIsTold(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.concluded(b.pass(), stalls)
	if got := strings.Join(b.told(), "\n"); got != "Warning Stalled removal of NodePool/a stalled: why a" {
		t.Errorf("told %q", got)
	}
	b.clock.forward(time.Hour)
	b.concluded(b.pass())
	if got := b.told(); len(got) > 0 {
		t.Errorf("told again: %q", got)
	}
	b.concluded(b.pass(), func(p *pass) { p.sync.Status.Removals[0].Message = "another pod" })
	if got := strings.Join(b.told(), "\n"); !strings.Contains(got, "Warning Stalled removal of NodePool/a stalled: another pod") {
		t.Errorf("it waits for something else: told %q", got)
	}
}
