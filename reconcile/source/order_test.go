package source_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// ordered is a branch with a commit of before the first fetch, one that was fetched, and
// more of which the last was applied.
type ordered struct {
	host                          *host
	before, first, middle, latest string
}

func orderedHost(t *testing.T) ordered {
	t.Helper()
	h := newHost(t)
	o := ordered{host: h, before: h.commit(t, "main", files{"a": "0"})}
	o.first = h.commit(t, "main", files{"a": "1"})
	o.middle = h.commit(t, "main", files{"a": "2"})
	h.commit(t, "main", files{"a": "3"})
	o.latest = h.commit(t, "main", files{"a": "4"})
	return o
}

// TestOrderOfWhatWasFetched: how HEAD stands to what was applied is known from what was
// fetched, without asking the host.
func TestOrderOfWhatWasFetched(t *testing.T) {
	o := orderedHost(t)
	c := newClient(t, o.host.url, source.Options{})
	fetch := func(commit string) {
		o.host.point(t, "refs/heads/main", commit)
		c.mustFetch(t, v1alpha1.GitRef{})
	}
	want := func(commit string, order source.Order) {
		t.Helper()
		asked := o.host.asked.Load()
		if got := c.git.Order(c.request.Key, commit); got != order || o.host.asked.Load() != asked {
			t.Errorf("order of %s = %q, want %q; asked %d times", commit, got, order, o.host.asked.Load()-asked)
		}
	}
	fetch(o.first) // of which the parent is not fetched
	fetch(o.latest)
	want(o.latest, source.OrderNewer)
	want(o.first, source.OrderNewer)
	want(o.before, source.OrderUnknown)
	want(strings.Repeat("1", 40), source.OrderUnknown)
	want("", source.OrderUnknown)
	fetch(o.middle)
	want(o.latest, source.OrderOlder)
	want(o.first, source.OrderNewer)
	o.host.commit(t, "main", files{"a": "rebased"})
	c.mustFetch(t, v1alpha1.GitRef{})
	want(o.latest, source.OrderParted)
	want(o.middle, source.OrderNewer)
	if got := c.git.Order("nobody", o.latest); got != source.OrderUnknown {
		t.Errorf("nothing was fetched, and it is %s", got)
	}
}

// TestOrderThatTheHostKnows: after a restart, or with another ref, the store has HEAD
// alone, and the host is asked for the history in between.
func TestOrderThatTheHostKnows(t *testing.T) {
	cases := map[string]struct {
		head    func(*testing.T, ordered) v1alpha1.GitRef
		applied func(ordered) string
		gives   string // uploadpack.allowAnySHA1InWant
		want    source.Order
	}{
		"pushed while it was down": {applied: func(o ordered) string { return o.first }, want: source.OrderNewer},
		"set back": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.first)
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderOlder,
		},
		"set back, on a host that gives out what a ref leads to only": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.first)
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "false", want: source.OrderUnknown,
		},
		"an older tag": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/tags/v1", o.middle)
				return v1alpha1.GitRef{Tag: "v1"}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderOlder,
		},
		"rebased": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.middle)
				o.host.commit(t, "main", files{"a": "rebased"})
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderParted,
		},
		"of another repository": {applied: func(ordered) string { return strings.Repeat("ab", 20) }, gives: "true", want: source.OrderUnknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := orderedHost(t)
			if tc.gives != "" {
				git(t, o.host.repository, "", "config", "uploadpack.allowAnySHA1InWant", tc.gives)
			}
			ref := v1alpha1.GitRef{}
			if tc.head != nil {
				ref = tc.head(t, o)
			}
			c := newClient(t, o.host.url, source.Options{})
			c.mustFetch(t, ref)
			if got := c.git.Order(c.request.Key, tc.applied(o)); got != source.OrderUnknown {
				t.Fatalf("known without asking: %s", got)
			}
			got, err := c.git.FindOrder(t.Context(), c.request, tc.applied(o))
			if got != tc.want || (err != nil) != (tc.want == source.OrderUnknown) || err != nil && !as[*source.HistoryError](err) {
				t.Errorf("order = %q, %v; want %q", got, err, tc.want)
			}
			// What was brought for it does no harm to the next fetch.
			o.host.point(t, "refs/heads/main", o.latest)
			c.mustFetch(t, v1alpha1.GitRef{})
		})
	}
}
