package notify_test

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

// pass is the result of one reconcile: Ready, RolledOut and NodeDrift as STATUS:REASON:MESSAGE.
type pass struct {
	ready, rolled, drift string
	stuck                bool
	revision             string
	suspended, nobody    bool
	want                 []string
}

// TestNext notifies each change of state once, over consecutive reconciles.
func TestNext(t *testing.T) {
	cases := map[string][]pass{
		"nothing goes wrong": {
			{ready: "Unknown:Waiting:x"}, {ready: "True:Succeeded:fine"}, {ready: "True:Succeeded:fine"},
		},
		"a refused commit, and the next one": {
			{ready: "False:Refused:a", stuck: true, revision: "1", want: []string{"error Refused: a"}},
			{ready: "False:Refused:a", stuck: true, revision: "1"},
			{ready: "False:Refused:b", stuck: true, revision: "2", want: []string{"error Refused: b"}},
			{ready: "Unknown:Progressing:x", revision: "3"},
			{ready: "True:Succeeded:fine", revision: "3", want: []string{"info Recovered of Refused: Refused has ended: fine"}},
			{ready: "True:Succeeded:fine", revision: "3"},
		},
		"a removal that is held while other commits come": {
			{ready: "False:Held:a", stuck: true, revision: "1", want: []string{"error Held: a"}},
			{ready: "False:Held:a", stuck: true, revision: "2"},
		},
		"a diagnosis that changes": {
			{ready: "False:Stalled:2 nodes", stuck: true, revision: "1", want: []string{"error Stalled: 2 nodes"}},
			{ready: "False:Stalled:1 node", stuck: true, revision: "1"},
		},
		"another trouble": {
			{ready: "False:Held:a", stuck: true, want: []string{"error Held: a"}},
			{ready: "False:Stalled:b", stuck: true, want: []string{"error Stalled: b"}},
			{ready: "True:Succeeded:fine", want: []string{"info Recovered of Stalled: Stalled has ended: fine"}},
		},
		"what is tried again by itself": {
			{ready: "False:SourceFailed:no route"}, {ready: "True:Succeeded:fine"},
		},
		"a rollout": {
			{rolled: "False:RollingOut:1 of 2"}, {rolled: "True:Succeeded:each", want: []string{"info RolledOut: each"}}, {rolled: "True:Succeeded:each"},
		},
		"a rollout that is braked, reverted and finished": {
			{rolled: "False:RollingOut:1 of 2"},
			{rolled: "False:RolloutBraked:3 launches", want: []string{"error RolloutBraked: 3 launches"}},
			{rolled: "False:RollingOut:1 of 2"},
			{rolled: "True:Succeeded:each", want: []string{"info Recovered of RolloutBraked: RolloutBraked has ended: each"}},
		},
		"unexpected node drift": {
			{drift: "True:UnexpectedNodeDrift:2 nodes", want: []string{"error UnexpectedNodeDrift: 2 nodes"}},
			{drift: "True:UnexpectedNodeDrift:2 nodes"},
			{want: []string{"info Recovered of UnexpectedNodeDrift: UnexpectedNodeDrift has ended: no node drifts unexpectedly"}},
		},
		"two at a time": {
			{ready: "False:Held:a", stuck: true, rolled: "False:RolloutBraked:b", want: []string{"error Held: a", "error RolloutBraked: b"}},
		},
		"suspended meanwhile": {
			{ready: "False:Held:a", stuck: true, want: []string{"error Held: a"}},
			{ready: "True:Succeeded:fine", suspended: true},
			{ready: "True:Succeeded:fine", want: []string{"info Recovered of Held: Held has ended: fine"}},
		},
		"a receiver that comes later": {
			{ready: "False:Held:a", stuck: true, nobody: true},
			{ready: "False:Held:a", stuck: true, want: []string{"error Held: a"}},
		},
	}
	for name, passes := range cases {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.NodeSync{}
			for i, p := range passes {
				after := p.nodeSync(before)
				record, notices := notify.Next(before, after, "prod-eu", metav1.NewTime(time.Unix(int64(i), 0)))
				after.Status.Notified = record
				var got []string
				for _, n := range notices {
					got = append(got, words(n))
				}
				if diff := cmp.Diff(p.want, got); diff != "" {
					t.Errorf("pass %d (-want +got):\n%s", i, diff)
				}
				before = after
			}
		})
	}
}

func words(n notify.Notice) string {
	of := ""
	if n.Of != "" {
		of = " of " + n.Of
	}
	return string(n.Severity) + " " + n.Reason + of + ": " + n.Message
}

func (p pass) nodeSync(before *v1alpha1.NodeSync) *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}}
	sync.Spec.Suspend = p.suspended
	if !p.nobody {
		sync.Spec.Notify = []v1alpha1.Notify{{Name: "chat", Type: v1alpha1.NotifySlack}}
	}
	sync.Status.Notified, sync.Status.LastAttemptedRevision = before.Status.Notified, p.revision
	for kind, words := range map[string]string{meta.ReadyCondition: p.ready, v1alpha1.RolledOutCondition: p.rolled, v1alpha1.NodeDriftCondition: p.drift} {
		if words != "" {
			sync.Status.Conditions = append(sync.Status.Conditions, condition(kind, words))
		}
	}
	if p.stuck {
		sync.Status.Conditions = append(sync.Status.Conditions, condition(meta.StalledCondition, "True:x:y"))
	}
	return sync
}

// TestFor: a receiver of a problem also gets its end, and a receiver of errors only gets no completed rollout.
func TestFor(t *testing.T) {
	held := notify.Notice{Reason: "Held", Severity: v1alpha1.NotifyError}
	ended := notify.Notice{Reason: notify.Recovered, Of: "Held", Severity: v1alpha1.NotifyInfo}
	finished := notify.Notice{Reason: notify.RolledOut, Severity: v1alpha1.NotifyInfo}
	for name, c := range map[string]struct {
		to   v1alpha1.Notify
		want []bool
	}{
		"all":           {v1alpha1.Notify{Severity: v1alpha1.NotifyInfo}, []bool{true, true, true}},
		"errors":        {v1alpha1.Notify{Severity: v1alpha1.NotifyError}, []bool{true, true, false}},
		"one reason":    {v1alpha1.Notify{Reasons: []string{"Held"}}, []bool{true, true, false}},
		"another":       {v1alpha1.Notify{Reasons: []string{"Refused"}}, []bool{false, false, false}},
		"only the ends": {v1alpha1.Notify{Reasons: []string{notify.Recovered, notify.RolledOut}}, []bool{false, true, true}},
	} {
		got := []bool{held.For(c.to), ended.For(c.to), finished.For(c.to)}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
