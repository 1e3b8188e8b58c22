package recorder

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// TestTerminatedByOthers: only an instance that a client terminates through EC2's API, while its NodeClaim exists, is
// one that another client has terminated.
func TestTerminatedByOthers(t *testing.T) {
	event := func(name, reason string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: name, UID: types.UID("uid-" + name)}, Reason: reason, Type: corev1.EventTypeWarning}
	}
	for name, test := range map[string]struct {
		do   func(w *world)
		want bool
	}{
		"by another client": {want: true, do: func(w *world) { w.ends("i-a"); w.now = w.now.Add(20 * time.Second); w.delete("a") }},
		"and Karpenter heard of it in the same second": {want: true, do: func(w *world) {
			w.ends("i-a")
			w.events = []corev1.Event{event("a", instanceTerminating), event("a", terminatingOnInterruption)}
			w.delete("a")
		}},
		"its NodeClaim is deleted by hand": {do: func(w *world) { w.delete("a"); w.now = w.now.Add(20 * time.Second); w.ends("i-a") }},
		"Karpenter replaces it": {do: func(w *world) {
			condition(w.claims["a"], karpv1.ConditionTypeDisruptionReason, "Drifted", w.now)
			w.delete("a")
			w.now = w.now.Add(time.Second)
			w.ends("i-a")
		}},
		"a spot interruption": {do: func(w *world) {
			w.events = []corev1.Event{event("a", "SpotInterrupted"), event("a", terminatingOnInterruption)}
			w.delete("a")
		}},
		"reclaimed without a warning": {do: func(w *world) {
			w.ends("i-a")
			w.reason("a", "Server.SpotInstanceTermination: Spot instance termination")
			w.now = w.now.Add(20 * time.Second)
			w.delete("a")
		}},
		"a shutdown from within": {do: func(w *world) {
			w.ends("i-a")
			w.reason("a", "Client.InstanceInitiatedShutdown: Instance initiated shutdown")
			w.now = w.now.Add(20 * time.Second)
			w.delete("a")
		}},
		"stopped by hand": {do: func(w *world) {
			w.events = []corev1.Event{event("a", instanceStopping), event("a", terminatingOnInterruption)}
			w.ends("i-a")
			w.now = w.now.Add(20 * time.Second)
			w.delete("a")
		}},
		"before the daemon was started": {do: func(w *world) {
			w.ends("i-a")
			w.now = w.now.Add(time.Minute)
			w.start()
			w.now = w.now.Add(20 * time.Second)
			w.delete("a")
		}},
		"long before its NodeClaim, which a backup has restored": {do: func(w *world) { w.ends("i-a"); w.now = w.now.Add(15 * time.Minute); w.delete("a") }},
		"while the daemon saw nothing": {do: func(w *world) {
			w.ends("i-a")
			w.now = w.now.Add(20 * time.Second)
			claim := w.claims["a"]
			delete(w.claims, "a")
			w.r.Gone(claim.DeepCopy(), true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.launch("a")
			var woken []types.NamespacedName
			must(t, w.after(time.Second))
			w.now = w.now.Add(time.Minute)
			test.do(w)
			w.r.Terminated = func(sync types.NamespacedName) { woken = append(woken, sync) }
			must(t, w.after(writeInterval))
			must(t, w.after(writeInterval))
			got := w.r.TerminatedByOthers()
			if len(got) > 0 != test.want || test.want && (got[0].Instance != "i-a" || got[0].Pool != "general" || len(woken) != 1) {
				t.Errorf("%+v, woken %v", got, woken)
			}
		})
	}
}

// TestTerminationsAreForgotten: after an hour.
func TestTerminationsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	w.launch("b")
	must(t, w.after(time.Second))
	for _, name := range []string{"b", "a"} {
		w.ends("i-" + name)
		w.now = w.now.Add(10 * time.Second)
		w.delete(name)
	}
	must(t, w.after(writeInterval))
	var ids []string
	for _, one := range w.r.TerminatedByOthers() {
		ids = append(ids, one.Instance)
	}
	if diff := cmp.Diff([]string{"i-b", "i-a"}, ids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.now = w.now.Add(2 * time.Hour)
	must(t, w.after(writeInterval))
	if got := w.r.TerminatedByOthers(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// reason sets EC2's reason for the state of an instance.
func (w *world) reason(name, reason string) {
	i := w.ec2["i-"+name]
	i.Reason = reason
	w.ec2["i-"+name] = i
}
