package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/render"
)

// LeftPod is a pod that did not run yet when the removal that evicted its predecessor was over. Until it runs, or is
// gone, no other removal terminates a NodeClaim.
type LeftPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Since is when the removal was over.
	Since time.Time `json:"since"`
}

// forget drops the record of a removal that is over. It keeps the pods that the removal left without a node: the next
// removal must wait for them.
func (d *drive) forget(ctx context.Context, it *item) error {
	entry, exists := d.records.entries[it.before.UID]
	if !exists || entry.over() {
		return nil // or an earlier reconcile has dropped it, and was killed before it wrote the status
	}
	left := record{Kind: entry.Kind, Name: entry.Name}
	if !d.Pace.All {
		pods, err := d.leftOf(ctx, entry.Workloads)
		if err != nil {
			return err
		}
		left.Left = pods
	}
	d.records.put(it.before.UID, left)
	return d.dropPoolless(ctx, it)
}

// dropPoolless drops the pods that the removal of a pool has left, now or when it was reverted before, and that can
// never run again because they may run only in that pool.
func (d *drive) dropPoolless(ctx context.Context, it *item) error {
	for _, key := range []types.UID{it.before.UID, revertedKey(it.before.UID)} {
		entry, exists := d.records.entries[key]
		if !exists || entry.Leaving != nil {
			continue
		}
		var kept []LeftPod
		for _, left := range entry.Left {
			pod, err := d.pods.pending(ctx, left)
			if err != nil {
				return err
			}
			if pod != nil && (it.before.Kind != render.NodePool || pod.pool != it.before.Name) {
				kept = append(kept, left)
			}
		}
		if entry.Left = kept; len(kept) == 0 {
			d.records.forget(key)
			continue
		}
		d.records.put(key, entry)
	}
	return nil
}

// leftOf returns the pods of workloads that do not run yet.
func (d *drive) leftOf(ctx context.Context, workloads []Workload) ([]LeftPod, error) {
	var left []LeftPod
	for _, w := range workloads {
		pods, err := d.pods.unfinished(ctx, w)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			left = append(left, LeftPod{Namespace: w.Namespace, Name: pod.name, UID: pod.uid, Since: d.Now})
		}
	}
	return left[:min(len(left), maxWorkloads)], nil
}

// poolFor returns the only NodePool on whose nodes a pod may run, by its node selector or by each term of its required
// node affinity; empty if there is no such pool.
func poolFor(spec *corev1.PodSpec) string {
	if pool := spec.NodeSelector[karpv1.NodePoolLabelKey]; pool != "" {
		return pool
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	pool := ""
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == karpv1.NodePoolLabelKey && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
		if i < 0 || pool != "" && pool != term.MatchExpressions[i].Values[0] {
			return ""
		}
		pool = term.MatchExpressions[i].Values[0]
	}
	return pool
}

// awaitLeft names a pod that an earlier removal has left and that does not run yet; empty if there is none. It drops
// the records whose pods all run.
func (d *drive) awaitLeft(ctx context.Context) (string, error) {
	waiting := ""
	for uid, entry := range d.records.entries {
		open := len(entry.Leaving) > 0
		for _, pod := range entry.Left {
			pending, err := d.pods.pending(ctx, pod)
			if err != nil {
				return "", err
			}
			if pending == nil {
				continue
			}
			open = true
			if words := fmt.Sprintf("waiting for pod %s/%s to run before deleting the next NodeClaim: it has been pending since the removal of %s/%s", pod.Namespace, pod.Name, entry.Kind, entry.Name); waiting == "" || words < waiting {
				waiting = words
			}
		}
		if entry.over() && !open {
			d.records.forget(uid)
		}
	}
	return waiting, nil
}

// Settle checks the pods without a node and the terminating NodeClaims that removals have left, while no removal is
// open. It reports whether any are left, and drops the records of the others. A pod that has not run for longer than a
// removal may stall waits for something other than its node. Settle also drops the record of an object that stays and
// has no removal in the status: the reconcile that recorded it was killed before it wrote the status, and Git contains
// the entry again.
func Settle(ctx context.Context, w World, p Pass, stays func(types.UID) bool) (left bool, err error) {
	d := newDrive(w, p)
	if d.records, err = loadRecords(ctx, w.Home, p.Sync); err != nil {
		return false, err
	}
	for uid, entry := range d.records.entries {
		removed := slices.ContainsFunc(p.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == uid })
		if !entry.over() && !removed && stays(uid) {
			d.records.forget(uid)
			continue
		}
		entry.Left = slices.DeleteFunc(slices.Clone(entry.Left), func(pod LeftPod) bool { return p.Now.Sub(pod.Since) > p.StallAfter })
		d.records.entries[uid] = entry
	}
	if err := d.observeLeaving(ctx); err != nil {
		return false, err
	}
	waiting, err := d.awaitLeft(ctx)
	if err != nil {
		return false, err
	}
	for _, entry := range d.records.entries {
		left = left || waiting != "" || entry.Leaving != nil
	}
	return left, d.records.save(ctx, w.Home, p.Sync)
}

// pending returns a left pod while it does not run, or is not Ready; nil once it does, or is gone.
func (p *podReader) pending(ctx context.Context, left LeftPod) (*ownedPod, error) {
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		all, err := p.in(ctx, podsOf{left.Namespace, phase})
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(all, func(pod ownedPod) bool { return pod.uid == left.UID }); i >= 0 {
			if phase == corev1.PodPending || all[i].unready {
				return &all[i], nil
			}
			return nil, nil
		}
	}
	return nil, nil
}

