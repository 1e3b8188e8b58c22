package removal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatWasRevertedIsCounted checks the count of terminated nodes if one of the nodes stays.
func TestWhatWasRevertedIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		wanted []render.Ref
		want   []Write
	}{
		"in Git again": {
			[]render.Ref{general},
			[]Write{{Kind: general.Kind, Name: general.Name, Action: Reverted{Commit: "a", Ended: 2, NodeClaims: 3}}},
		},
		"another NodeSync's": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
			record := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
				Data:       map[string]string{"p1": `{"kind": "NodePool", "name": "general", "growth": {}, "nodeClaims": 3}`},
			}
			if err := b.client.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			s := b.step(c.wanted...)
			open := v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:a", Phase: v1alpha1.RemovalDraining}
			s.Sync.Status.Removals, s.Plan = []v1alpha1.Removal{open}, &plan.Plan{Returned: []v1alpha1.Removal{open}}
			got, err := s.endReverted(t.Context(), s.pace())
			if err != nil || len(s.Sync.Status.Removals) > 0 {
				t.Errorf("removals %+v, error %v", s.Sync.Status.Removals, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsNotWrittenGetsItsGrowthBack checks that a pool whose entry is in Git again grows as before, whatever prevents
// the write of its change, and that the status shows its nodes and no progress of the removal.
func TestWhatIsNotWrittenGetsItsGrowthBack(t *testing.T) {
	for name, change := range map[string]plan.Change{
		"held":                           {Action: plan.Hold},
		"frozen":                         {Action: plan.Wait, Reason: plan.ReasonFrozen},
		"refused":                        {Action: plan.Refuse, Reason: plan.ReasonClassMissing},
		"invalid":                        {Action: plan.Refuse, Reason: plan.ReasonInvalid},
		"denied by the API server":       {Action: plan.TakeBack, Reason: plan.ReasonReturned},
		"its class is terminating":       {Action: plan.Wait, Reason: plan.ReasonTerminating},
		"its class could not be created": {Action: plan.Wait, Reason: plan.ReasonClassNotMade},
		"another NodeSync has its class": {Action: plan.Wait, Reason: plan.ReasonOtherSync},
		"another tool applies it":        {Action: plan.Conflict, Reason: plan.ReasonOtherApplier},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
			record := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
				Data:       map[string]string{"p1": `{"kind": "NodePool", "name": "general", "growth": {"cpu": "100"}, "nodeClaims": 3}`},
			}
			stopped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": general.Kind, "spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
			stopped.SetName(general.Name)
			err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stopped), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership)
			if err := errors.Join(err, b.client.Create(t.Context(), record)); err != nil {
				t.Fatal(err)
			}
			s := b.step(general)
			open := v1alpha1.Removal{
				Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:a", Phase: v1alpha1.RemovalDraining,
				Reason: ReasonNodeClaimsLeaving, Message: "node a waits for pod b", Stalled: new(metav1.Now()), Remaining: 3,
			}
			s.Sync.Status.Removals = []v1alpha1.Removal{open}
			s.Sync.Status.RecentRemovals = []v1alpha1.RecentRemoval{{Name: general.Name, UID: "p1", At: metav1.NewTime(now), Nodes: 3}}
			change.Ref, change.Live = general, b.livePool()
			s.Plan = &plan.Plan{Returned: []v1alpha1.Removal{open}, Changes: []plan.Change{change}}
			if _, err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			open.Reason, open.Stalled, open.Remaining = v1alpha1.ReasonReturned, nil, 1
			open.Message = "NodePool/general is in Git again: its removal is reverted once its change is applied"
			if diff := cmp.Diff([]v1alpha1.Removal{open}, s.Sync.Status.Removals); diff != "" {
				t.Errorf("removals (-want +got):\n%s", diff)
			}
			if recent := s.Sync.Status.RecentRemovals; len(recent) != 1 || recent[0].Nodes != 2 {
				t.Errorf("it counts with the nodes that are gone: %+v", recent)
			}
			after := b.livePool()
			if cpu, _, _ := unstructured.NestedString(after.Object, "spec", "limits", "cpu"); cpu != "100" || after.GetLabels()[v1alpha1.OwnerLabel] == "" {
				t.Errorf("after: %v", after.Object)
			}
			if restrained(after) >= 0 {
				t.Errorf("the removal has it still: %v", after.GetManagedFields())
			}
		})
	}
}

