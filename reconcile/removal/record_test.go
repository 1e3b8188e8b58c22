package removal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// takeBack runs a reconcile in which Git again contains an entry that is being removed.
func (s *stage) takeBack(name string) {
	s.t.Helper()
	for i, r := range s.sync.Status.Removals {
		if r.Name != name {
			continue
		}
		if _, err := Unrecord(s.t.Context(), s.world(), Pass{Now: s.now, Sync: s.sync, Pace: s.pace}, r); err != nil {
			s.t.Fatal(err)
		}
		s.sync.Status.Removals = append(s.sync.Status.Removals[:i:i], s.sync.Status.Removals[i+1:]...)
		s.write()
		return
	}
	s.t.Fatalf("there is no removal of %s", name)
}

// says checks what the last removal waits for.
func (s *stage) says(reason, words string) {
	s.t.Helper()
	r := s.sync.Status.Removals[len(s.sync.Status.Removals)-1]
	if r.Reason != reason || !strings.Contains(r.Message, words) {
		s.t.Fatalf("it says %s: %s", r.Reason, r.Message)
	}
}

func (s *stage) settle() (left bool) {
	s.t.Helper()
	left, err := Settle(s.t.Context(), s.world(), Pass{Now: s.now, Sync: s.sync, StallAfter: 10 * time.Minute}, func(types.UID) bool { return true })
	if err != nil {
		s.t.Fatal(err)
	}
	return left
}

// twoLeave returns a stage with two removed pools that may not grow: batch with node a and spot with b and c, each with
// a pod of the same workload. The node of batch is terminating.
func twoLeave(t *testing.T) *stage {
	t.Helper()
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := pacedPool(t, pool("batch", "batch-uid", stopped), pool("spot", "spot-uid", stopped))
	for name, pool := range map[string]string{"a": "batch", "b": "spot", "c": "spot"} {
		s.launch(name, pool, types.UID(pool+"-uid"))
		s.replica("web-"+name, "web", "node-"+name)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.expect("recorded", "batch Pacing", "spot Pacing")
	s.expect("the older one goes first", "batch Draining", "spot Pacing", "delete NodeClaim/a")
	return s
}

// TestDriveWaitsForPodsThatAnotherRemovalHasNoted checks this for a removal whose record is gone.
func TestDriveWaitsForPodsThatAnotherRemovalHasNoted(t *testing.T) {
	for name, ends := range map[string]func(s *stage){
		"it is over": func(s *stage) { s.expect("it is over", "batch Gone", "spot Draining") },
		"it is taken back": func(s *stage) {
			s.takeBack("batch")
			s.expect("Git has it again", "spot Draining")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoLeave(t)
			s.evict("web-a")
			s.replica("web-a2", "web", "elsewhere")
			s.karpenter("terminated")
			s.expect("the turn of the other", "batch Finalizing", "spot Draining", "delete the object", "delete NodeClaim/b")
			ends(s)
			s.evict("web-b")
			s.replica("web-b2", "web", "")
			s.karpenter("terminated")
			s.expect("a pod does not run yet", "spot Draining")
			s.says(ReasonPodsPending, "web-b2")
			s.evict("web-b2")
			s.replica("web-b3", "web", "elsewhere")
			s.expect("it does", "spot Draining", "delete NodeClaim/c")
		})
	}
}

// TestDriveCountsWhatARemovalHasLeftThatWasTakenBack checks that the terminating NodeClaims of a reverted removal, and
// their pods, still count: no commit can revert a termination.
func TestDriveCountsWhatARemovalHasLeftThatWasTakenBack(t *testing.T) {
	s := twoLeave(t)
	s.takeBack("batch")
	s.expect("its NodeClaim is leaving", "spot Pacing")
	s.says(ReasonTurnPending, "NodePool/batch")
	s.evict("web-a")
	s.replica("web-a2", "web", "")
	s.karpenter("terminated")
	s.expect("its pod does not run yet", "spot Pacing")
	s.says(ReasonPodsPending, "web-a2")
	s.evict("web-a2")
	s.replica("web-a3", "web", "elsewhere")
	s.expect("it does", "spot Draining", "delete NodeClaim/b")
	if record := s.record(); len(record) != 1 {
		t.Errorf("recorded: %v", record)
	}
}