// keepPool stops a removal before its pool is deleted, if only the nodes are removed. It reads past the cache that no
// NodeClaim is left: one that is missing in the cache may have an instance that EC2 does not return yet.
func keepPool(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Stays || !o.alive():
		return step{}, true
	case !o.Fresh && !r.Drained():
		return step{phase: v1alpha1.RemovalVerifyingCloud, reason: r.Reason, message: r.Message, remaining: 0, actions: []Action{Reread{}}}, false
	}
	return step{
		phase: v1alpha1.RemovalVerifyingCloud, reason: ReasonDrained,
		message: "drained: EC2 has terminated all of its instances, and it launches no new ones", remaining: 0,
	}, false
}

// skipWhileDrained skips further queries about the nodes of such a pool while it has none.
func skipWhileDrained(r v1alpha1.Removal, o Observation, now time.Time) (step, bool) {
	if !r.Drained() {
		return step{}, true
	}
	return keepPool(r, o, now)
}

// Stranded is an instance that should be terminated, and that Karpenter does not terminate in the current state.
type Stranded struct {
	// ID is the instance's ID. Claim and Node are its NodeClaim and its Node; empty if it has none.
	ID, Claim, Node string
	// Drained reports whether Karpenter has drained the node.
	Drained bool
	// Why says what Karpenter has not done.
	Why string
}

// Standing is the state of the cluster that decides which NodeClaims are stranded.
type Standing struct {
	// Pools are the NodePools whose nodes should be terminated. The value reports whether that proceeds: it is false if
	// the removal is held.
	Pools map[string]bool
	// Ready are the Nodes that are Ready.
	Ready map[string]bool
	// Noted are the provider IDs in the records of removals.
	Noted []string
	// Runs reports whether Karpenter's controller runs.
	Runs bool
}

// FindStranded returns the instances of some pools that Karpenter does not terminate in the current state, by their
// IDs, and the number of their NodeClaims that it still works on: those whose pods it evicts, those that were not
// deleted while it runs, and those whose removal does not proceed. Only instances that a NodeClaim names or that were
// noted count.
func FindStranded(claims []karpv1.NodeClaim, by Standing) (found []Stranded, busy int) {
	named := map[string]bool{}
	for i := range claims {
		claim := &claims[i]
		_, id, err := cloud.ParseProviderID(claim.Status.ProviderID)
		named[id] = true
		goesOn, ours := by.Pools[claim.Labels[karpv1.NodePoolLabelKey]]
		if !ours {
			continue
		}
		why := ""
		if goesOn || claim.DeletionTimestamp != nil {
			why = whyLeaves(claim, by)
		}
		if why == "" || err != nil {
			busy++
			continue
		}
		isDrained := conditionOf(claim, karpv1.ConditionTypeDrained) == metav1.ConditionTrue
		found = append(found, Stranded{ID: id, Claim: claim.Name, Node: claim.Status.NodeName, Drained: isDrained, Why: why})
	}
	for _, providerID := range by.Noted {
		if _, id, err := cloud.ParseProviderID(providerID); err == nil && !named[id] {
			named[id] = true
			found = append(found, Stranded{ID: id, Why: "its NodeClaim no longer exists"})
		}
	}
	slices.SortFunc(found, func(a, b Stranded) int { return strings.Compare(a.ID, b.ID) })
	return found, busy
}

// whyLeaves returns why Karpenter does not terminate a NodeClaim's instance; empty if it works on it. Karpenter queries
// EC2 for the instance before it drains a node that is not Ready or has not registered, and afterwards for any other
// node: if EC2 denies that, only the conditions show it (sigs.k8s.io/karpenter
// pkg/controllers/node/termination/controller.go). Before 1.1, no condition reports the drain; a Ready node is then
// assumed to be draining.
func whyLeaves(claim *karpv1.NodeClaim, by Standing) string {
	if !by.Runs {
		return "Karpenter's controller does not run"
	}
	drains := conditionOf(claim, karpv1.ConditionTypeDrained)
	switch {
	case claim.DeletionTimestamp == nil:
		return ""
	case conditionOf(claim, karpv1.ConditionTypeInstanceTerminating) == metav1.ConditionTrue:
		return ""
	case drains == "" && by.Ready[claim.Status.NodeName]:
		return ""
	case drains == "":
		return "its NodeClaim is deleted, but Karpenter does not drain it"
	case !blocker.Drained(claim).IsZero():
		return "Karpenter has drained it but does not terminate it"
	}
	return ""
}

// conditionOf returns the status of one of its conditions; empty if it has none of that type.
func conditionOf(claim *karpv1.NodeClaim, kind string) metav1.ConditionStatus {
	for _, condition := range claim.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

// Noted returns the provider IDs in the records of a NodeSync's removals.
func Noted(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) ([]string, error) {
	kept, err := loadRecords(ctx, reader, sync)
	if err != nil {
		return nil, fmt.Errorf("find the instances of open removals: %w", err)
	}
	noted := map[string]bool{}
	for _, entry := range kept.entries {
		for id := range entry.Instances {
			noted[id] = true
		}
	}
	return slices.Sorted(maps.Keys(noted)), nil
}
