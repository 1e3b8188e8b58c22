package evaluate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

func TestWithhold(t *testing.T) {
	type orders = map[string]source.Order
	doubt := func(reason, revision, from string) *v1alpha1.Withheld {
		return &v1alpha1.Withheld{Reason: reason, Revision: revision, From: from}
	}
	lost, older, unknown := v1alpha1.ReasonStatusLost, v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown
	cases := map[string]struct {
		known         *v1alpha1.Withheld
		head, applied string
		orders        orders
		want          *v1alpha1.Withheld
	}{
		"the applied one":                                 {head: "main@sha1:d", applied: "main@sha1:d"},
		"a descendant":                                    {head: "main@sha1:e", applied: "main@sha1:d", orders: orders{"d": source.OrderNewer}},
		"a sibling, as after a rebase":                    {head: "main@sha1:e", applied: "main@sha1:d", orders: orders{"d": source.OrderDiverged}},
		"the same commit of another ref":                  {head: "v1@sha1:d", applied: "main@sha1:d"},
		"an ancestor":                                     {head: "main@sha1:a", applied: "main@sha1:d", orders: orders{"d": source.OrderOlder}, want: doubt(older, "main@sha1:a", "main@sha1:d")},
		"an older tag":                                    {head: "v1@sha1:a", applied: "v2@sha1:d", orders: orders{"d": source.OrderOlder}, want: doubt(older, "v1@sha1:a", "v2@sha1:d")},
		"nobody knows":                                    {head: "main@sha1:a", applied: "main@sha1:d", want: doubt(unknown, "main@sha1:a", "main@sha1:d")},
		"nothing was applied":                             {head: "main@sha1:a", want: doubt(lost, "main@sha1:a", "")},
		"nothing was known to be applied":                 {known: doubt(lost, "main@sha1:a", ""), head: "main@sha1:b", applied: "main@sha1:a", want: doubt(lost, "main@sha1:b", "")},
		"the ancestor, applied by now":                    {known: doubt(older, "main@sha1:a", "main@sha1:d"), head: "main@sha1:a", applied: "main@sha1:a", want: doubt(older, "main@sha1:a", "main@sha1:d")},
		"the unknown one, applied by now":                 {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:a", applied: "main@sha1:a", want: doubt(unknown, "main@sha1:a", "main@sha1:d")},
		"the unknown one, older after all":                {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:a", applied: "main@sha1:a", orders: orders{"d": source.OrderOlder}, want: doubt(older, "main@sha1:a", "main@sha1:d")},
		"the unknown one, newer after all":                {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:a", applied: "main@sha1:a", orders: orders{"d": source.OrderNewer}},
		"a mirror that catches up":                        {known: doubt(older, "main@sha1:a", "main@sha1:d"), head: "main@sha1:b", applied: "main@sha1:a", orders: orders{"d": source.OrderOlder, "a": source.OrderNewer}, want: doubt(older, "main@sha1:b", "main@sha1:d")},
		"a mirror that has caught up":                     {known: doubt(older, "main@sha1:b", "main@sha1:d"), head: "main@sha1:d", applied: "main@sha1:b", orders: orders{"d": source.OrderNewer, "b": source.OrderNewer}},
		"set back once more":                              {known: doubt(older, "main@sha1:b", "main@sha1:d"), head: "main@sha1:a", applied: "main@sha1:b", orders: orders{"d": source.OrderOlder, "b": source.OrderOlder}, want: doubt(older, "main@sha1:a", "main@sha1:d")},
		"a newer commit lacks it, too":                    {known: doubt(older, "main@sha1:a", "main@sha1:d"), head: "main@sha1:f", applied: "main@sha1:a", orders: orders{"d": source.OrderDiverged, "a": source.OrderNewer}},
		"a newer one than the unknown one":                {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:f", applied: "main@sha1:a", orders: orders{"a": source.OrderNewer}, want: doubt(unknown, "main@sha1:f", "main@sha1:d")},
		"a newer one than the older one, after a restart": {known: doubt(older, "main@sha1:a", "main@sha1:d"), head: "main@sha1:b", applied: "main@sha1:a", orders: orders{"a": source.OrderNewer}, want: doubt(unknown, "main@sha1:b", "main@sha1:d")},
		"the unknown one has caught up":                   {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:e", applied: "main@sha1:a", orders: orders{"a": source.OrderNewer, "d": source.OrderNewer}},
		"it has turned out to have parted":                {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:e", applied: "main@sha1:a", orders: orders{"a": source.OrderNewer, "d": source.OrderDiverged}},
		"newer than one not yet applied":                  {known: doubt(unknown, "main@sha1:a", "main@sha1:d"), head: "main@sha1:f", applied: "main@sha1:d", want: doubt(unknown, "main@sha1:f", "main@sha1:d")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := doubtOf(c.known, c.head, c.applied, func(commit string) source.Order { return c.orders[commit] })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPartOfARevisionCounts shows that a HEAD that is older than a partly applied revision causes doubt, although that
// revision was never applied completely.
func TestPartOfARevisionCounts(t *testing.T) {
	for name, c := range map[string]struct {
		applied, partly, head string
		order                 source.Order
		want                  string
	}{
		"set back to the applied one":     {"a", "b", "a", source.OrderOlder, v1alpha1.ReasonOlderRevision},
		"still the same":                  {"a", "b", "b", source.OrderUnknown, ""},
		"a newer one":                     {"a", "b", "c", source.OrderNewer, ""},
		"nobody knows how the two stand":  {"a", "b", "c", source.OrderUnknown, v1alpha1.ReasonHistoryUnknown},
		"nothing was ever applied whole":  {"", "b", "b", source.OrderNewer, v1alpha1.ReasonStatusLost},
		"the last one was applied, whole": {"b", "", "b", source.OrderUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			revision := func(commit string) string {
				if commit == "" {
					return ""
				}
				return "main@sha1:" + commit
			}
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
				n.Status.LastAppliedRevision, n.Status.PartlyAppliedRevision = revision(c.applied), revision(c.partly)
			}))
			s.Snapshot = &render.Snapshot{Revision: revision(c.head), Commit: c.head}
			s.Order = func(string) source.Order { return c.order }
			got := ""
			if doubt := s.Doubt(); doubt != nil {
				got = doubt.Reason
			}
			if got != c.want {
				t.Errorf("in doubt for %q, want %q", got, c.want)
			}
		})
	}
}

// TestTheHostIsAskedForTheHistory only if something would be removed, and not repeatedly.
func TestTheHostIsAskedForTheHistory(t *testing.T) {
	newest := plan.Candidate{Ref: render.Ref{Kind: render.NodePool, Name: "newest"}, UID: "1", Held: true, Reason: v1alpha1.ReasonHistoryUnknown}
	cases := map[string]struct {
		left   plan.Plan
		found  source.Order
		asked  int
		reason string
	}{
		"nothing leaves":                        {plan.Plan{}, source.OrderOlder, 0, v1alpha1.ReasonHistoryUnknown},
		"a pool leaves, and HEAD is older":      {plan.Plan{Removals: []plan.Candidate{newest}}, source.OrderOlder, 1, v1alpha1.ReasonOlderRevision},
		"a pool leaves, and HEAD is newer":      {plan.Plan{Removals: []plan.Candidate{newest}}, source.OrderNewer, 1, ""},
		"a pool may leave, and HEAD has parted": {plan.Plan{Kept: []plan.Kept{{Ref: newest.Ref, UID: "1"}}}, source.OrderDiverged, 1, ""},
		"a pool leaves, and the host is silent": {plan.Plan{Removals: []plan.Candidate{newest}}, source.OrderUnknown, 1, v1alpha1.ReasonHistoryUnknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Status.LastAppliedRevision = "main@sha1:old" }))
			asked := 0
			s.Order = func(string) source.Order { return source.OrderUnknown }
			s.FindOrder = func(_ context.Context, commit string) (source.Order, error) {
				if asked++; commit == "old" && c.found != source.OrderUnknown {
					return c.found, nil
				}
				return source.OrderUnknown, &source.HistoryError{Since: commit, Reason: "the host does not give it out"}
			}
			s.Snapshot = &render.Snapshot{Revision: "main@sha1:new", Commit: "new"}
			for range 2 {
				doubt := s.Doubt()
				found, told := s.requestOrder(t.Context(), Planned{Plan: &c.left, Doubt: doubt})
				if told {
					doubt = found
				}
				if told != (c.asked > 0 && c.found != source.OrderUnknown) {
					t.Errorf("the host has told: %t", told)
				}
				if c.reason == "" && doubt != nil || c.reason != "" && !is(doubt, c.reason) {
					t.Errorf("in doubt: %+v, want %q", doubt, c.reason)
				}
				if c.found != source.OrderUnknown {
					break
				}
			}
			if asked != c.asked {
				t.Errorf("the host was asked %d times", asked)
			}
			s.Now = s.Now.Add(2 * time.Minute)
			s.requestOrder(t.Context(), Planned{Plan: &c.left, Doubt: s.Doubt()})
			if c.found == source.OrderUnknown && asked != 2 {
				t.Error("a host that was silent is not asked again")
			}
		})
	}
}

// TestAStatusWithoutARevision shows that a status that contains no applied revision counts as lost, whatever else it
// contains.
func TestAStatusWithoutARevision(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		status := v1alpha1.NodeSyncStatus{
			ObservedGeneration:    rapid.Int64Range(-1, 3).Draw(t, "observed"),
			LastAttemptedRevision: rapid.SampledFrom([]string{"", "main@sha1:a"}).Draw(t, "attempted"),
			LastAppliedInputs:     rapid.SampledFrom([]string{"", "1"}).Draw(t, "inputs"),
		}
		if rapid.Bool().Draw(t, "fixed") {
			status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "prod"}
		}
		if rapid.Bool().Draw(t, "removing") {
			status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "a", UID: types.UID("1")}}
		}
		if rapid.Bool().Draw(t, "in doubt") {
			status.Withheld = &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: "main@sha1:a", From: "main@sha1:b"}
		}
		sync := nodeSync(func(n *v1alpha1.NodeSync) { n.Status = status })
		if !plan.PolicyOf(sync, nil, &render.Set{Revision: "main@sha1:a"}).StatusLost {
			t.Fatal("the policy takes it for known")
		}
		got := doubtOf(status.Withheld, "main@sha1:a", status.LastAppliedRevision, func(string) source.Order { return source.OrderNewer })
		if got == nil || got.Reason != v1alpha1.ReasonStatusLost || strings.TrimSpace(got.Revision) == "" {
			t.Fatalf("in doubt: %+v", got)
		}
	})
}
