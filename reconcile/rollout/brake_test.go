package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	poolYAML = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: general-uid, labels: {plumbline.dev/nodesync: plumbline-system.prod}}
spec:
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}
  disruption: {budgets: [{nodes: 10%}]}
`
	classYAML = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, labels: {plumbline.dev/nodesync: plumbline-system.prod}}
spec: {amiSelectorTerms: [{alias: al2023@v20251002}]}
`
)

// world is a NodeSync whose rollout of one pool is checked repeatedly.
type world struct {
	t        *testing.T
	sync     *v1alpha1.NodeSync
	set      *render.Set
	live     map[render.Ref]*unstructured.Unstructured
	launches *cluster.Launches
	rollout  *v1alpha1.Rollout
	lease    error
	denied   error
	applied  []string
	ec2      *ec2
	holds    rollout.HoldChecker
	now      time.Time
	events   []string
	claims   []plan.NodeClaim
	gate     func(context.Context, string) (bool, error)
	changes  []plan.Change
	written  map[render.Ref]bool
	frozen   plan.Frozen
	leaving  []*plan.Object
	// reasons are those of the nodes of general that no commit has outdated.
	reasons []string
	inForce bool
	judge   func(context.Context, judge.Wave) (judge.Verdict, error)
	failing func(ctx context.Context, nodes, old, earlier []string) ([]string, error)
	memory  rollout.WaveMemory
	// unknown are the pools of which it is unknown which nodes are outdated.
	unknown map[string]bool
}

// outdated returns the nodes that have no creation time, because they are from before a commit, and those that have drifted.
func (w *world) outdated() []plan.Outdated {
	var all []plan.Outdated
	for i := range w.claims {
		if w.claims[i].Created.IsZero() || w.claims[i].Drifted {
			all = append(all, plan.Outdated{Claim: &w.claims[i]})
		}
	}
	return all
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: at(5).Time, launches: &cluster.Launches{Now: time.Now},
		sync:    &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}},
		rollout: &v1alpha1.Rollout{Revision: "main@sha1:1", Since: at(0), Nodes: 2, Outdated: 2},
		failing: func(_ context.Context, _, _, earlier []string) ([]string, error) { return earlier, nil },
	}
	w.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Region: "eu-west-1"}
	w.commit(classYAML, poolYAML)
	return w
}

// commit sets the objects in Git, and the live ones.
func (w *world) commit(texts ...string) {
	w.set, w.live = &render.Set{}, map[render.Ref]*unstructured.Unstructured{}
	for _, text := range texts {
		o := object(w.t, text)
		w.set.Objects = append(w.set.Objects, render.Object{Ref: render.Ref{Kind: o.GetKind(), Name: o.GetName()}, Defaulted: o})
		w.live[render.Ref{Kind: o.GetKind(), Name: o.GetName()}] = o
	}
}

func (w *world) fail(name string, minute int) {
	created, deleted := at(minute), at(minute+1)
	w.launches.See(&karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created, DeletionTimestamp: &deleted, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-" + name},
	})
}

