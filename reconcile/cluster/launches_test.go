package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awsstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// launch returns a NodeClaim of the pool "cheap", created at a second of the test, as the cache has it.
func launch(t *testing.T, name string, made int64, change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	t.Helper()
	n := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Unix(made, 0), Labels: map[string]string{karpv1.NodePoolLabelKey: "cheap"},
	}}
	change(n)
	return kept(t, n)
}

func ended(n *karpv1.NodeClaim)    { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }
func launched(n *karpv1.NodeClaim) { n.Status.ProviderID = "aws:///a/i-1" }
func registered(n *karpv1.NodeClaim) {
	launched(n)
	n.Status.NodeName = "node-1"
}

func unregistered(n *karpv1.NodeClaim) {
	launched(n)
	n.DeletionTimestamp = &metav1.Time{Time: time.Unix(600, 0)}
}

// at sets a condition of a NodeClaim to True at a second of the test.
func at(condition string, second int64, change func(*karpv1.NodeClaim)) func(*karpv1.NodeClaim) {
	return then(change, func(n *karpv1.NodeClaim) {
		n.Status.Conditions = append(n.Status.Conditions, awsstatus.Condition{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(second, 0)})
	})
}

// says sets the condition Launched.
func says(reason, message string) func(*karpv1.NodeClaim) {
	return func(n *karpv1.NodeClaim) {
		n.Status.Conditions = []awsstatus.Condition{{Type: "Launched", Status: metav1.ConditionUnknown, Reason: reason, Message: message}}
	}
}