// TestWhatWasTakenBackMayLeaveAgain checks that what a reverted removal has left counts once when the pool is removed
// again, held or not.
func TestWhatWasTakenBackMayLeaveAgain(t *testing.T) {
	for name, holds := range map[string]map[types.UID]Hold{
		"it goes on": nil,
		"it is held": {"batch-uid": {Reason: "Held", Message: "a second pool would leave"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoLeave(t)
			s.pace.MaxUnavailable = intstr.FromInt32(2)
			s.takeBack("spot")
			s.takeBack("batch")
			s.holds = holds
			s.find(render.NodePool, "batch", "batch-uid")
			s.find(render.NodePool, "spot", "spot-uid")
			phase := "batch Draining"
			if holds != nil {
				phase = "batch Held"
			}
			s.pass()
			s.expect("one is leaving", phase, "spot Draining", "delete NodeClaim/b")
			s.expect("two are", phase, "spot Draining")
		})
	}
}

// TestSettleLooksAtWhatWasTakenBack checks that Settle waits until the NodeClaim of a reverted removal is gone and its
// pod runs.
func TestSettleLooksAtWhatWasTakenBack(t *testing.T) {
	s := twoLeave(t)
	s.takeBack("spot")
	s.takeBack("batch")
	if !s.settle() || s.recorded() == nil {
		t.Fatalf("its NodeClaim ends still: recorded %v", s.record())
	}
	s.evict("web-a")
	s.replica("web-a2", "web", "")
	s.karpenter("terminated")
	if !s.settle() || s.recorded() == nil {
		t.Fatalf("its pod does not run yet: recorded %v", s.record())
	}
	s.evict("web-a2")
	s.replica("web-a3", "web", "elsewhere")
	if s.settle() || s.recorded() != nil {
		t.Fatalf("it does: recorded %v", s.record())
	}
}

// apiServerMost is the maximum size of a ConfigMap in the API server.
const apiServerMost = 1 << 20

// manyBudgets returns scheduled disruption budgets with a total size in bytes, none of which is active during these
// tests.
func manyBudgets(bytes int) []any {
	budgets := []any{map[string]any{"nodes": "20%"}}
	for range 40 {
		budgets = append(budgets, map[string]any{"nodes": "0", "duration": "1m", "schedule": strings.Repeat("0,", bytes/80) + "0 0 1 7 *"})
	}
	return budgets
}

// crowd returns a stage with many removed pools with a node each, whose disruption budgets together do not fit into a
// ConfigMap, and an API server that rejects a larger one.
func crowd(t *testing.T, pools, bytes int) *stage {
	t.Helper()
	s := newStage(t)
	for i := range pools {
		name := fmt.Sprintf("pool-%02d", i)
		object := pool(name, types.UID(name+"-uid"), map[string]any{
			"limits":     map[string]any{"cpu": "100"},
			"disruption": map[string]any{"budgets": manyBudgets(bytes)},
			"template":   map[string]any{"spec": map[string]any{}},
		})
		if err := s.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		s.launch(fmt.Sprintf("n%02d", i), name, object.GetUID())
		s.claim(fmt.Sprintf("n%02d", i), func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: "1"}
		})
		s.find(render.NodePool, name, object.GetUID())
	}
	bounded, is := s.client.(client.WithWatch)
	if !is {
		t.Fatal("the client cannot watch")
	}
	s.client = interceptor.NewClient(bounded, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := tooLong(o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := tooLong(o); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
	})
	return s
}

func tooLong(o client.Object) error {
	stored, is := o.(*corev1.ConfigMap)
	if is && sizeOf(stored.Data) > apiServerMost {
		return errors.New("too long: may not be more than 1048576 bytes")
	}
	return nil
}

func sizeOf(data map[string]string) (n int) {
	for _, value := range data {
		n += len(value)
	}
	return n
}

// TestADrainKeepsNoBudgets checks that a drain records no budgets: it replaces no nodes, so it overwrites none.
func TestADrainKeepsNoBudgets(t *testing.T) {
	s := crowd(t, 30, 50_000)
	for range 3 {
		s.pass()
	}
	for _, c := range s.claims() {
		if c.DeletionTimestamp.IsZero() {
			t.Errorf("%s is not ended", c.Name)
		}
	}
	if n := sizeOf(s.record()); n > 30*1000 {
		t.Errorf("the record has %d bytes", n)
	}
}

