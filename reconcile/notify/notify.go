package notify

import (
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// maxMessage limits how much of a message the record keeps, in bytes: enough to identify it.
const maxMessage = 512

// subject is a condition that may report a problem.
type subject struct {
	name string
	// trouble returns the condition if it reports a problem that needs a person; otherwise nil.
	trouble func(*v1alpha1.NodeSync) *metav1.Condition
	// well returns whether the problem has ended, and the message on its end. A condition that reports neither a
	// problem nor its end is still progressing.
	well func(*v1alpha1.NodeSync) (words string, ended bool)
}

// subjects returns all subjects.
func subjects() []subject {
	return []subject{
		{meta.ReadyCondition, stalled, isTrue(meta.ReadyCondition)},
		{v1alpha1.RolledOutCondition, failing, isTrue(v1alpha1.RolledOutCondition)},
		{v1alpha1.NodeDriftCondition, drifting, undrifted},
	}
}

// stalled returns Ready if it will not become True without a person: refused, held, or a stalled removal.
func stalled(sync *v1alpha1.NodeSync) *metav1.Condition {
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse &&
		conditions.IsTrue(sync, meta.StalledCondition) {
		return ready
	}
	return nil
}

// failing returns RolledOut if the rollout is stopped, held, failing, or takes too long.
func failing(sync *v1alpha1.NodeSync) *metav1.Condition {
	rolled := conditions.Get(sync, v1alpha1.RolledOutCondition)
	if rolled == nil || rolled.Status != metav1.ConditionFalse || rolled.Reason == v1alpha1.ReasonRollingOut {
		return nil
	}
	return rolled
}

func drifting(sync *v1alpha1.NodeSync) *metav1.Condition {
	if drift := conditions.Get(sync, v1alpha1.NodeDriftCondition); drift != nil && drift.Status == metav1.ConditionTrue {
		return drift
	}
	return nil
}

func undrifted(*v1alpha1.NodeSync) (string, bool) { return "no node drifts unexpectedly", true }

func isTrue(kind string) func(*v1alpha1.NodeSync) (string, bool) {
	return func(sync *v1alpha1.NodeSync) (string, bool) {
		c := conditions.Get(sync, kind)
		if c == nil || c.Status != metav1.ConditionTrue {
			return "", false
		}
		return c.Message, true
	}
}

// Next returns the new record of open problems, and the new Notices, given a NodeSync before and after a reconcile. It
// records nothing if there is no receiver, and changes nothing while the NodeSync is suspended.
func Next(before, after *v1alpha1.NodeSync, cluster string, at metav1.Time) ([]v1alpha1.Notified, []Notice) {
	switch {
	case len(after.Spec.Notify) == 0:
		return nil, nil
	case after.Spec.Suspend && after.DeletionTimestamp.IsZero():
		return after.Status.Notified, nil
	}
	var record []v1alpha1.Notified
	var notices []Notice
	for _, of := range subjects() {
		entry, notice := of.next(recorded(before, of.name), before, after, at)
		if entry != nil {
			record = append(record, *entry)
		}
		if notice != nil {
			notice.NodeSync, notice.Cluster = client.ObjectKeyFromObject(after), cluster
			notice.Subject, notice.At, notice.Revision = of.name, at.Time, after.Status.LastAttemptedRevision
			notices = append(notices, *notice)
		}
	}
	return record, notices
}

func recorded(sync *v1alpha1.NodeSync, name string) *v1alpha1.Notified {
	i := slices.IndexFunc(sync.Status.Notified, func(n v1alpha1.Notified) bool { return n.Subject == name })
	if i < 0 {
		return nil
	}
	return &sync.Status.Notified[i]
}

// next returns the record of one subject, and its Notice.
func (s subject) next(open *v1alpha1.Notified, before, after *v1alpha1.NodeSync, at metav1.Time) (*v1alpha1.Notified, *Notice) {
	if c := s.trouble(after); c != nil {
		entry := v1alpha1.Notified{
			Subject: s.name, Reason: c.Reason, Revision: after.Status.LastAttemptedRevision,
			Message: finding.Bounded(c.Message, maxMessage), Since: at,
		}
		if open != nil {
			entry.Since = open.Since
			if known(*open, entry) {
				return open, nil
			}
		}
		return &entry, &Notice{Reason: c.Reason, Severity: v1alpha1.NotifyError, Message: c.Message, Since: entry.Since.Time}
	}
	words, ended := s.well(after)
	switch {
	case !ended:
		return open, nil
	case open != nil:
		return nil, &Notice{
			Reason: Recovered, Of: open.Reason, Severity: v1alpha1.NotifyInfo, Message: open.Reason + " has ended: " + words,
			Since: open.Since.Time,
		}
	case s.name == v1alpha1.RolledOutCondition && conditions.IsFalse(before, s.name):
		return nil, &Notice{Reason: RolledOut, Severity: v1alpha1.NotifyInfo, Message: words}
	}
	return nil, nil
}

// known reports whether a problem was already notified: it has the reason of the open one, and it is not a different
// message for another commit. A changed diagnosis of the same commit is not a new problem.
func known(open, now v1alpha1.Notified) bool {
	return open.Reason == now.Reason && (open.Revision == now.Revision || open.Message == now.Message)
}

const (
	// Recovered is the reason of a Notice about the end of a problem.
	Recovered = "Recovered"
	// RolledOut is the reason of a Notice about a completed rollout.
	RolledOut = "RolledOut"
)

// Notice is one change of state.
type Notice struct {
	NodeSync types.NamespacedName
	// Cluster is the name of the EKS cluster; empty if unknown.
	Cluster string
	// Subject is the condition that has changed.
	Subject string
	// Reason is the condition's reason, or Recovered or RolledOut. Of is the reason of the problem that has ended;
	// empty if none has.
	Reason, Of string
	Severity   v1alpha1.NotifySeverity
	Message    string
	Revision   string
	// At is when it changed, and Since when the problem that it is about started; zero if there is none.
	At, Since time.Time
}

// Trouble reports whether the Notice needs a person.
func (n Notice) Trouble() bool { return n.Severity == v1alpha1.NotifyError }

// For reports whether a receiver wants the Notice. The end of a problem is sent to every receiver of the problem.
func (n Notice) For(to v1alpha1.Notify) bool {
	if to.Severity == v1alpha1.NotifyError && !n.Trouble() && n.Of == "" {
		return false
	}
	return len(to.Reasons) == 0 || slices.Contains(to.Reasons, n.Reason) || n.Of != "" && slices.Contains(to.Reasons, n.Of)
}
