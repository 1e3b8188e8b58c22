package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awsstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

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

// TestJoins: which launches have not joined, and why those that failed have. An end is in second 9.
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
		"its instance ends":                {[]see{{"a", 1, launched}, {"a", 1, then(launched, ended)}}, "a: its instance ended before its node registered"},
		"its node does not register":       {[]see{{"a", 1, unregistered}}, "a: it had an instance, and its node did not register in time"},
		"no capacity":                      {[]see{{"a", 1, func(*karpv1.NodeClaim) {}}, {"a", 1, ended}}, ""},
		"AWS refuses it until it is given": {[]see{{"a", 1, denied}, {"a", 1, then(denied, late)}}, "a: it got no instance: Unauthorized: User is not authorized"},
		"it registers":                     {[]see{{"a", 1, uninitialized}}, "a registered"},
		"it is initialized":                {[]see{{"a", 1, uninitialized}, {"a", 1, initialized}}, "joined 1"},
		"it ends uninitialized":            {[]see{{"a", 1, then(uninitialized, ended)}}, "a registered: its node was not initialized until it ended"},
		"another joins after it":           {[]see{{"a", 1, unregistered}, {"b", 2, initialized}}, "joined 2"},
		"another has joined before it":     {[]see{{"b", 1, initialized}, {"a", 2, unregistered}}, "a: it had an instance, and its node did not register in time, joined 1"},
		"an older one is seen again":       {[]see{{"b", 2, initialized}, {"a", 1, unregistered}}, "joined 2"},
		"one that has joined ends":         {[]see{{"b", 2, initialized}, {"b", 2, then(initialized, ended)}}, "joined 2"},
		"in the order of their launch":     {[]see{{"b", 2, launched}, {"a", 1, launched}}, "a, b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := &observe.Launches{Now: func() time.Time { return time.Unix(700, 0) }}
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

// TestJoinsAreNews where one fails, registers or joins, once each; and no more are kept than count.
func TestJoinsAreNews(t *testing.T) {
	l := &observe.Launches{Now: func() time.Time { return time.Unix(700, 0) }}
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
