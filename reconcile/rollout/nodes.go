package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Pool is a NodePool as Git defines it, and as it is in the cluster; nil if it does not exist there. Class is the
// EC2NodeClass that the pool in the cluster references.
type Pool struct {
	Name        string
	Git         *unstructured.Unstructured
	Live, Class *plan.Object
}

// definitions returns a string that stays the same as long as the specs of the pool and its class in the cluster do.
func (p Pool) definitions() string {
	var generations [2]int64
	for i, object := range []*plan.Object{p.Live, p.Class} {
		if object != nil {
			generations[i] = object.GetGeneration()
		}
	}
	return fmt.Sprint(generations)
}

// Pools returns the NodePools of a Set.
func Pools(set *render.Set, live map[render.Ref]*plan.Object) []Pool {
	var pools []Pool
	for _, object := range set.Objects {
		if object.Ref.Kind == render.NodePool {
			pool := Pool{Name: object.Ref.Name, Git: object.Defaulted, Live: live[object.Ref]}
			if pool.Live != nil {
				class, _ := render.Reference(object.Ref, pool.Live.Unstructured)
				pool.Class = live[class]
			}
			pools = append(pools, pool)
		}
	}
	return pools
}

// Classes returns the EC2NodeClasses of a Set that are in the cluster.
func Classes(set *render.Set, live map[render.Ref]*plan.Object) []*plan.Object {
	var classes []*plan.Object
	for _, object := range set.Objects {
		if object.Ref.Kind == render.EC2NodeClass && live[object.Ref] != nil {
			classes = append(classes, live[object.Ref])
		}
	}
	return classes
}

// Instances reads instances from EC2.
type Instances interface {
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
}

// EC2 reads instances from EC2, and whether they are protected from termination.
type EC2 interface {
	Instances

	// TerminationProtected reports whether an instance is protected from being terminated.
	TerminationProtected(ctx context.Context, providerID string) (bool, error)
}

const (
	// maxAsked is the maximum number of instances that EC2 is asked about for the inputs, which is one request.
	maxAsked = 100
	// maxInputs is the maximum number of inputs in the status, and maxInput the maximum number of bytes of each side of
	// one.
	maxInputs, maxInput = 20, 300
)

// instanceMemory is what EC2 has reported about outdated instances, by provider ID.
type instanceMemory struct {
	running map[string]plan.Running
	// gone are those that EC2 has not returned.
	gone map[string]bool
	// refused is why there is no answer about the others, and asked is when EC2 was last asked.
	refused string
	asked   time.Time
}