// TestLaunches covers sequences of NodeClaims.
func TestLaunches(t *testing.T) {
	start := time.Unix(9, 0)
	type see struct {
		claim *karpv1.NodeClaim
		news  bool
	}
	denied := says("Unauthorized", "User is not authorized")
	const words = "Unauthorized: User is not authorized"
	const without = "NodeClaim/a had an instance, but its node did not register"
	made := func(name string, second int64, change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		return launch(t, name, second, change)
	}
	var eight []see
	for i := range 8 {
		eight = append(eight, see{made(fmt.Sprintf("b%d", i), 1, at("Launched", 11, launched)), false})
	}
	cases := map[string]struct {
		seen  []see
		later time.Duration
		want  string // NodeClaim and words
	}{
		"one that is not tried yet":                    {seen: []see{{made("a", 1, says("AwaitingReconciliation", "object is awaiting")), false}}},
		"one that runs":                                {seen: []see{{made("a", 1, launched), false}}},
		"one that ends before it registers":            {seen: []see{{made("a", 1, func(n *karpv1.NodeClaim) { launched(n); ended(n) }), true}}},
		"one that ends without an instance":            {seen: []see{{made("a", 1, ended), true}, {made("a", 1, ended), false}}, want: "a "},
		"one that AWS refuses":                         {seen: []see{{made("a", 1, denied), true}, {made("a", 1, denied), false}}, want: "a " + words},
		"which it says before it ends":                 {seen: []see{{made("a", 1, denied), true}, {made("a", 1, ended), false}}, want: "a " + words},
		"another after it":                             {seen: []see{{made("a", 1, denied), true}, {made("b", 2, ended), true}}, want: "b " + words},
		"a later one runs":                             {seen: []see{{made("a", 1, ended), true}, {made("b", 2, launched), true}, {made("b", 2, launched), false}}},
		"one of the same second runs":                  {seen: []see{{made("a", 1, ended), true}, {made("b", 1, launched), true}}},
		"one that runs already":                        {seen: []see{{made("b", 2, ended), true}, {made("a", 1, launched), false}}, want: "b "},
		"long ago":                                     {seen: []see{{made("a", 1, denied), true}}, later: cluster.FailedLaunchLasts},
		"not that long ago":                            {seen: []see{{made("a", 1, denied), true}}, later: cluster.FailedLaunchLasts - 1, want: "a " + words},
		"one whose node does not register":             {seen: []see{{made("a", 1, unregistered), true}, {made("a", 1, unregistered), false}}, want: "a " + without},
		"until the next one has not registered either": {seen: []see{{made("a", 1, unregistered), true}}, later: 19 * time.Minute, want: "a " + without},
		"which did not happen":                         {seen: []see{{made("a", 1, unregistered), true}}, later: 20 * time.Minute},
		"another is launched after it":                 {seen: []see{{made("a", 1, unregistered), true}, {made("b", 601, launched), false}}, want: "a " + without},
		"it is seen again after that": {seen: []see{
			{made("a", 1, unregistered), true}, {made("b", 601, registered), true}, {made("a", 1, unregistered), false},
		}},
		"and the next one does not register either": {seen: []see{
			{made("b", 601, registered), false}, {made("c", 602, func(n *karpv1.NodeClaim) {
				launched(n)
				n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1300, 0)}
			}), true},
		}, want: "c NodeClaim/c had an instance, but its node did not register"},
		"one that was refused ends after another runs": {seen: []see{{made("a", 1, denied), true}, {made("b", 2, launched), true}, {made("a", 1, ended), false}}},
		"one of many of the same second ends":          {seen: []see{{made("a", 1, launched), false}, {made("b", 1, launched), false}, {made("c", 1, ended), false}}},
		"the next one ends":                            {seen: []see{{made("a", 1, launched), false}, {made("b", 2, ended), true}}, want: "b "},
		"another registers after it":                   {seen: []see{{made("a", 1, unregistered), true}, {made("b", 601, registered), true}}},
		"nine that were created before it are launched after it": {
			seen: append([]see{{made("z", 2, ended), true}, {made("a", 1, at("Launched", 10, launched)), true}, {made("z", 2, ended), false}}, eight...),
		},
		"of one that is refused": {seen: []see{{made("z", 2, denied), true}, {made("a", 1, at("Launched", 10, launched)), true}}},
		"one that was launched before it registers after it": {
			seen: []see{{made("z", 2, ended), true}, {made("a", 1, at("Registered", 10, at("Launched", 8, registered))), false}}, want: "z ",
		},
		"an older one registers after one that does not": {seen: []see{
			{made("a", 2, unregistered), true},
			{made("b", 1, at("Launched", 601, launched)), false},
			{made("b", 1, at("Registered", 601, registered)), true},
			{made("a", 2, unregistered), false},
		}},
		"one without a pool": {seen: []see{{made("a", 1, func(n *karpv1.NodeClaim) { ended(n); n.Labels = nil }), false}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := start
			l := &cluster.Launches{Now: func() time.Time { return now }}
			for i, s := range c.seen {
				if news := l.See(s.claim); news != s.news {
					t.Errorf("news of NodeClaim %d: %t", i+1, news)
				}
			}
			now = now.Add(c.later)
			got, failed := l.Failed("cheap")
			if said := got.NodeClaim + " " + got.Words; failed != (c.want != "") || failed && said != c.want {
				t.Errorf("failed %t: %q, want %q", failed, said, c.want)
			}
			if _, failed := l.Failed("general"); failed {
				t.Error("another pool is said to fail")
			}
		})
	}
}

// TestAnEventExplainsALaunch, unless another one has failed since; if there is no event, the launch has not failed.
func TestAnEventExplainsALaunch(t *testing.T) {
	l := &cluster.Launches{Now: time.Now}
	l.See(launch(t, "a", 1, ended))
	first, _ := l.Failed("cheap")
	l.See(launch(t, "b", 2, ended))
	l.Explain("cheap", first, "late")
	second, _ := l.Failed("cheap")
	if second.Words != "" {
		t.Errorf("explained by the event of another NodeClaim: %q", second.Words)
	}
	l.Explain("cheap", second, "no capacity")
	if got, _ := l.Failed("cheap"); got.Words != "no capacity" {
		t.Errorf("explained by %q", got.Words)
	}
	l.See(launch(t, "c", 3, ended))
	third, _ := l.Failed("cheap")
	if third.NodeClaim != "c" || third.Words != "no capacity" {
		t.Errorf("the same trouble has other words: %+v", third)
	}
	l.Explain("cheap", third, "")
	if got, failed := l.Failed("cheap"); failed {
		t.Errorf("nobody says why, and it is %+v", got)
	}
	l.Explain("cheap", third, "late")
	if got, failed := l.Failed("cheap"); failed {
		t.Errorf("it is back: %+v", got)
	}
}

