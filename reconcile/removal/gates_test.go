package removal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPaceIsAsTheNodeSyncSays checks the pace in the NodeSync's spec, with the CRD's defaults.
func TestPaceIsAsTheNodeSyncSays(t *testing.T) {
	half, three := intstr.FromString("50%"), intstr.FromInt32(3)
	for name, c := range map[string]struct {
		spec v1alpha1.RemovalPolicy
		want Pace
	}{
		"nothing is said": {want: Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true, Replaces: true}},
		"a pace and a grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &half, Grace: &metav1.Duration{Duration: time.Hour}},
			want: Pace{Grace: time.Hour, MaxUnavailable: half, AwaitPods: true, Replaces: true},
		},
		"no grace": {
			spec: v1alpha1.RemovalPolicy{MaxUnavailable: &three, Grace: &metav1.Duration{}},
			want: Pace{MaxUnavailable: three, AwaitPods: true, Replaces: true},
		},
		"without replacements": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalAtOnce},
			want: Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true},
		},
		"paced, by name": {
			spec: v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalPaced},
			want: Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromString("10%"), AwaitPods: true, Replaces: true},
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

// TestNothingBeginsBeforeGitIsReadAgain checks that an entry that was added back within the grace period stays, whether
// or not a webhook reports pushes.
func TestNothingBeginsBeforeGitIsReadAgain(t *testing.T) {
	recorded := metav1.NewTime(now.Add(-time.Minute))
	over := recorded.Add(30 * time.Second)
	for name, c := range map[string]struct {
		grace  time.Duration
		readAt time.Time
		why    string
		want   Gate
		wakes  bool
	}{
		"within the grace": {grace: time.Hour, readAt: recorded.Add(-time.Second), want: Gate{Open: true}},
		"not read since": {
			grace: 30 * time.Second, readAt: over.Add(-time.Second), wakes: true,
			want: Gate{Message: "removal.grace is over; waiting for one more fetch of Git"},
		},
		"it could not be read": {
			grace: 30 * time.Second, readAt: over.Add(-time.Second), why: "no route to host",
			want: Gate{Message: "removal.grace is over; waiting for one more fetch of Git: no route to host"},
		},
		"read since": {grace: 30 * time.Second, readAt: over, want: Gate{Open: true, Message: "removal.grace is over; waiting for one more fetch of Git"}},
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

// TestTheGateOfArrivalsSaysWhatWaits checks that the gate names what a removal waits for.
func TestTheGateOfArrivalsSaysWhatWaits(t *testing.T) {
	s := living(t).step(general)
	s.Applied, s.Revision = false, "main@sha1:1"
	for want, made := range map[string]*plan.Plan{
		"the other changes of main@sha1:1": nil,
		"the other changes of main@sha1:1: NodePool/a names EC2NodeClass/b": {Changes: []plan.Change{
			{Action: plan.Update, Message: "no"}, {Action: plan.Wait, Message: "NodePool/a names EC2NodeClass/b"}, {Action: plan.Wait, Message: "another"},
		}},
	} {
		s.Plan = made
		if done, waits := s.arrivalsDone(v1alpha1.Removal{RecordedAt: metav1.NewTime(now)}, s.unreadyPools); done || waits != want {
			t.Errorf("%t, %q, want %q", done, waits, want)
		}
	}
}

// TestWhatIsHeldOfANewerCommitIsNotWaitedFor checks that a removal does not wait for held changes of a newer commit
// unless it needs them: a hold may last forever.
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

// TestNothingIsDeletedThatKarpenterMayNotFinalize checks that no NodeClaim and no EC2NodeClass is deleted while a
// policy denies Karpenter's controller the removal of its finalizers, and that the removal names the policy.
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

// growingPool returns a NodePool in Git that could take the pods of another.
func growingPool(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"spec":   map[string]any{"limits": map[string]any{"cpu": "100"}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "resources": map[string]any{"cpu": "99"}},
	}}
	u.SetName(name)
	return u
}