// inputs returns the differences that have outdated nodes, each once, by pool and reason.
func (r *Rollouts) inputs(ctx context.Context, outdated []plan.Outdated) []v1alpha1.DriftInput {
	ids := instanceIDs(outdated)
	r.queryRunning(ctx, ids[:min(len(ids), maxAsked)])
	is := map[v1alpha1.DriftInput]bool{}
	for _, o := range outdated {
		is[r.inputOf(o)] = true
	}
	found := slices.SortedFunc(maps.Keys(is), func(a, b v1alpha1.DriftInput) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	if len(found) <= maxInputs {
		return found
	}
	// If an input is omitted, omit all inputs of that pool with that reason: a single remaining input would seem to
	// apply to each of its nodes.
	first := found[maxInputs]
	return slices.DeleteFunc(found[:maxInputs], func(i v1alpha1.DriftInput) bool { return i.Pool == first.Pool && i.Reason == first.Reason })
}

// inputOf returns the difference that has outdated one node, using the answers of EC2.
func (r *Rollouts) inputOf(o plan.Outdated) v1alpha1.DriftInput {
	known := &r.Memory.instances
	running, answered := known.running[o.Claim.ProviderID]
	unknown := ""
	if o.OfInstance() && !answered {
		unknown = cmp.Or(known.refused, "EC2 was not queried for its instance")
	}
	input := r.matching(true).Input(o, running, unknown)
	return v1alpha1.DriftInput{
		Pool: o.Claim.Pool, Reason: o.Reason, From: finding.Bounded(input.From, maxInput), To: finding.Bounded(input.To, maxInput),
	}
}

// instanceIDs returns the provider IDs of the NodeClaims that are outdated for a reason that only EC2 knows the inputs
// of.
func instanceIDs(outdated []plan.Outdated) []string {
	var ids []string
	for _, o := range outdated {
		if o.OfInstance() && o.Claim.ProviderID != "" {
			ids = append(ids, o.Claim.ProviderID)
		}
	}
	return ids
}

// queryRunning queries EC2 for the subnets, security groups and reservations of instances, by provider ID, once for
// each. If an answer is missing, it queries again after a minute.
func (r *Rollouts) queryRunning(ctx context.Context, ids []string) {
	known := &r.Memory.instances
	query := cloud.Query{}
	for _, id := range ids {
		if _, answered := known.running[id]; !answered {
			query.ProviderIDs = append(query.ProviderIDs, id)
		}
	}
	switch {
	case len(query.ProviderIDs) == 0 || r.EC2 == nil:
		return
	case known.refused != "" && !finding.Due(r.Now, known.asked, askEvery):
		r.WakeBy(known.asked.Add(askEvery))
		return
	}
	known.asked, known.refused = r.Now, ""
	instances, err := r.queryInstances(ctx, query)
	if known.running == nil {
		known.running = map[string]plan.Running{}
	}
	for _, i := range instances {
		known.running[i.ProviderID()] = plan.Running{Subnet: i.Subnet, SecurityGroups: i.SecurityGroups, Reservation: i.Reservation}
	}
	known.gone = map[string]bool{}
	for _, id := range query.ProviderIDs {
		if _, answered := known.running[id]; !answered && err == nil {
			known.gone[id] = true
		}
	}
	switch {
	case err != nil:
		known.refused = strings.TrimSuffix(err.Error(), "\n")
	case len(known.gone) > 0:
		known.refused = "EC2 does not return its instance"
	}
	if known.refused != "" {
		r.WakeBy(r.Now.Add(askEvery))
	}
}

// forget drops the answers about instances of all nodes that are not outdated: if such a node becomes outdated later,
// its instance may have changed by then.
func (m *instanceMemory) forget(but []plan.Outdated) {
	kept := map[string]bool{}
	for _, o := range but {
		kept[o.Claim.ProviderID] = true
	}
	maps.DeleteFunc(m.running, func(id string, _ plan.Running) bool { return !kept[id] })
}

func (r *Rollouts) queryInstances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ec2, err := r.EC2(ctx)
	if err != nil {
		return nil, err
	}
	return ec2.Instances(ctx, query)
}

// driftWatchPeriod is how long plumbline attributes node drift to a new controller after that starts: two rounds
// of Karpenter, which checks each NodeClaim every five minutes
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go).
const driftWatchPeriod = 10 * time.Minute

// Watch begins the watch over nodes before a change starts, if there are nodes or a controller that the
// change can affect. A watch that is in progress for an earlier change continues, with its expected
// pools: that change may have taken effect already.
func Watch(k v1alpha1.KarpenterStatus, to string, expected []string, claims []cluster.Claim, now time.Time) v1alpha1.KarpenterStatus {
	if w := k.NodeDrift; w != nil && w.Until == nil {
		going := *w
		going.To, going.ExpectedPools = to, union(w.ExpectedPools, expected)
		k.NodeDrift = &going
		return k
	}
	k.NodeDrift = nil
	if k.Controller == nil && k.Version == "" && len(claims) == 0 {
		return k
	}
	w := &v1alpha1.NodeDriftWatch{From: k.Version, To: to, Since: metav1.NewTime(now).Rfc3339Copy(), ExpectedPools: expected}
	for _, claim := range claims {
		if claim.Terminating {
			continue
		}
		w.Claims++
		if w.Newest == nil || w.Newest.Before(&claim.Created) {
			created := claim.Created
			w.Newest = &created
		}
	}
	k.NodeDrift = w
	return k
}

