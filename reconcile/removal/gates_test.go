package removal

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPaceIsAsTheNodeSyncSays, and as the CRD's defaults say where it says nothing.
func TestPaceIsAsTheNodeSyncSays(t *testing.T) {
	half, three := intstr.FromString("50%"), intstr.FromInt32(3)
	for name, c := range map[string]struct {
		spec v1alpha1.RemovalPolicy
		want teardown.Pace
	}{
		"nothing is said": {want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true, Replaces: true}},
		"a pace and a grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &half, Grace: &metav1.Duration{Duration: time.Hour}},
			want: teardown.Pace{Grace: time.Hour, MaxUnavailable: half, AwaitPods: true, Replaces: true},
		},
		"no grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &three, Grace: &metav1.Duration{}},
			want: teardown.Pace{MaxUnavailable: three, AwaitPods: true, Replaces: true},
		},
		"without replacements": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalAtOnce},
			want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true},
		},
		"paced, by name": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalPaced},
			want: teardown.Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true, Replaces: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := living(t).step(general)
			s.Sync.Spec.Removal = c.spec
			if diff := cmp.Diff(c.want, s.pace()); diff != "" {
				t.Errorf("pace (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingBeginsBeforeGitIsReadAgain: what was put back within the grace stays, whether or
// not a webhook reports pushes.
func TestNothingBeginsBeforeGitIsReadAgain(t *testing.T) {
	recorded := metav1.NewTime(now.Add(-time.Minute))
	over := recorded.Add(30 * time.Second)
	for name, c := range map[string]struct {
		grace  time.Duration
		readAt time.Time
		why    string
		want   teardown.Gate
		wakes  bool
	}{
		"within the grace": {grace: time.Hour, readAt: recorded.Add(-time.Second), want: teardown.Gate{Open: true}},
		"not read since": {
			grace: 30 * time.Second, readAt: over.Add(-time.Second), wakes: true,
			want: teardown.Gate{Message: "waiting for one more fetch of Git, as removal.grace is over"},
		},
		"it could not be read": {
			grace: 30 * time.Second, readAt: over.Add(-time.Second), why: "no route to host",
			want: teardown.Gate{Message: "waiting for one more fetch of Git, as removal.grace is over: no route to host"},
		},
		"read since": {grace: 30 * time.Second, readAt: over, want: teardown.Gate{Open: true, Message: "waiting for one more fetch of Git, as removal.grace is over"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := living(t).step(general)
			s.Applied, s.Sync.Spec.Removal.Grace = true, &metav1.Duration{Duration: c.grace}
			s.ReadSince = func(at time.Time) (bool, string, time.Time) {
				switch {
				case !c.readAt.Before(at):
					return true, "", time.Time{}
				case c.why != "":
					return false, c.why, time.Time{}
				}
				return false, "", s.Now
			}
			if diff := cmp.Diff(c.want, s.arrivalsGate()(v1alpha1.Removal{RecordedAt: recorded})); diff != "" {
				t.Errorf("gate (-want +got):\n%s", diff)
			}
			if wakes := !s.WakeAt.IsZero(); wakes != c.wakes {
				t.Errorf("a pass is asked for: %t", wakes)
			}
		})
	}
}

// TestTheGateOfArrivalsSaysWhatWaits: a person has to find out what holds a removal.
func TestTheGateOfArrivalsSaysWhatWaits(t *testing.T) {
	s := living(t).step(general)
	s.Applied, s.Revision = false, "main@sha1:1"
	for want, made := range map[string]*plan.Plan{
		"the arrivals and changes of main@sha1:1": nil,
		"the arrivals and changes of main@sha1:1: NodePool/a names EC2NodeClass/b": {Changes: []plan.Change{
			{Action: plan.Update, Message: "no"}, {Action: plan.Wait, Message: "NodePool/a names EC2NodeClass/b"}, {Action: plan.Wait, Message: "another"},
		}},
	} {
		s.Plan = made
		if done, waits := s.arrivalsDone(v1alpha1.Removal{RecordedAt: metav1.NewTime(now)}, s.unreadyPools); done || waits != want {
			t.Errorf("%t, %q, want %q", done, waits, want)
		}
	}
}

// TestWhatIsHeldOfANewerCommitIsNotWaitedFor, unless the removal needs it: a hold ends when a person says so, or never.
func TestWhatIsHeldOfANewerCommitIsNotWaitedFor(t *testing.T) {
	const one, two = "main@sha1:1", "main@sha1:2"
	held := func(name string) plan.Change {
		return plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: name}, Action: plan.Hold}
	}
	pool := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	for name, c := range map[string]struct {
		removal v1alpha1.Removal
		applied string
		changes []plan.Change
		want    bool
	}{
		"it changes another pool":            {removal: v1alpha1.Removal{Revision: one}, applied: one, changes: []plan.Change{held("general")}, want: true},
		"beside a write":                     {removal: v1alpha1.Removal{Revision: one}, applied: one, changes: []plan.Change{held("general"), {Ref: pool("written"), Action: plan.Update}}, want: true},
		"beside a write that is not made":    {removal: v1alpha1.Removal{Revision: one}, applied: one, changes: []plan.Change{held("general"), {Ref: pool("b"), Action: plan.Update}}},
		"it is an arrival":                   {removal: v1alpha1.Removal{Revision: one}, applied: one, changes: []plan.Change{held("new")}},
		"it is of the removal's own commit":  {removal: v1alpha1.Removal{Revision: two}, applied: one, changes: []plan.Change{held("general")}},
		"the removal moves there":            {removal: v1alpha1.Removal{Kind: render.NodePool, Revision: one, MovesTo: []string{"general"}}, applied: one, changes: []plan.Change{held("general")}},
		"the removal's commit was held, too": {removal: v1alpha1.Removal{Revision: one, Phase: v1alpha1.RemovalPacing}, applied: "main@sha1:0", changes: []plan.Change{held("general")}},
		"the removal has begun":              {removal: v1alpha1.Removal{Revision: "main@sha1:0", Phase: v1alpha1.RemovalDraining}, applied: one, changes: []plan.Change{held("general")}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := living(t).step(general)
			s.Applied, s.Revision, s.Before.Status.LastAppliedRevision = false, two, c.applied
			c.removal.RecordedAt = metav1.NewTime(now.Add(time.Hour))
			s.Plan, s.Written = &plan.Plan{Changes: c.changes}, []plan.Write{{Ref: pool("written")}}
			if done, waits := s.arrivalsDone(c.removal, s.unreadyPools); done != c.want {
				t.Errorf("%t, waits for %q", done, waits)
			}
		})
	}
}

// TestNothingIsDeletedThatKarpenterMayNotFinalize: while a policy denies Karpenter's controller the removal of its finalizers,
// no NodeClaim and no EC2NodeClass is deleted, and the removal names the policy.
func TestNothingIsDeletedThatKarpenterMayNotFinalize(t *testing.T) {
	s := living(t).step()
	s.Alive = true
	if gate := s.controllerGate(t.Context()); !gate.Open {
		t.Errorf("nobody looks, and the gate is closed: %s", gate.Message)
	}
	denied := "ValidatingAdmissionPolicy/plumbline-guard-finalizers denies system:serviceaccount:karpenter:blue"
	s.Denied = func(context.Context) string { return denied }
	if gate := s.controllerGate(t.Context()); gate.Open || gate.Message != denied {
		t.Errorf("denied: %+v", gate)
	}
	denied = ""
	if gate := s.controllerGate(t.Context()); !gate.Open {
		t.Errorf("no longer denied, and the gate is closed: %s", gate.Message)
	}
}