func TestWhyNotLaunched(t *testing.T) {
	about := func(name, reason, message string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "." + reason}, InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: name},
			Reason: reason, Message: message,
		}
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		about("a", "Launching", "NodeClaim a event: on the way"),
		about("a", "InsufficientCapacityError", "NodeClaim a event: insufficient capacity, with fleet error(s)"),
		about("b", "InsufficientCapacityError", "NodeClaim b event: another"),
		about("c", "DisruptionBlocked", "NodeClaim c event: no"),
	).WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Name}
	}).Build()
	for claim, want := range map[string]string{"a": "insufficient capacity, with fleet error(s)", "c": "", "d": ""} {
		if got, err := cluster.WhyNotLaunched(t.Context(), reader, claim); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", claim, got, err, want)
		}
	}
}

// TestPoolsWithoutAnInstanceType: Karpenter's event on a NodePool counts until a later NodeClaim has an instance, the
// definitions change, or ten minutes have passed since the last one.
func TestPoolsWithoutAnInstanceType(t *testing.T) {
	const filtered = "NodePool requirements filtered out all compatible available instance types"
	const words = "Karpenter finds no instance type for it: " + filtered
	now := time.Unix(1000, 0)
	event := func(second int64, reason string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "NodePool", Name: "cheap"}, Reason: reason, Message: filtered, LastTimestamp: metav1.Unix(second, 0)}
	}
	type step = func(*testing.T, *cluster.Launches) (news bool)
	says := func(second int64) step {
		return func(_ *testing.T, l *cluster.Launches) bool {
			return l.SeeEvent(event(second, "NoCompatibleInstanceTypes"))
		}
	}
	under := func(definitions string) step {
		return func(_ *testing.T, l *cluster.Launches) bool { l.DropOutdated("cheap", definitions); return false }
	}
	sees := func(name string, second int64, how string) step {
		return func(t *testing.T, l *cluster.Launches) bool {
			t.Helper()
			change := launched
			switch how {
			case "ended":
				change = ended
			case "launched after it":
				change = at("Launched", 991, launched)
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
		"another reason":                 {[]step{func(_ *testing.T, l *cluster.Launches) bool { return l.SeeEvent(event(990, "Ready")) }}, []bool{false}, ""},
		"then a node comes":              {[]step{says(990), sees("a", 995, "launched")}, []bool{true, true}, ""},
		"then an older node comes":       {[]step{says(990), sees("a", 980, "launched")}, []bool{true, false}, words},
		"then an older one is launched":  {[]step{says(990), sees("a", 980, "launched after it"), says(990)}, []bool{true, true, false}, ""},
		"the definitions stay":           {[]step{says(990), under("1"), under("1")}, []bool{true, false, false}, words},
		"the definitions change":         {[]step{says(990), under("1"), under("2")}, []bool{true, false, false}, ""},
		"it is repeated before":          {[]step{says(930), under("1"), says(990), under("2")}, []bool{true, false, false, false}, ""},
		"a launch that failed says more": {[]step{sees("a", 980, "ended"), says(990)}, []bool{true, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := &cluster.Launches{Now: func() time.Time { return now }}
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

// TestPoolEventsOnly: the cache contains only the events that SeeEvent reads.
func TestPoolEventsOnly(t *testing.T) {
	for of, rule := range cluster.CacheOptions(&cluster.Refusals{}).ByObject {
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

func uninitialized(n *karpv1.NodeClaim) {
	registered(n)
	n.Status.Conditions = []awsstatus.Condition{{Type: "Initialized", Status: metav1.ConditionUnknown}}
}

func initialized(n *karpv1.NodeClaim) {
	registered(n)
	n.Status.Conditions = []awsstatus.Condition{{Type: "Initialized", Status: metav1.ConditionTrue}}
}

func then(first func(*karpv1.NodeClaim), second ...func(*karpv1.NodeClaim)) func(*karpv1.NodeClaim) {
	return func(n *karpv1.NodeClaim) {
		first(n)
		for _, change := range second {
			change(n)
		}
	}
}

// TestJoins: which launches have not joined, and why some of them failed. Deletions are at second 9 unless late.
func TestJoins(t *testing.T) {
	late := func(n *karpv1.NodeClaim) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(600, 0)} }
	denied := says("Unauthorized", "User is not authorized")
	type see struct {
		name   string
		second int64
		change func(*karpv1.NodeClaim)
	}
	cases := map[string]struct {
		seen []see
		want string
	}{
		"one that is launched":             {[]see{{"a", 1, launched}}, "a"},
		"its instance ends":                {[]see{{"a", 1, launched}, {"a", 1, then(launched, ended)}}, "a: its instance was terminated before its node registered"},
		"its node does not register":       {[]see{{"a", 1, unregistered}}, "a: it had an instance, but its node did not register in time"},
		"no capacity":                      {[]see{{"a", 1, func(*karpv1.NodeClaim) {}}, {"a", 1, ended}}, ""},
		"AWS refuses it until it is given": {[]see{{"a", 1, denied}, {"a", 1, then(denied, late)}}, "a: it got no instance: Unauthorized: User is not authorized"},
		"it registers":                     {[]see{{"a", 1, uninitialized}}, "a registered"},
		"it is initialized":                {[]see{{"a", 1, uninitialized}, {"a", 1, initialized}}, "joined 1"},
		"it ends uninitialized":            {[]see{{"a", 1, then(uninitialized, ended)}}, "a registered: its node terminated before it was initialized"},
		"another joins after it":           {[]see{{"a", 1, unregistered}, {"b", 2, initialized}}, "joined 2"},
		"another has joined before it":     {[]see{{"b", 1, initialized}, {"a", 2, unregistered}}, "a: it had an instance, but its node did not register in time, joined 1"},
		"an older one is seen again":       {[]see{{"b", 2, initialized}, {"a", 1, unregistered}}, "joined 2"},
		"one that has joined ends":         {[]see{{"b", 2, initialized}, {"b", 2, then(initialized, ended)}}, "joined 2"},
		"in the order of their launch":     {[]see{{"b", 2, launched}, {"a", 1, launched}}, "a, b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := &cluster.Launches{Now: func() time.Time { return time.Unix(700, 0) }}
			for _, s := range c.seen {
				l.See(launch(t, s.name, s.second, s.change))
			}
			waiting, joined := l.Joins("cheap")
			var words []string
			for _, j := range waiting {
				word := j.NodeClaim
				if j.Registered {
					word += " registered"
				}
				if j.Failed != "" {
					word += ": " + j.Failed
				}
				words = append(words, word)
			}
			if !joined.IsZero() {
				words = append(words, fmt.Sprintf("joined %d", joined.Unix()))
			}
			if got := strings.Join(words, ", "); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestJoinsAreNews if one fails, registers or joins, once each; at most keptJoins are kept.
func TestJoinsAreNews(t *testing.T) {
	l := &cluster.Launches{Now: func() time.Time { return time.Unix(700, 0) }}
	for i, s := range []struct {
		change func(*karpv1.NodeClaim)
		news   bool
	}{{launched, false}, {uninitialized, true}, {uninitialized, false}, {initialized, true}, {initialized, false}} {
		if news := l.See(launch(t, "a", 1, s.change)); news != s.news {
			t.Errorf("%d: news %t", i+1, news)
		}
	}
	for i := range 500 {
		l.See(launch(t, fmt.Sprintf("b%d", i), int64(i+2), then(launched, ended)))
	}
	if waiting, _ := l.Joins("cheap"); len(waiting) != 100 || waiting[99].NodeClaim != "b499" {
		t.Errorf("%d are kept, the last %v", len(waiting), waiting[len(waiting)-1])
	}
}
