package removal

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// observe reads the state of some removals. It keeps what the record and EC2 have returned in this reconcile.
func (d *drive) observe(ctx context.Context, items []*item, reader client.Reader) error {
	l, err := lookAt(ctx, reader, items)
	if err != nil {
		return err
	}
	for _, it := range items {
		d.observeOne(it, l)
	}
	return nil
}

func (d *drive) observeOne(it *item, l *look) {
	before := it.seen
	entry := d.records.entries[it.before.UID]
	it.seen = Observation{
		Recorded: before.Recorded, EC2: before.EC2, NoResponse: before.NoResponse, Shown: before.Shown,
		Pods: before.Pods, Leader: before.Leader, Evicted: before.Evicted,
		Noted: entry.Instances, Unaskable: unaskable(entry.Instances), Absent: d.result.Absent,
		Controller: d.Controller, Cloud: d.Cloud, Arrivals: d.Arrivals(it.before),
		Successor: d.Successor(it.before), Grace: d.grace(it.before), Frozen: d.Frozen, Stays: d.Keeps, TerminatesFirst: d.terminatesFirst,
		Queued: d.Queued[it.before.UID],
	}
	if hold, ok := d.Holds[it.before.UID]; ok {
		it.seen.Hold = &hold
	}
	object := l.objects[render.Ref{Kind: it.before.Kind, Name: it.before.Name}]
	it.taken = object != nil && object.GetUID() != it.before.UID
	if object != nil && !it.taken {
		it.see(object, d.Now)
		d.seeBudgets(it, plan.BudgetsOf(object))
		it.seen.NewOwner = d.NewOwner(object)
		if restrained(object) >= 0 {
			it.seen.GrowthWithheld = it.seen.GrowthStopped && !it.seen.Static && !entry.Growth.stopped()
			replicas := entry.Growth.or(it.before.Growth).Replicas
			it.seen.Scaled = it.seen.Static && replicas != nil && it.seen.Replicas < int(*replicas)
		}
	}
	if it.before.Kind == render.EC2NodeClass {
		it.seen.ReferencedBy = l.referencing(it.before.Name)
		for _, by := range it.seen.ReferencedBy {
			if why := d.Unremoved[by]; why != "" {
				it.seen.Unremoved = by + " references it, but " + why
				break
			}
		}
		it.seen.Waits = d.waits(it.seen.ReferencedBy)
	}
	if it.before.Kind == render.NodePool {
		it.seeClaims(l.claims[it.before.Name])
	}
}

// seeBudgets observes what the disruption budgets of a pool allow, whether they must still be recorded, and whether the
// live ones are the removal's.
func (d *drive) seeBudgets(it *item, live []any) {
	before := d.budgetsBefore(it)
	it.seen.Paced = it.paces && len(unpaced(live)) < len(live) && !reflect.DeepEqual(live, before)
	it.bytes = sizeOfBudgets(before)
	it.seen.Closed, it.seen.BudgetsFull = closedBy(before, d.Now), len(kept(before))+2 > plan.MaxBudgets || it.bytes > budgetsEach
	if !it.paces && d.records.entries[it.before.UID].Growth.Budgets == nil && len(before) > 0 {
		it.seen.Budgets = before
	}
}

