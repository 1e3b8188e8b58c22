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

// Pool is a NodePool as Git has it, and as it is in the cluster; nil if it is not there. Class is the EC2NodeClass that it
// names there.
type Pool struct {
	Name        string
	Git         *unstructured.Unstructured
	Live, Class *plan.Object
}

// definitions are equal as long as the specs of the pool and its class in the cluster are.
func (p Pool) definitions() string {
	var generations [2]int64
	for i, object := range []*plan.Object{p.Live, p.Class} {
		if object != nil {
			generations[i] = object.GetGeneration()
		}
	}
	return fmt.Sprint(generations)
}

// Pools are the NodePools of a Set.
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

// Classes are the EC2NodeClasses of a Set that are in the cluster.
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

// EC2 reads instances from EC2, and whether they may be terminated.
type EC2 interface {
	Instances

	// TerminationProtected reports whether an instance is protected from being terminated.
	TerminationProtected(ctx context.Context, providerID string) (bool, error)
}

const (
	// maxAsked is how many instances EC2 is asked about: one request.
	maxAsked = 100
	// maxInputs is how many inputs a status has, and maxInput how many bytes each side of one.
	maxInputs, maxInput = 20, 300
)

// instanceMemory is what EC2 has said of instances that are outdated, by provider ID.
type instanceMemory struct {
	running map[string]plan.Running
	// refused is why there is no answer of the others, and asked when it was asked for.
	refused string
	asked   time.Time
}

// inputs are what has outdated nodes, each once, by pool and reason.
func (r *Rollouts) inputs(ctx context.Context, outdated []plan.Outdated) []v1alpha1.DriftInput {
	r.askInstances(ctx, outdated)
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
	// What is left out is left out for all nodes of a pool with that reason: the only one counts as
	// that of each.
	first := found[maxInputs]
	return slices.DeleteFunc(found[:maxInputs], func(i v1alpha1.DriftInput) bool { return i.Pool == first.Pool && i.Reason == first.Reason })
}

// inputOf is what has outdated one node, by what EC2 was queried for.
func (r *Rollouts) inputOf(o plan.Outdated) v1alpha1.DriftInput {
	known := &r.Memory.instances
	running, answered := known.running[o.Claim.ProviderID]
	unknown := ""
	if o.OfInstance() && !answered {
		unknown = cmp.Or(known.refused, "EC2 was not asked about its instance")
	}
	input := r.matching(true).Input(o, running, unknown)
	return v1alpha1.DriftInput{Pool: o.Claim.Pool, Reason: o.Reason, From: finding.Bounded(input.From, maxInput), To: finding.Bounded(input.To, maxInput)}
}