// EndWatch lets a watch last for a while longer, because the change is complete.
func EndWatch(k v1alpha1.KarpenterStatus, now time.Time) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || k.NodeDrift.Until != nil {
		return k
	}
	ending, until := *k.NodeDrift, metav1.NewTime(now.Add(driftWatchPeriod)).Rfc3339Copy()
	ending.Until = &until
	k.NodeDrift = &ending
	return k
}

// Expect records pools whose nodes drift because a commit changes them.
func Expect(k v1alpha1.KarpenterStatus, pools []string) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || len(pools) == 0 {
		return k
	}
	noted := *k.NodeDrift
	noted.ExpectedPools = union(noted.ExpectedPools, pools)
	k.NodeDrift = &noted
	return k
}

// union returns the elements of both, sorted, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Drifted returns the drifted NodeClaims of pools where no drift was expected, by name, and
// records which of all previous NodeClaims were affected. The watch ends at its deadline, or later, once no
// NodeClaim that it has found is drifted or exists.
func Drifted(
	k v1alpha1.KarpenterStatus, claims []cluster.Claim, pools []string, now time.Time,
) (v1alpha1.KarpenterStatus, []cluster.Claim) {
	if k.NodeDrift == nil {
		return k, nil
	}
	k = note(k, claims)
	w := k.NodeDrift
	var found []cluster.Claim
	for _, c := range claims {
		if !c.Terminating && drifts(w, c) && slices.Contains(pools, c.Pool) && !slices.Contains(w.ExpectedPools, c.Pool) {
			found = append(found, c)
		}
	}
	if len(found) == 0 && w.Until != nil && now.After(w.Until.Time) {
		k.NodeDrift = nil
	}
	slices.SortFunc(found, func(a, b cluster.Claim) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return k, found
}

// drifts reports whether a NodeClaim has drifted during the watch.
func drifts(w *v1alpha1.NodeDriftWatch, c cluster.Claim) bool {
	within := w.Until == nil || !c.Since.After(w.Until.Time)
	return c.Drifted != "" && within && !c.Since.Time.Before(w.Since.Time)
}

// maxTouched is the maximum number of NodeClaims that a watch names.
const maxTouched = 5

// note adds to a watch which of the previous NodeClaims have drifted or are being deleted
// since it began, by name up to maxTouched. NodeClaims that are gone were in one of these states
// in an earlier reconcile, or only their number is known.
func note(k v1alpha1.KarpenterStatus, claims []cluster.Claim) v1alpha1.KarpenterStatus {
	w := *k.NodeDrift
	if w.Until != nil {
		return k // the change is complete, and its outcome was reported
	}
	var names []string
	left := int32(0)
	for _, c := range claims {
		switch {
		case !before(&w, c), c.Terminating && !c.TerminatingSince.IsZero() && c.TerminatingSince.Time.Before(w.Since.Time):
		case c.Terminating || drifts(&w, c):
			names = append(names, c.NodeClaim)
		default:
			left++
		}
	}
	names = union(w.Touched, names)
	w.TouchedClaims = max(w.TouchedClaims, w.Claims-left, int32(len(names)))
	w.Touched = names[:min(len(names), maxTouched)]
	if len(w.Touched) == 0 {
		w.Touched = nil
	}
	k.NodeDrift = &w
	return k
}

// before reports whether a NodeClaim existed when a watch began.
func before(w *v1alpha1.NodeDriftWatch, c cluster.Claim) bool {
	return w.Newest != nil && !w.Newest.Before(&c.Created)
}

// Outcome returns what happened to the nodes since a change began; empty if there was no
// watch.
func Outcome(k v1alpha1.KarpenterStatus, claims []cluster.Claim) string {
	if k.NodeDrift == nil || k.NodeDrift.Until != nil {
		return ""
	}
	w := note(k, claims).NodeDrift
	if w.TouchedClaims == 0 {
		return ", and no NodeClaim has drifted or been deleted since the change began"
	}
	words := fmt.Sprintf(", and of %d NodeClaims %d drifted or were deleted since the change began", w.Claims, w.TouchedClaims)
	if len(w.Touched) > 0 {
		words += ": " + strings.Join(w.Touched, ", ") + shortlist.More(" ", int(w.TouchedClaims)-len(w.Touched))
	}
	return words
}