// TestSuccessorGate checks that a pool is removed only while another one could take its pods.
func TestSuccessorGate(t *testing.T) {
	set := func(path []string, value any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*unstructured.Unstructured)
		missing bool
		failing bool
		none    bool
		allowed bool
		// approved reports whether people have approved the removal of the last pool.
		approved bool
		want     string
	}{
		"it could":                             {},
		"it is not there":                      {missing: true, want: "NodePool/new is not in the cluster"},
		"it is not Ready":                      {change: set([]string{"status", "conditions"}, []any{}), want: "NodePool/new is not Ready"},
		"it is terminating":                    {change: func(u *unstructured.Unstructured) { now := metav1.Now(); u.SetDeletionTimestamp(&now) }, want: "NodePool/new is not Ready"},
		"it has no limits":                     {change: set([]string{"spec", "limits"}, map[string]any{})},
		"its limit is 0":                       {change: set([]string{"spec", "limits", "cpu"}, "0"), want: "NodePool/new cannot launch nodes"},
		"it is full":                           {change: set([]string{"status", "resources", "cpu"}, "100"), want: "NodePool/new has reached its limit of cpu"},
		"it is static":                         {change: set([]string{"spec", "replicas"}, int64(3)), want: "NodePool/new cannot launch nodes"},
		"it gets no nodes":                     {failing: true, want: "NodePool/new cannot launch nodes (recent launches failed)"},
		"no node of it registers":              {change: set([]string{"status", "conditions"}, []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "NodeRegistrationHealthy", "status": "False"}}), want: "NodePool/new has nodes that do not register"},
		"Git has no other":                     {none: true, want: "Git has no NodePool that can run the pods"},
		"Git has no other, and none is wanted": {none: true, allowed: true},
		"Git has no other, as was approved":    {none: true, approved: true},
		"as was approved, and there is one":    {failing: true, approved: true, want: "NodePool/new cannot launch nodes (recent launches failed)"},
		"none is wanted, and there is one":     {failing: true, allowed: true, want: "NodePool/new cannot launch nodes (recent launches failed)"},
		"none is wanted where none could":      {change: set([]string{"spec", "replicas"}, int64(3)), allowed: true},
		"none is wanted, and it is not Ready":  {change: set([]string{"status", "conditions"}, []any{}), allowed: true, want: "NodePool/new is not Ready"},
		"a class needs none":                   {none: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			s.Sync.Spec.Guard.AllowLastPool = c.allowed
			if pool := growingPool("new"); !c.none {
				if c.change != nil {
					c.change(pool)
				}
				ref := render.Ref{Kind: render.NodePool, Name: "new"}
				s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
				if !c.missing {
					living := plan.NewObject(pool)
					s.Live.Objects[ref], s.Ready[ref] = living, cluster.Ready(living)
				}
			}
			if c.failing {
				claim := &karpv1.NodeClaim{}
				claim.Name, claim.Labels = "new-1", map[string]string{karpv1.NodePoolLabelKey: "new"}
				now := metav1.Now()
				claim.DeletionTimestamp = &now
				s.Nodes.Launches.See(claim)
			}
			kind := render.NodePool
			if name == "a class needs none" {
				kind = render.EC2NodeClass
			}
			gate := s.successorGate()(v1alpha1.Removal{Kind: kind, Name: "old", LastPool: c.approved})
			if gate.Open != (c.want == "") || !strings.Contains(gate.Message, c.want) {
				t.Errorf("gate %+v, want %q", gate, c.want)
			}
		})
	}
}

// TestASuccessorWhoseNodesDoNotRegister checks that a pool cannot take pods if its instances run but do not register.
func TestASuccessorWhoseNodesDoNotRegister(t *testing.T) {
	claim := func(name string, age time.Duration, node string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, Pool: "new", ProviderID: "aws:///a/i-" + name, Node: node, Created: now.Add(-age)}
	}
	launching := claim("a", time.Hour, "")
	launching.ProviderID = ""
	for name, c := range map[string]struct {
		claims []plan.NodeClaim
		want   string
	}{
		"one is young":              {claims: []plan.NodeClaim{claim("a", 4*time.Minute, "")}},
		"one has no instance yet":   {claims: []plan.NodeClaim{launching}},
		"the newest is late":        {claims: []plan.NodeClaim{claim("a", time.Hour, "a"), claim("b", 5*time.Minute, "")}, want: "NodePool/new has nodes that do not register: NodeClaim/b"},
		"a newer one has":           {claims: []plan.NodeClaim{claim("b", 5*time.Minute, "b"), claim("a", time.Hour, "")}},
		"two are late":              {claims: []plan.NodeClaim{claim("b", 6*time.Minute, ""), claim("a", time.Hour, "")}, want: "NodeClaim/a"},
		"it is of another NodePool": {claims: []plan.NodeClaim{{Name: "a", Pool: "old", ProviderID: "1", Created: now.Add(-time.Hour)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			pool, ref := growingPool("new"), render.Ref{Kind: render.NodePool, Name: "new"}
			s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
			s.Live.Objects[ref], s.Ready[ref], s.Live.NodeClaims = plan.NewObject(pool), cluster.Ready(plan.NewObject(pool)), c.claims
			gate := s.successorGate()(v1alpha1.Removal{Kind: render.NodePool, Name: "old"})
			if gate.Open != (c.want == "") || !strings.Contains(gate.Message, c.want) {
				t.Errorf("gate %+v, want %q", gate, c.want)
			}
		})
	}
}