// askInstances asks EC2 what instances run in that are outdated by that, each once. An answer that
// does not come is asked for again after a minute.
func (r *Rollouts) askInstances(ctx context.Context, outdated []plan.Outdated) {
	known := &r.Memory.instances
	query := cloud.Query{}
	for _, o := range outdated {
		id := o.Claim.ProviderID
		if _, answered := known.running[id]; o.OfInstance() && id != "" && !answered && len(known.running)+len(query.ProviderIDs) < maxAsked {
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
	instances, err := r.shown(ctx, query)
	if known.running == nil {
		known.running = map[string]plan.Running{}
	}
	for _, i := range instances {
		known.running[i.ProviderID()] = plan.Running{Subnet: i.Subnet, SecurityGroups: i.SecurityGroups, Reservation: i.Reservation}
	}
	switch missing := slices.ContainsFunc(query.ProviderIDs, func(id string) bool { _, answered := known.running[id]; return !answered }); {
	case err != nil:
		known.refused = strings.TrimSuffix(err.Error(), "\n")
	case missing:
		known.refused = "EC2 does not show its instance"
	}
	if known.refused != "" {
		r.WakeBy(r.Now.Add(askEvery))
	}
}

// forget leaves what is known of the instances of nodes that are outdated: one that is outdated later
// may run in something else by then.
func (m *instanceMemory) forget(but []plan.Outdated) {
	kept := map[string]bool{}
	for _, o := range but {
		kept[o.Claim.ProviderID] = true
	}
	maps.DeleteFunc(m.running, func(id string, _ plan.Running) bool { return !kept[id] })
}

func (r *Rollouts) shown(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ec2, err := r.EC2(ctx)
	if err != nil {
		return nil, err
	}
	return ec2.Instances(ctx, query)
}

// watched is for how long after a controller came into force node drift is laid to
// it: two rounds of Karpenter's, which looks at each NodeClaim every five minutes
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go).
const watched = 10 * time.Minute

// Watch begins the watch over nodes before anything of a change moves, where there
// are nodes or a controller that have to come through it. One that is in progress for
// an earlier change goes on: what that was expected to do it may have done.
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
		if claim.Ending {
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

// EndWatch has a watch last for a while longer: the change is over.
func EndWatch(k v1alpha1.KarpenterStatus, now time.Time) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || k.NodeDrift.Until != nil {
		return k
	}
	ending, until := *k.NodeDrift, metav1.NewTime(now.Add(watched)).Rfc3339Copy()
	ending.Until = &until
	k.NodeDrift = &ending
	return k
}

// Expect notes pools whose nodes drift because a commit changes them.
func Expect(k v1alpha1.KarpenterStatus, pools []string) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || len(pools) == 0 {
		return k
	}
	noted := *k.NodeDrift
	noted.ExpectedPools = union(noted.ExpectedPools, pools)
	k.NodeDrift = &noted
	return k
}

// union is sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Drifted finds those of the drifted NodeClaims of pools where none was expected,
// by name, and notes what was touched of all that were there before. The watch ends
// with its time, or once the last that it has found is gone or drifted no more.
func Drifted(k v1alpha1.KarpenterStatus, claims []cluster.Claim, pools []string, now time.Time) (v1alpha1.KarpenterStatus, []cluster.Claim) {
	if k.NodeDrift == nil {
		return k, nil
	}
	k = note(k, claims)
	w := k.NodeDrift
	var found []cluster.Claim
	for _, c := range claims {
		if !c.Ending && drifts(w, c) && slices.Contains(pools, c.Pool) && !slices.Contains(w.ExpectedPools, c.Pool) {
			found = append(found, c)
		}
	}
	if len(found) == 0 && w.Until != nil && now.After(w.Until.Time) {
		k.NodeDrift = nil
	}
	slices.SortFunc(found, func(a, b cluster.Claim) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return k, found
}

// drifts reports whether a NodeClaim has become drifted while it was watched.
func drifts(w *v1alpha1.NodeDriftWatch, c cluster.Claim) bool {
	within := w.Until == nil || !c.Since.After(w.Until.Time)
	return c.Drifted != "" && within && !c.Since.Time.Before(w.Since.Time)
}

// maxTouched is how many NodeClaims a watch names.
const maxTouched = 5

// note adds to a watch which of the NodeClaims that were there before are drifted or
// being deleted since it began, by name up to maxTouched. Those that are gone have been one of these
// in a reconcile before, or are known by their number.
func note(k v1alpha1.KarpenterStatus, claims []cluster.Claim) v1alpha1.KarpenterStatus {
	w := *k.NodeDrift
	if w.Until != nil {
		return k // the change is over, and its outcome was reported
	}
	var names []string
	left := int32(0)
	for _, c := range claims {
		switch {
		case !before(&w, c), c.Ending && !c.EndingSince.IsZero() && c.EndingSince.Time.Before(w.Since.Time):
		case c.Ending || drifts(&w, c):
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

// before reports whether a NodeClaim was there when a watch began.
func before(w *v1alpha1.NodeDriftWatch, c cluster.Claim) bool {
	return w.Newest != nil && !w.Newest.Before(&c.Created)
}

// Outcome says what became of the nodes since a change began; empty if nobody has
// watched.
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