// pass runs once, and saves the status unless it is killed before.
func (w *world) pass(saved bool) rollout.BrakeStep {
	writer := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if w.denied != nil {
				return w.denied
			}
			o := &client.ApplyOptions{}
			o.ApplyOptions(options)
			text, err := yaml.Marshal(config)
			w.applied = append(w.applied, fmt.Sprintf("%s force=%t %s", o.FieldManager, *o.Force, text))
			return err
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			w.live[render.Ref{Kind: render.NodePool, Name: key.Name}].DeepCopyInto(into.(*unstructured.Unstructured))
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, patch client.Patch, _ ...client.PatchOption) error {
			text, err := patch.Data(nil)
			w.applied = append(w.applied, string(text))
			return err
		},
	}).Build()
	outdated, nodes := map[string][]string{"general": w.reasons}, w.outdated()
	if len(w.unknown) > 0 {
		outdated, nodes = nil, nil
	}
	s := rollout.BrakeStep{
		Writer: writer, Pools: writer, StillLeader: func(context.Context) error { return w.lease }, Launches: w.launches, Sync: w.sync, Set: w.set,
		Live: plan.Live{Objects: plan.NewObjects(w.live), NodeClaims: w.claims}, Leaving: w.leaving, Changes: w.changes, Written: w.written, Gate: w.gate,
		Nodes: nodes, Unknown: len(w.unknown) > 0, UnknownPools: w.unknown, Waves: &w.memory, Judge: w.judge, Failing: w.failing,
		Rollout: w.rollout, Outdated: outdated, Frozen: w.frozen, InForce: w.inForce, Now: w.now, Holds: &w.holds,
	}
	if w.ec2 != nil {
		s.EC2 = func(context.Context, string) (rollout.Instances, error) { return w.ec2, nil }
	}
	next := s.Run(w.t.Context())
	if saved {
		w.sync.Status.PoolRollouts = next
	}
	for _, n := range s.Notes {
		w.events = append(w.events, n.Reason)
	}
	return s
}

func (w *world) failThree() {
	for i, name := range []string{"a", "b", "c"} {
		w.fail(name, i+1)
	}
}

// TestTheStatusSaysItFirst shows that the reconcile that decides writes nothing, however often it is killed before it
// is saved; the next one writes Git's budgets with the brake.
func TestTheStatusSaysItFirst(t *testing.T) {
	w := newWorld(t)
	w.failThree()
	for range 2 {
		if s := w.pass(false); len(w.applied) > 0 || !s.WakeAt.Equal(w.now) {
			t.Fatalf("it wrote %q before it is recorded, next pass at %s", w.applied, s.WakeAt)
		}
	}
	w.pass(true)
	w.pass(true)
	if len(w.applied) != 1 {
		t.Fatalf("applied %q", w.applied)
	}
	for _, want := range []string{"plumbline-brake force=true", "uid: general-uid", "- nodes: 10%", `- nodes: "0"`, "- Drifted"} {
		if !strings.Contains(w.applied[0], want) {
			t.Errorf("applied without %q: %s", want, w.applied[0])
		}
	}
	if strings.Contains(w.applied[0], "template") {
		t.Errorf("it owns more than the budgets: %s", w.applied[0])
	}
}

// TestWhatIsOnlyReportedStays shows that the brake does not overwrite disruption budgets that another client has
// changed, if drift is only reported; the status says what to do.
func TestWhatIsOnlyReportedStays(t *testing.T) {
	for drift, want := range map[v1alpha1.DriftPolicy]int{v1alpha1.DriftReport: 0, "": 1} {
		w := newWorld(t)
		w.sync.Spec.Drift = drift
		w.live[render.Ref{Kind: render.NodePool, Name: "general"}].SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
		}})
		w.failThree()
		w.pass(true)
		w.pass(true)
		if len(w.applied) != want {
			t.Errorf("drift %q: applied %q", drift, w.applied)
		}
		failure := w.sync.Status.PoolRollouts[0].Failure
		if told := strings.Contains(failure, "kubectl-edit changed the disruption budgets of NodePool/general, and plumbline does not revert that because spec.drift is Report"); told != (want == 0) {
			t.Errorf("drift %q: failure %q", drift, failure)
		}
	}
}

// TestEC2SaysWhy shows that EC2 is queried once about the last failed launch, when the rollout is stopped.
func TestEC2SaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		answer ec2
		want   string
	}{
		"it says why":      {ec2{instances: []cloud.Instance{{ID: "i-c", Reason: "Client.InternalError: Client error on launch"}}}, "before its node registered (EC2: Client.InternalError: Client error on launch)"},
		"it has forgotten": {ec2{}, "before its node registered"},
		"it is denied":     {ec2{err: errors.New("denied")}, "before its node registered"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ec2 = &c.answer
			w.failThree()
			w.pass(true)
			w.pass(true)
			if got := w.sync.Status.PoolRollouts[0].Message; !strings.HasSuffix(got, c.want) {
				t.Errorf("got %q", got)
			}
			if got := strings.Join(c.answer.asked, " "); got != "aws:///a/i-c" {
				t.Errorf("asked for %q", got)
			}
		})
	}
}

