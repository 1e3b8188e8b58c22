package evaluate

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func setWith(names ...string) *render.Set {
	set := &render.Set{}
	for _, name := range names {
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
	}
	return set
}

// TestWhatIsKnownOfOthers shows that a NodeSync is up to date if its newest revision was rendered, and is as new as
// ours.
func TestWhatIsKnownOfOthers(t *testing.T) {
	elsewhere := func(n *v1alpha1.NodeSync) {
		n.Spec.Source.Git = &v1alpha1.GitSource{URL: "https://git.example.com/acme/other.git"}
	}
	cases := map[string]struct {
		change func(*v1alpha1.NodeSync)
		// heard is how long before our fetch its rendered fetch began; negative if it has rendered none.
		heard time.Duration
		want  plan.OtherSync
	}{
		"never heard":                       {unchanged, -1, plan.OtherSync{Awaited: true}},
		"as new as ours":                    {unchanged, 0, plan.OtherSync{Known: true, Awaited: true}},
		"behind ours":                       {unchanged, time.Second, plan.OtherSync{Awaited: true}},
		"behind ours, at the same commit":   {func(n *v1alpha1.NodeSync) { n.Labels = map[string]string{"commit": "same"} }, time.Second, plan.OtherSync{Known: true, Awaited: true}},
		"of another repository":             {elsewhere, 0, plan.OtherSync{Known: true, Awaited: true}},
		"of another, behind ours":           {elsewhere, time.Hour, plan.OtherSync{Awaited: true}},
		"of another repository, not heard":  {elsewhere, -1, plan.OtherSync{Awaited: true}},
		"its spec has changed since":        {func(n *v1alpha1.NodeSync) { n.Generation = 2 }, 0, plan.OtherSync{Awaited: true}},
		"suspended":                         {func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, -1, plan.OtherSync{Suspended: true, Awaited: true}},
		"suspended, and looked at since":    {func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }, 0, plan.OtherSync{Known: true, Suspended: true, Awaited: true}},
		"suspended since it was heard":      {func(n *v1alpha1.NodeSync) { n.Spec.Suspend, n.Generation = true, 2 }, 0, plan.OtherSync{Suspended: true, Awaited: true}},
		"in a namespace that nobody serves": {func(n *v1alpha1.NodeSync) { n.Namespace = "elsewhere" }, -1, plan.OtherSync{}},
		"being deleted": {func(n *v1alpha1.NodeSync) {
			now := metav1.Now()
			n.DeletionTimestamp = &now
		}, 0, plan.OtherSync{Known: true}},
		"it fails": {func(n *v1alpha1.NodeSync) {
			n.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: "SourceFailed"}}
		}, -1, plan.OtherSync{Awaited: true, Failure: "SourceFailed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, other := planStep(nodeSync(unchanged)), another(c.change)
			s.Memory.Fetched(s.Now)
			key := types.NamespacedName{Namespace: other.Namespace, Name: other.Name}
			s.Snapshot = &render.Snapshot{Commit: "same"}
			set := setWith("a")
			set.Commit = other.Labels["commit"]
			if c.heard >= 0 {
				s.Registry.Remember(key, other.UID, set, 1, s.Now.Add(-c.heard))
			}
			got := s.otherSyncs([]v1alpha1.NodeSync{*s.Sync, *other})
			c.want.Owner = plan.OwnerOf(other.Namespace, "gpu")
			if c.want.Known && other.DeletionTimestamp == nil {
				c.want.Entries = map[render.Ref]bool{{Kind: render.NodePool, Name: "a"}: true}
			}
			if len(got) == 1 && !got[0].Known {
				got[0].Entries = nil // irrelevant
			}
			if diff := cmp.Diff([]plan.OtherSync{c.want}, got); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
		})
	}
}