// TestWhatIsWrittenOrSettlesIsNotRestored checks that the pool of a reverted removal is not written twice, and that its
// disruption budgets are not restored before Karpenter finds that its nodes match.
func TestWhatIsWrittenOrSettlesIsNotRestored(t *testing.T) {
	b := living(t)
	s, open := b.step(general), v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", Phase: v1alpha1.RemovalDraining}
	for name, c := range map[string]struct {
		change  plan.Change
		written []plan.Write
	}{
		"written":  {plan.Change{Action: plan.TakeBack}, []plan.Write{{Ref: general}}},
		"settling": {plan.Change{Action: plan.Wait, Reason: plan.ReasonSettling}, nil},
	} {
		c.change.Ref, c.change.Live = general, b.livePool()
		s.Plan, s.Written = &plan.Plan{Returned: []v1alpha1.Removal{open}, Changes: []plan.Change{c.change}}, c.written
		if got := s.unwritten(); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatIsRemovedAgain checks that a removal after Git contained the entry again is a new one, once the pool is as
// before the earlier one. NodeClaims of the earlier one that are terminating stay recorded.
func TestWhatIsRemovedAgain(t *testing.T) {
	b := living(t)
	owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
		Data:       map[string]string{"p1": `{"kind": "NodePool", "name": "general", "growth": {"cpu": "100"}, "nodeClaims": 3}`},
	}
	leaving := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "general-2", UID: "c2", Finalizers: []string{"karpenter.sh/termination"}, Labels: map[string]string{karpv1.NodePoolLabelKey: general.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: general.Name, UID: "p1"}},
	}}
	stopped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": general.Kind, "spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
	stopped.SetName(general.Name)
	err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stopped), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership)
	if err := errors.Join(err, b.client.Create(t.Context(), record), b.client.Create(t.Context(), leaving), b.client.Delete(t.Context(), leaving)); err != nil {
		t.Fatal(err)
	}
	old := v1alpha1.Removal{
		Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:a", Phase: v1alpha1.RemovalDraining, Reason: v1alpha1.ReasonReturned,
		RecordedAt: metav1.NewTime(now.Add(-time.Hour)),
	}
	run := func() *Step {
		s := b.step()
		s.Sync.Status.Removals = []v1alpha1.Removal{old}
		s.Plan = &plan.Plan{Removals: []plan.Candidate{{Ref: general, UID: "p1", Revision: "main@sha1:c", Nodes: 2}}}
		reverted, err := s.endReverted(t.Context(), s.pace())
		if err == nil {
			err = s.restore(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		s.recordCandidates()
		if again := len(reverted) > 0; again == s.notDriven(s.Sync.Status.Removals[0]) {
			t.Errorf("reverted %v, and driven: %+v", reverted, s.Sync.Status.Removals)
		}
		return s
	}
	s := run()
	if diff := cmp.Diff([]v1alpha1.Removal{old}, s.Sync.Status.Removals); diff != "" || s.WakeAt.IsZero() {
		t.Errorf("while the pool is restored (-want +got):\n%s", diff)
	}
	if cpu, _, _ := unstructured.NestedString(b.livePool().Object, "spec", "limits", "cpu"); cpu != "100" {
		t.Fatalf("limits.cpu is %s", cpu)
	}
	s = run()
	want := []v1alpha1.Removal{{
		Kind: general.Kind, Name: general.Name, UID: "p1", Revision: "main@sha1:c", Phase: v1alpha1.RemovalPacing, RecordedAt: s.timestamp(), Since: s.timestamp(),
		LastProgress: s.timestamp(), Remaining: 2, Definition: plan.Definition(b.livePool()),
	}}
	if diff := cmp.Diff(want, s.Sync.Status.Removals); diff != "" {
		t.Errorf("once it is restored (-want +got):\n%s", diff)
	}
	records, err := loadRecords(t.Context(), b.client, b.sync)
	if err != nil {
		t.Fatal(err)
	}
	if _, stays := records.entries["p1"]; stays || !slices.Equal(records.entries[revertedKey("p1")].Leaving, []types.UID{"c2"}) {
		t.Errorf("the record: %+v", records.entries)
	}
}

// TestAPoolThatAnotherMayHavePauses checks that, while the other NodeSyncs are unknown for seconds after a restart,
// Karpenter starts no more replacements, and that the pool grows again only if that lasts.
func TestAPoolThatAnotherMayHavePauses(t *testing.T) {
	for name, c := range map[string]struct {
		since    time.Duration
		handed   bool
		restores bool
	}{
		"since a moment":       {10 * time.Second, false, false},
		"for a while":          {2 * time.Minute, false, true},
		"that another one has": {10 * time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			leaves := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": general.Kind, "spec": map[string]any{
				"limits":     map[string]any{"cpu": "0"},
				"template":   map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LeavingLabel: "20260301T000000Z"}}},
				"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "1", "reasons": []any{"Drifted"}}}},
			}}}
			leaves.SetName(general.Name)
			if err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(leaves), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			s := b.step(general)
			s.Before.Status.Removals = []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: "p1", Phase: v1alpha1.RemovalDraining}}
			s.Sync.Status.Removals = slices.Clone(s.Before.Status.Removals)
			s.Live.Objects = map[render.Ref]*plan.Object{general: plan.NewObject(b.livePool())}
			s.Plan = &plan.Plan{Kept: []plan.Kept{{Ref: general, UID: "p1", HandedOver: c.handed, Since: s.Now.Add(-c.since)}}}
			if _, err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := b.livePool()
			labels, _, _ := unstructured.NestedStringMap(after.Object, "spec", "template", "metadata", "labels")
			if _, leaves := labels[v1alpha1.LeavingLabel]; leaves == c.restores {
				t.Errorf("labels %v", labels)
			}
			if budgets := fmt.Sprint(plan.BudgetsOf(after)); budgets != "[map[nodes:0 reasons:[Drifted]]]" {
				t.Errorf("budgets %s", budgets)
			}
			if s.WakeAt.IsZero() || s.WakeAt.After(s.Now.Add(pauseForUnknown)) {
				t.Errorf("the next pass is wanted at %s", s.WakeAt)
			}
		})
	}
}