// TestTheRoomOfSuccessors checks that the room is that of all pools together, and unlimited if one of them has no
// limits.
func TestTheRoomOfSuccessors(t *testing.T) {
	for name, c := range map[string]struct {
		limits []map[string]any
		want   string
	}{
		"one":                        {[]map[string]any{{"cpu": "100", "memory": "10Gi"}}, "NodePool/new-0: 5 cpu, 10Gi memory"},
		"two":                        {[]map[string]any{{"cpu": "100"}, {"cpu": "200"}}, "all NodePools in Git together: 110 cpu, - memory"},
		"two, by different limits":   {[]map[string]any{{"cpu": "100"}, {"memory": "10Gi"}}, ""},
		"one of two without a limit": {[]map[string]any{{"cpu": "100"}, {}}, ""},
		"one of two is full":         {[]map[string]any{{"cpu": "95"}, {"cpu": "200"}}, "NodePool/new-1: 105 cpu, - memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			for i, limits := range c.limits {
				pool, ref := growingPool(fmt.Sprint("new-", i)), render.Ref{Kind: render.NodePool, Name: fmt.Sprint("new-", i)}
				pool.Object["spec"] = map[string]any{"limits": limits}
				pool.Object["status"].(map[string]any)["resources"] = map[string]any{"cpu": "95"}
				s.Set.Objects = append(s.Set.Objects, render.Object{Ref: ref, Desired: pool})
				s.Live.Objects[ref], s.Ready[ref] = plan.NewObject(pool), cluster.Ready(plan.NewObject(pool))
			}
			gate, got := s.successorGate()(v1alpha1.Removal{Kind: render.NodePool, Name: "old"}), ""
			if room := gate.Room; room != nil {
				of := func(name corev1.ResourceName) string {
					if quantity, limited := room.Left[name]; limited {
						return quantity.String()
					}
					return "-"
				}
				got = fmt.Sprintf("%s: %s cpu, %s memory", room.Pools, of(corev1.ResourceCPU), of(corev1.ResourceMemory))
			}
			if !gate.Open || got != c.want {
				t.Errorf("open %t, room %q, want %q", gate.Open, got, c.want)
			}
		})
	}
}

// TestAPoolWaitsForWhereItsPodsGo checks that a removal waits while its pods' destination is simulated, unless it has
// started.
func TestAPoolWaitsForWhereItsPodsGo(t *testing.T) {
	r := v1alpha1.Removal{Kind: render.NodePool, Name: "old", UID: "old"}
	for name, c := range map[string]struct {
		of    plan.Candidate
		asks  bool
		waits bool
	}{
		"it is asked":     {plan.Candidate{UID: "old"}, true, true},
		"it was answered": {plan.Candidate{UID: "old"}, false, false},
		"of another pool": {plan.Candidate{UID: "other"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			pool := growingPool("new")
			ref := render.Ref{Kind: render.NodePool, Name: "new"}
			s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
			s.Live.Objects[ref] = plan.NewObject(pool)
			s.Ready[ref] = cluster.Ready(s.Live.Objects[ref])
			s.Plan = &plan.Plan{Removals: []plan.Candidate{c.of}, Landing: plan.Landing{Asking: c.asks}}
			if gate := s.successorGate()(r); gate.Open == c.waits {
				t.Errorf("%+v", gate)
			}
		})
	}
}