// TestEachRemovalEndsWhateverBudgetsItHas checks that Karpenter replaces the nodes of as many pools at a time as fit
// into the record, and that no budget is overwritten that is not recorded. The daemon may restart between any two
// reconciles.
func TestEachRemovalEndsWhateverBudgetsItHas(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed that can be repeated
			bytes := 40_000 + random.IntN(15_000)
			s := crowd(t, 30, bytes)
			s.pace = Pace{MaxUnavailable: intstr.FromString("100%"), AwaitPods: true, Replaces: true}
			waited := false
			for pass := 0; len(s.sync.Status.Removals) > 0; pass++ {
				if pass > 200 {
					t.Fatalf("%d removals have not ended: %+v", len(s.sync.Status.Removals), s.sync.Status.Removals[0])
				}
				s.pass()
				if random.IntN(3) == 0 { // a restart
					s.asked, s.absent, s.evicted, s.diagnosed = time.Time{}, nil, nil, time.Time{}
				}
				for _, r := range s.sync.Status.Removals {
					if r.Reason == ReasonRecordFull {
						waited = true
						if r.Stalled != nil || s.last.Again.IsZero() {
							t.Fatalf("stalled %v, the next pass is wanted at %v", r.Stalled, s.last.Again)
						}
					}
				}
				s.overwrittenIsRecorded(manyBudgets(bytes))
				s.replaceSome(random)
			}
			if !waited {
				t.Error("none has waited for room")
			}
			if s.record() != nil {
				t.Error("the record is still there")
			}
		})
	}
}

// overwrittenIsRecorded checks that the record contains the budgets of each pool whose budgets differ from Git.
func (s *stage) overwrittenIsRecorded(git []any) {
	s.t.Helper()
	kept, err := loadRecords(s.t.Context(), s.live, s.sync)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range s.sync.Status.Removals {
		object := pool(r.Name, r.UID, nil)
		if !s.exists(object) || cmp.Equal(git, plan.BudgetsOf(object)) {
			continue
		}
		if !cmp.Equal(git, kept.entries[r.UID].Growth.Budgets) {
			s.t.Fatalf("the budgets of %s are overwritten and not recorded", r.Name)
		}
	}
}

// replaceSome makes Karpenter replace the nodes that it may, some of them later.
func (s *stage) replaceSome(random *rand.Rand) {
	s.t.Helper()
	claims := s.claims()
	for i := range claims {
		name := claims[i].Labels[karpv1.NodePoolLabelKey]
		object := pool(name, "", nil)
		if !s.exists(object) || random.IntN(2) == 0 || !claims[i].DeletionTimestamp.IsZero() {
			continue
		}
		if r := replacingOf(object, s.now); r == nil || r.Nodes == 0 {
			continue
		}
		if err := s.client.Delete(s.t.Context(), &claims[i], s.asItIs(claims[i].Name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.karpenter("terminated")
}

// TestBudgetsThatAreTooManyByThemselves checks that the nodes of such a pool are terminated like those of a pool that
// has no space for another budget.
func TestBudgetsThatAreTooManyByThemselves(t *testing.T) {
	s := crowd(t, 1, 1_500_000)
	s.pace = Pace{MaxUnavailable: intstr.FromString("100%"), AwaitPods: true, Replaces: true}
	for range 20 {
		if s.pass(); len(s.sync.Status.Removals) == 0 {
			return
		}
		s.karpenter("terminated")
	}
	t.Errorf("it has not ended: %+v", s.sync.Status.Removals)
}

// TestTheOldestWorkloadsMakeRoom checks that the oldest workloads are dropped from a record that would be too large.
func TestTheOldestWorkloadsMakeRoom(t *testing.T) {
	s := newStage(t)
	kept, err := loadRecords(t.Context(), s.live, s.sync)
	if err != nil {
		t.Fatal(err)
	}
	var all []Workload
	for i := range maxWorkloads {
		all = append(all, Workload{Kind: "ReplicaSet", Namespace: "shop", Name: fmt.Sprintf("%0250d", i)})
	}
	for i := range 100 {
		kept.put(types.UID(fmt.Sprintf("uid-%d", i)), record{Kind: render.NodePool, Name: "p", Instances: map[string]Seen{"aws:///a/i-1": ""}, Workloads: all})
	}
	if err := kept.save(t.Context(), s.client, s.sync); err != nil {
		t.Fatal(err)
	}
	if n := sizeOf(s.record()); n > apiServerMost {
		t.Errorf("%d bytes", n)
	}
	again, err := loadRecords(t.Context(), s.live, s.sync)
	if err != nil {
		t.Fatal(err)
	}
	for uid, entry := range again.entries {
		if n := len(entry.Workloads); n == 0 || len(entry.Instances) != 1 || !cmp.Equal(all[len(all)-n:], entry.Workloads) {
			t.Fatalf("%s: %d workloads, %d instances", uid, n, len(entry.Instances))
		}
	}
}