type ec2 struct {
	instances []cloud.Instance
	err       error
	asked     []string
}

func (e *ec2) Instances(_ context.Context, query cloud.Query) ([]cloud.Instance, error) {
	e.asked = append(e.asked, query.ProviderIDs...)
	return e.instances, e.err
}

// TestALostLease shows that nothing is written without the lease, and that a failed write is reported once and retried.
func TestALostLease(t *testing.T) {
	w := newWorld(t)
	w.failThree()
	w.pass(true)
	w.lease = errors.New("the lease is another's")
	w.pass(true)
	s := w.pass(true)
	if len(w.applied) > 0 || !strings.Contains(w.sync.Status.PoolRollouts[0].Failure, "another's") || s.WakeAt.IsZero() {
		t.Errorf("applied %q, status %+v, next pass at %s", w.applied, w.sync.Status.PoolRollouts, s.WakeAt)
	}
	if !strings.Contains(rollout.BrakeWords(w.sync.Status.PoolRollouts), "cannot be stopped: stop the rollout in NodePool/general: the lease is another's") {
		t.Errorf("it says %q", rollout.BrakeWords(w.sync.Status.PoolRollouts))
	}
	w.lease = nil
	w.pass(true)
	if got := strings.Join(w.events, " "); got != "RolloutBraked BrakeFailed Braking" || w.sync.Status.PoolRollouts[0].Failure != "" {
		t.Errorf("events %q, status %+v", got, w.sync.Status.PoolRollouts)
	}
}

// TestLaunchesOfDeletedNodeClaims count only if their deletion was seen: the watch may have been interrupted.
func TestLaunchesOfDeletedNodeClaims(t *testing.T) {
	w := newWorld(t)
	w.now = at(30).Time
	for i, name := range []string{"a", "b", "c"} {
		created := at(i + 1)
		w.launches.See(&karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}},
			Status: karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-" + name, NodeName: "node-" + name, Conditions: []opstatus.Condition{
				{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionUnknown},
			}},
		})
		w.claims = append(w.claims, plan.NodeClaim{Name: name, Pool: "general"})
	}
	there := w.claims
	w.claims = there[:1]
	if w.pass(true); w.sync.Status.PoolRollouts[0].BrakedAt != nil {
		t.Errorf("two of three are gone: %+v", w.sync.Status.PoolRollouts)
	}
	w.claims = there
	if w.pass(true); w.sync.Status.PoolRollouts[0].BrakedAt == nil {
		t.Errorf("all are there: %+v", w.sync.Status.PoolRollouts)
	}
}

