package observe_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// TestPoolsWithoutAnInstanceType: Karpenter's event on a NodePool counts until a later NodeClaim has an instance, the
// definitions change, or ten minutes have passed since the last one.
func TestPoolsWithoutAnInstanceType(t *testing.T) {
	const filtered = "NodePool requirements filtered out all compatible available instance types"
	const words = "Karpenter finds no instance type for it: " + filtered
	at := time.Unix(1000, 0)
	event := func(second int64, reason string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "NodePool", Name: "cheap"}, Reason: reason, Message: filtered, LastTimestamp: metav1.Unix(second, 0)}
	}
	type step = func(*testing.T, *observe.Launches) (news bool)
	says := func(second int64) step {
		return func(_ *testing.T, l *observe.Launches) bool {
			return l.SeeEvent(event(second, "NoCompatibleInstanceTypes"))
		}
	}
	under := func(definitions string) step {
		return func(_ *testing.T, l *observe.Launches) bool { l.Under("cheap", definitions); return false }
	}
	sees := func(name string, second int64, how string) step {
		return func(t *testing.T, l *observe.Launches) bool {
			t.Helper()
			change := launched
			if how == "ended" {
				change = ended
			}
			return l.See(launch(t, name, second, change))
		}
	}
	for name, c := range map[string]struct {
		steps []step
		news  []bool
		want  string
	}{
		"once":                           {[]step{says(990)}, []bool{true}, words},
		"again is no news":               {[]step{says(930), says(990)}, []bool{true, false}, words},
		"from long ago":                  {[]step{says(100)}, []bool{false}, ""},
		"another reason":                 {[]step{func(_ *testing.T, l *observe.Launches) bool { return l.SeeEvent(event(990, "Ready")) }}, []bool{false}, ""},
		"then a node comes":              {[]step{says(990), sees("a", 995, "launched")}, []bool{true, true}, ""},
		"then an older node comes":       {[]step{says(990), sees("a", 980, "launched")}, []bool{true, false}, words},
		"the definitions stay":           {[]step{says(990), under("1"), under("1")}, []bool{true, false, false}, words},
		"the definitions change":         {[]step{says(990), under("1"), under("2")}, []bool{true, false, false}, ""},
		"it is repeated before":          {[]step{says(930), under("1"), says(990), under("2")}, []bool{true, false, false, false}, ""},
		"a launch that failed says more": {[]step{sees("a", 980, "ended"), says(990)}, []bool{true, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := &observe.Launches{Now: func() time.Time { return at }}
			for i, step := range c.steps {
				if news := step(t, l); news != c.news[i] {
					t.Errorf("step %d: news %t", i+1, news)
				}
			}
			if got, _ := l.Failed("cheap"); got.Words != c.want {
				t.Errorf("%q, want %q", got.Words, c.want)
			}
		})
	}
}

// TestPoolEventsOnly: of the events of a cluster the cache holds those that SeeEvent reads.
func TestPoolEventsOnly(t *testing.T) {
	for of, rule := range observe.CacheOptions(&observe.Refusals{}, nil).ByObject {
		if _, is := of.(*corev1.Event); !is {
			continue
		}
		if rule.Field == nil || rule.Field.String() != "reason=NoCompatibleInstanceTypes" || len(rule.Namespaces) != 1 {
			t.Errorf("the cache holds events by %v in %v", rule.Field, rule.Namespaces)
		}
		kept, err := rule.Transform(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "karpenter"}}}, Reason: "r", Message: "m", Source: corev1.EventSource{Component: "karpenter"},
		})
		if e, _ := kept.(*corev1.Event); err != nil || e.Message != "m" || e.ManagedFields != nil || e.Source.Component != "" {
			t.Errorf("kept %+v (%v)", kept, err)
		}
		return
	}
	t.Error("the cache has no rule for events")
}