// TestWhatTheGuardLetsGoIsRecordedOnce checks that held, queued or orphaned removals are not recorded, nor are classes,
// nor anything without a period.
func TestWhatTheGuardLetsGoIsRecordedOnce(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	goes := plan.Candidate{Ref: general, UID: "p1", Nodes: 3}
	entry := v1alpha1.RecentRemoval{Name: "general", UID: "p1", At: at(0), Nodes: 3}
	for name, c := range map[string]struct {
		of     func(*plan.Candidate)
		before []v1alpha1.RecentRemoval
		period *metav1.Duration
		want   []v1alpha1.RecentRemoval
	}{
		"let go":              {want: []v1alpha1.RecentRemoval{entry}},
		"held":                {of: func(c *plan.Candidate) { c.Held = true }},
		"queued":              {of: func(c *plan.Candidate) { c.Queued = true }},
		"left to itself":      {of: func(c *plan.Candidate) { c.Orphan = true }},
		"a class":             {of: func(c *plan.Candidate) { c.Ref.Kind = render.EC2NodeClass }},
		"without a period":    {period: &metav1.Duration{}},
		"recorded already":    {before: []v1alpha1.RecentRemoval{entry}, want: []v1alpha1.RecentRemoval{entry}},
		"its pool has grown":  {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 1}}, want: []v1alpha1.RecentRemoval{entry}},
		"its pool has shrunk": {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 9}}, want: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 9}}},
		"one of long ago":     {of: func(c *plan.Candidate) { c.Held = true }, before: []v1alpha1.RecentRemoval{{Name: "old", UID: "o", At: at(-time.Hour)}}},
		"by a clock put back": {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(time.Hour), Nodes: 3}}, want: []v1alpha1.RecentRemoval{entry}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			candidate := goes
			if c.of != nil {
				c.of(&candidate)
			}
			s.Plan = &plan.Plan{Removals: []plan.Candidate{candidate}}
			s.Sync.Status.RecentRemovals, s.Sync.Spec.Guard.RemovalPeriod = c.before, c.period
			s.recordCandidates()
			s.recordRecent()
			if diff := cmp.Diff(c.want, s.Sync.Status.RecentRemovals); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if starts := s.counts["p1"]; starts != (len(c.want) > 0) {
				t.Errorf("its removal starts once the record is read back: %t", starts)
			}
		})
	}
}

// TestARevertedRemovalCountsWithWhatItHasTerminated checks that a reverted removal counts with the nodes that it has
// terminated, or not at all if there are none. Nodes that the pool launched after the guard counted it count as well:
// the record of the removal contains them.
func TestARevertedRemovalCountsWithWhatItHasTerminated(t *testing.T) {
	const stays = "aws:///eu-west-1a/i-0123456789abcdef0"
	for name, c := range map[string]struct {
		counted   int32
		instances []string
		want      int32
	}{
		"the node that there was still runs": {counted: 1, instances: []string{stays}},
		"two are gone":                       {counted: 3, instances: []string{stays, "a", "b"}, want: 2},
		"the record is lost":                 {counted: 3, want: 2},
		"two were launched later":            {counted: 3, instances: []string{stays, "a", "b", "c", "d"}, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			seen := map[string]string{}
			for _, id := range c.instances {
				seen[id] = ""
			}
			entry, err := json.Marshal(map[string]any{"kind": general.Kind, "name": general.Name, "growth": map[string]any{}, "nodeClaims": c.counted, "instances": seen})
			if err != nil {
				t.Fatal(err)
			}
			if c.instances != nil {
				owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
				record := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
					Data:       map[string]string{"p1": string(entry)},
				}
				if err := b.client.Create(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
			s := b.step(general)
			open := v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", RecordedAt: metav1.NewTime(now), Phase: v1alpha1.RemovalDraining}
			s.Sync.Status.Removals, s.Plan = []v1alpha1.Removal{open}, &plan.Plan{Returned: []v1alpha1.Removal{open}}
			s.Sync.Status.RecentRemovals = []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: metav1.NewTime(now), Nodes: c.counted}}
			writes, err := s.endReverted(t.Context(), s.pace())
			if err != nil {
				t.Fatal(err)
			}
			var want []v1alpha1.RecentRemoval
			if c.want > 0 {
				want = []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: metav1.NewTime(now), Nodes: c.want}}
			}
			if diff := cmp.Diff(want, s.Sync.Status.RecentRemovals); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			back := writes[0].Action.(Reverted)
			if c.instances != nil && (back.Ended != int(c.want) || back.NodeClaims != int(c.want)+1) {
				t.Errorf("reported: %s", back)
			}
		})
	}
}