// TestWhatEndsABrake shows that only a commit that changes the class or the template, a person, or the end of the
// rollout removes the brake.
func TestWhatEndsABrake(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		ends   bool
	}{
		"nothing":     {func(*world) {}, false},
		"another AMI": {func(w *world) { w.commit(strings.Replace(classYAML, "v20251002", "v20250904", 1), poolYAML) }, true},
		"a label in the template": {func(w *world) {
			w.commit(classYAML, strings.Replace(poolYAML, "template: {", "template: {metadata: {labels: {a: b}}, ", 1))
		}, true},
		"other budgets": {func(w *world) { w.commit(classYAML, strings.Replace(poolYAML, "10%", "20%", 1)) }, false},
		"another AMI, which the guard holds": {func(w *world) {
			was := w.live
			w.commit(strings.Replace(classYAML, "v20251002", "v20250904", 1), poolYAML)
			w.live = was
		}, false},
		"the end of the rollout": {func(w *world) { w.rollout = nil }, true},
		"another revision":       {func(w *world) { w.rollout = &v1alpha1.Rollout{Revision: "main@sha1:2", Since: at(6)} }, false},
		"a person": {func(w *world) {
			w.sync.Annotations = map[string]string{v1alpha1.ResumeRolloutAnnotation: "other@2026-03-01T12:05:00Z, general@2026-03-01T12:05:00Z"}
		}, true},
		"a person, for another time": {func(w *world) {
			w.sync.Annotations = map[string]string{v1alpha1.ResumeRolloutAnnotation: "general@2026-03-01T11:05:00Z"}
		}, false},
		"only a report is wanted": {func(w *world) { w.sync.Spec.Rollout.OnFailure = v1alpha1.RolloutReport }, true},
		"more may fail":           {func(w *world) { w.sync.Spec.Rollout.FailedLaunches = 4 }, true},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failThree()
			w.pass(true)
			w.now = at(7).Time
			test.change(w)
			w.pass(true)
			w.pass(true)
			braked := func(p v1alpha1.PoolRollout) bool { return p.Pool == "general" && p.BrakedAt != nil }
			if ended := !slices.ContainsFunc(w.sync.Status.PoolRollouts, braked); ended != test.ends {
				t.Errorf("ended %t: %+v", ended, w.sync.Status.PoolRollouts)
			}
			if told := strings.Contains(strings.Join(w.events, " "), "RolloutResumed"); told != test.ends {
				t.Errorf("events %q", w.events)
			}
		})
	}
}

// TestWhatEndsBeforeItsReplacement shows that the report of a stopped rollout also names nodes of the pool that may
// still be lost. Karpenter's feature gate is read only if there may be such nodes.
func TestWhatEndsBeforeItsReplacement(t *testing.T) {
	static := strings.Replace(poolYAML, "spec:\n", "spec:\n  replicas: 2\n", 1)
	of := func(capacity string) []plan.NodeClaim {
		return []plan.NodeClaim{
			{Name: "1", Pool: "general", Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: capacity})},
			{Name: "2", Pool: "batch", Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved})},
		}
	}
	for name, c := range map[string]struct {
		pool   string
		claims []plan.NodeClaim
		on     bool
		err    error
		want   string
		asked  int
	}{
		"none":            {pool: poolYAML, claims: of(karpv1.CapacityTypeOnDemand), on: true, want: "removals continue"},
		"reserved":        {pool: poolYAML, claims: of(karpv1.CapacityTypeReserved), on: true, want: "removals continue; with feature gate TerminateFirstDrift, Karpenter terminates a node of a full capacity reservation before it launches the replacement, and stopping the rollout does not restore it", asked: 1},
		"the gate is off": {pool: poolYAML, claims: of(karpv1.CapacityTypeReserved), want: "removals continue", asked: 1},
		"static":          {pool: static, on: true, want: "removals continue; with feature gate TerminateFirstDrift, Karpenter terminates a node of a static pool at its limit before it launches the replacement, and stopping the rollout does not restore it", asked: 1},
		"not known":       {pool: static, err: errors.New("no answer"), want: "removals continue; unknown whether Karpenter terminates a node of a static pool at its limit before it launches the replacement: no answer", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asked := 0
			w.claims, w.gate = c.claims, func(_ context.Context, gate string) (bool, error) {
				asked++
				return c.on && gate == "TerminateFirstDrift", c.err
			}
			w.commit(classYAML, c.pool)
			w.failThree()
			s := w.pass(true)
			w.pass(true)
			if got := s.Notes[0].Message; !strings.HasSuffix(got, c.want) {
				t.Errorf("it says %q", got)
			}
			if asked != c.asked {
				t.Errorf("the gate is asked for %d times", asked)
			}
		})
	}
}