// unaskable returns the provider IDs in a record that cannot be queried in EC2: those of another provider, or without a
// zone.
func unaskable(noted map[string]Seen) []string {
	var found []string
	for id := range noted {
		if _, _, err := cloud.ParseProviderID(id); err != nil {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return found
}

func (it *item) see(object *unstructured.Unstructured, now time.Time) {
	o := &it.seen
	o.Exists, o.ResourceVersion = true, object.GetResourceVersion()
	o.Terminating, o.Finalizers = object.GetDeletionTimestamp() != nil, blocker.FinalizersOf(object)
	if it.before.Kind != render.NodePool {
		return
	}
	it.growth = growthOf(object)
	o.Static = it.growth.Replicas != nil
	o.GrowthStopped = it.growth.stopped()
	if it.growth.Replicas != nil {
		o.Replicas = int(*it.growth.Replicas)
	}
	restrains := restrained(object) >= 0
	it.paces = restrains && plan.BudgetsAppliedBy(object, v1alpha1.RemovalFieldManager)
	switch {
	case it.paces: // even if the brake set some, too
		it.budgets = unpaced(plan.BudgetsOf(object))
	case plan.BudgetsAppliedBy(object, v1alpha1.BrakeFieldManager):
		it.budgets = plan.WithoutBrake(object)
	default: // a budget that looks like the brake's comes from Git
		it.budgets = plan.BudgetsOf(object)
	}
	if o.GrowthStopped && restrains {
		// The previous value is in the record, or no longer known.
		it.growth = Growth{}
	}
	o.Replacing = replacingOf(object, now)
	it.labels, _, _ = unstructured.NestedMap(object.Object, "spec", "template", "metadata", "labels")
}

// growthOf reads how far Karpenter may grow a NodePool.
func growthOf(pool *unstructured.Unstructured) Growth {
	var g Growth
	if replicas, found, err := unstructured.NestedInt64(pool.Object, "spec", "replicas"); err == nil && found {
		g.Replicas = &replicas
	}
	if cpu, found, err := unstructured.NestedFieldNoCopy(pool.Object, "spec", "limits", "cpu"); err == nil && found {
		g.CPU = cpu
	}
	return g
}

// stopped reports whether the pool launches no nodes. Of a static pool's limits only nodes counts, and its size is
// replicas (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func (g Growth) stopped() bool {
	if g.Replicas != nil {
		return *g.Replicas == 0
	}
	if g.CPU == nil {
		return false
	}
	cpu, err := resource.ParseQuantity(fmt.Sprint(g.CPU))
	return err == nil && cpu.IsZero()
}

// seeClaims selects the NodeClaims of a pool: those that it owns, and those with its name in the label and no owner,
// unless another pool has the name by now.
func (it *item) seeClaims(labelled []*karpv1.NodeClaim) {
	for _, claim := range labelled {
		if owner, owned := poolOf(claim); owner == it.before.UID || (!owned && !it.taken) {
			it.seen.NodeClaims = append(it.seen.NodeClaims, claimOf(claim))
		}
	}
	// A cache lists in random order; sorted, the same state results in the same actions and messages.
	slices.SortFunc(it.seen.NodeClaims, func(a, b Claim) int { return strings.Compare(a.Name, b.Name) })
}

func poolOf(claim *karpv1.NodeClaim) (uid types.UID, owned bool) {
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == render.NodePool {
			return owner.UID, true
		}
	}
	return "", false
}

func claimOf(claim *karpv1.NodeClaim) Claim {
	c := Claim{
		Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		ProviderID: claim.Status.ProviderID, Node: claim.Status.NodeName,
	}
	if claim.DeletionTimestamp != nil {
		c.Deleting = claim.DeletionTimestamp.Time
	}
	c.Unhashed = !plan.Hashed(claim.Annotations)
	c.Reserved = claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved
	c.Initialized = true
	c.Drained, c.Deadline = blocker.Drained(claim), blocker.Deadline(claim)
	c.Waits, c.Finalizers = blocker.Waits(claim), blocker.FinalizersOf(claim)
	for _, condition := range claim.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			c.Initialized = c.Initialized && condition.Type != karpv1.ConditionTypeInitialized
			continue
		}
		switch condition.Type {
		case karpv1.ConditionTypeDisruptionReason:
			if c.Deleting.IsZero() {
				c.Replacing = condition.LastTransitionTime.Time
			}
		case karpv1.ConditionTypeDrifted:
			if condition.Reason == plan.DriftOfPool {
				c.Drifted = condition.LastTransitionTime.Time
			}
		case karpv1.ConditionTypeInstanceTerminating:
			c.TerminationAccepted = true
		}
	}
	return c
}

// grace is open once removal.grace has passed since the removal was recorded: until then, a revert has no consequences.
func (d *drive) grace(r v1alpha1.Removal) Gate {
	return Gate{
		Open:    !d.Now.Before(r.RecordedAt.Add(d.Pace.Grace)),
		Message: fmt.Sprintf("starts after removal.grace (%s), unless it is added back to Git", d.Pace.Grace),
	}
}

// Room is what is left within the limits of the NodePools that could take pods.
type Room struct {
	// Pools names them.
	Pools string
	// Left is the remaining quantity of each resource. A resource that it does not contain is not limited.
	Left corev1.ResourceList
}

// insufficient names a resource of which less is left than needed; empty if there is none. Free capacity on running
// nodes is not counted: only Karpenter can decide which pods fit there.
func (r *Room) insufficient(need corev1.ResourceList) corev1.ResourceName {
	if r == nil {
		return ""
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		left, limited := r.Left[name]
		if wanted, asked := need[name]; limited && asked && wanted.Cmp(left) > 0 {
			return name
		}
	}
	return ""
}

// fitting returns how many of the next NodeClaims have pods that fit within the limits, and which resource is
// insufficient for one more. If pods are not awaited, or not read yet, all fit.
func (o Observation) fitting(next []Claim) (n int, lacks corev1.ResourceName) {
	if o.Pods == nil || !o.Turn.AwaitPods {
		return len(next), ""
	}
	need := corev1.ResourceList{}
	for i, c := range next {
		add(need, o.Pods.Needs[c.Node])
		if lacks := o.Successor.Room.insufficient(need); lacks != "" {
			return i, lacks
		}
	}
	return len(next), ""
}

func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

// requests returns a pod's resource requests that count against the limits of a NodePool.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(sum, pod.Spec.Containers[i].Resources.Requests)
	}
	return sum
}