// TestADrainWaitsForWhatOthersHave shows that others fetch once the drain is noticed, and that a clock that is set back
// makes no NodeSync wait for it.
func TestADrainWaitsForWhatOthersHave(t *testing.T) {
	s := planStep(nodeSync(func(n *v1alpha1.NodeSync) {
		now := metav1.Now()
		n.DeletionTimestamp, n.Finalizers = &now, []string{v1alpha1.Finalizer}
	}))
	other := another(unchanged)
	key := types.NamespacedName{Namespace: other.Namespace, Name: other.Name}
	had := setWith("a")
	had.Commit = "same"
	s.Snapshot = &render.Snapshot{Commit: had.Commit}
	s.Registry.Remember(key, other.UID, had, 1, s.Now.Add(-time.Second))
	all := []v1alpha1.NodeSync{*s.Sync, *other}
	if got := s.otherSyncs(all)[0]; got.Known {
		t.Error("what another had before the deletion counts as its newest")
	}
	s.Registry.Remember(key, other.UID, setWith("a"), 1, s.Now.Add(time.Second))
	if got := s.otherSyncs(all)[0]; !got.Known {
		t.Error("what another has fetched since is not known")
	}
	s.Now = s.Now.Add(-time.Hour)
	s.Registry.Remember(key, other.UID, setWith("a"), 1, s.Now)
	if got := s.otherSyncs(all)[0]; !got.Known {
		t.Error("what another has fetched since the clock was put back is not known")
	}
}

// TestOneThatWaitsIsWokenByNews shows that it is triggered once for each new Set, and that others on the same
// repository fetch.
func TestOneThatWaitsIsWokenByNews(t *testing.T) {
	s, other := planStep(nodeSync(unchanged)), another(unchanged)
	fetched := map[types.NamespacedName]time.Time{}
	s.Fetch = func(name types.NamespacedName, at time.Time) { fetched[name] = at }
	key, at := types.NamespacedName{Namespace: namespace, Name: "gpu"}, s.Now
	s.Memory.Fetched(at)

	s.awaitOthers(&plan.Plan{Kept: []plan.Kept{{By: "plumbline-system/gpu"}}}, []v1alpha1.NodeSync{*s.Sync, *other}, false)
	if !fetched[key].Equal(at) {
		t.Error("the other, which is behind, is not fetched for")
	}
	for _, look := range []struct {
		of    *render.Set
		at    time.Time
		wakes int
	}{
		{setWith("a"), at, 1},
		{setWith("a"), at, 0},
		{setWith("a", "b"), at, 1},
		{setWith("a", "c"), at, 1},
		{setWith("a", "c"), at.Add(1), 1},
	} {
		if got := s.Registry.Remember(key, other.UID, look.of, 1, look.at); len(got) != look.wakes {
			t.Errorf("%v: %v are woken, want %d", look.of.Objects, got, look.wakes)
		}
	}
	s.awaitOthers(&plan.Plan{}, nil, false)
	if got := s.Registry.Remember(key, other.UID, setWith("d"), 1, at); len(got) != 0 {
		t.Errorf("%v are woken, and wait for nothing", got)
	}
}

// TestOneThatIsNotHeardIsWaitedForSince the first reconcile that waits for it, so that the wait can count as stalled,
// until its entries are known.
func TestOneThatIsNotHeardIsWaitedForSince(t *testing.T) {
	s, other := planStep(nodeSync(unchanged)), another(unchanged)
	all := []v1alpha1.NodeSync{*s.Sync, *other}
	kept := &plan.Plan{Kept: []plan.Kept{{By: "plumbline-system/gpu"}}}
	key, began := types.NamespacedName{Namespace: namespace, Name: "gpu"}, s.Now
	s.Memory.Fetched(began)
	if got := s.otherSyncs(all)[0].Since; !got.IsZero() {
		t.Errorf("waited for since %s before anything waits", got)
	}
	for range 2 {
		s.awaitOthers(kept, all, false)
		if got := s.otherSyncs(all)[0].Since; !got.Equal(began) {
			t.Errorf("waited for since %s, want %s", got, began)
		}
		if stalls := began.Add(s.Sync.GetStallAfter()); !s.WakeAt.Equal(stalls) {
			t.Errorf("the next look is at %s, want one at %s", s.WakeAt, stalls)
		}
		s.Now = s.Now.Add(time.Minute)
	}
	s.Registry.Remember(key, other.UID, setWith("a"), 1, began)
	s.awaitOthers(kept, all, false)
	if got := s.otherSyncs(all)[0].Since; !got.IsZero() {
		t.Errorf("heard, and waited for since %s", got)
	}
	s.Registry.Forget(key)
	s.awaitOthers(kept, all, false)
	s.awaitOthers(&plan.Plan{}, all, false)
	if got := s.otherSyncs(all)[0].Since; !got.IsZero() {
		t.Errorf("nothing waits, and it is waited for since %s", got)
	}
}
