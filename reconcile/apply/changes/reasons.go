package changes

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// explainAfter is how long an EC2NodeClass may be not Ready before Karpenter's log is read. Most are Ready within seconds.
	explainAfter = 10 * time.Second
	// explainEvery is how often the log is read. Karpenter tries again, and logs the error again, at least every ten seconds
	// (reasonable.RateLimiter of github.com/awslabs/operatorpkg, in karpenter-provider-aws pkg/controllers/nodeclass/controller.go).
	explainEvery = 30 * time.Second
)

// Reasons are why EC2NodeClasses are not Ready, if a person has to correct it. Karpenter reports in a condition that a selector matches
// nothing; other reasons are only in its log: a role that does not exist, or user data that is not TOML. Their conditions then stay
// Unknown. The zero value is ready to use.
type Reasons struct {
	read time.Time
	of   map[render.Ref]reason
}

// reason is the reason for one generation of an EC2NodeClass.
type reason struct {
	uid        types.UID
	generation int64
	// seen is when it was first seen not Ready. since is when it became not Ready, according to the object, so that a
	// restart of the daemon does not change it; zero until that is read.
	seen, since time.Time
	// reported reports whether a condition has the reason.
	reported bool
	// logRead reports whether the log was read; logged is the error in it.
	logRead bool
	logged  string
}

// Waiting are the definitions that are not Ready, with what is known about them.
type Waiting struct {
	Live  plan.Live
	Ready cluster.ByRef
	Found *finding.Findings
	// Namespace is that of Karpenter's controller.
	Namespace string
	// Since returns when a class became not Ready; zero if unknown.
	Since func(name string) time.Time
	// StallAfter is how long until a class with such a reason counts as stalled.
	StallAfter time.Duration
	Now        time.Time
}

// Explain adds to the waits since when a class is not Ready that may not become so by itself, and the errors of Karpenter's log. It reads
// the log only if a class stays not Ready and no condition has a reason.
func (r *Reasons) Explain(w Waiting, log func() string) {
	next := map[render.Ref]reason{}
	due := false
	for ref := range w.Ready {
		if !w.mayStayNotReady(ref) {
			continue
		}
		object := w.Live.Objects[ref]
		known := r.of[ref]
		if known.uid != object.GetUID() || known.generation != object.GetGeneration() {
			known = reason{uid: object.GetUID(), generation: object.GetGeneration(), seen: w.Now}
		}
		if known.reported = cluster.MatchesNothing(object); known.reported && known.since.IsZero() {
			known.since = w.Since(ref.Name)
		}
		if next[ref] = known; known.reported {
			if stalls := known.notReadySince().Add(w.StallAfter); w.Now.Before(stalls) {
				w.Found.WakeBy(stalls)
			}
			continue
		}
		at := known.seen.Add(explainAfter)
		if r.read.Add(explainEvery).After(at) {
			at = r.read.Add(explainEvery)
		}
		if w.Now.Before(at) {
			w.Found.WakeBy(at)
			continue
		}
		due = true
	}
	if r.of = next; due {
		r.read = w.Now
		w.Found.WakeBy(w.Now.Add(explainEvery))
		r.readLog(log(), w.Since)
	}
	r.addToMessages(w)
}

// mayStayNotReady reports whether a definition is an EC2NodeClass that is not Ready and may not become so by itself.
func (w *Waiting) mayStayNotReady(ref render.Ref) bool {
	object := w.Live.Objects[ref]
	if w.Ready[ref].Ready || ref.Kind != render.EC2NodeClass || object == nil {
		return false
	}
	return cluster.Unexplained(object) || cluster.MatchesNothing(object)
}

// readLog records the newest errors of a log.
func (r *Reasons) readLog(log string, since func(name string) time.Time) {
	for ref, known := range r.of {
		if known.reported {
			continue
		}
		if known.since.IsZero() {
			known.since = since(ref.Name)
		}
		if logged := upgrade.LoggedError(log, ref.Kind, ref.Name, known.notReadySince()); logged != "" {
			known.logged = logged
		}
		known.logRead = true
		r.of[ref] = known
	}
}

// notReadySince returns when the class became not Ready, or was first seen so.
func (r reason) notReadySince() time.Time {
	if r.since.IsZero() {
		return r.seen
	}
	return r.since
}

// addToMessages writes the reasons into the messages, which have those of a condition already. A class with such a
// reason may not become Ready by itself. If the log contains none, or cannot be read, the message says where to look.
func (r *Reasons) addToMessages(w Waiting) {
	for i := range w.Found.Waits {
		wait := &w.Found.Waits[i]
		name, is := strings.CutPrefix(wait.On, render.EC2NodeClass+"/")
		ref := render.Ref{Kind: render.EC2NodeClass, Name: name}
		known := r.of[ref]
		switch {
		case is && known.reported:
			wait.Since, wait.Stalls = known.notReadySince(), known.notReadySince().Add(w.StallAfter)
			continue
		case !is || !known.logRead:
			continue
		case known.logged == "":
			wait.Message += fmt.Sprintf("; see Karpenter's log for the reason: kubectl logs -n %s -l %s", w.Namespace, cluster.ControllerLabels())
		default:
			wait.Message = fmt.Sprintf("%s is not Ready: %s (Karpenter's log)", ref, known.logged)
			wait.Since, wait.Stalls = known.notReadySince(), known.notReadySince().Add(w.StallAfter)
		}
		w.Ready[ref] = cluster.Readiness{Message: wait.Message}
	}
}
