package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// Targets returns the objects that others move to.
func Targets(p planjson.Plan) map[string]bool {
	found := map[string]bool{}
	for _, removal := range p.Removals {
		for _, name := range removal.MovesTo {
			found[removal.Kind+"/"+name] = found[removal.Kind+"/"+name] || !removal.Held
		}
	}
	return found
}

// Tally counts the objects of a Plan by action, and the affected nodes.
type Tally struct {
	Actions map[plan.Action]int
	Removed int
	Moved   int
	// Nodes are drained or replaced; UpTo reports whether that is the maximum.
	Nodes int
	UpTo  bool
}

// TallyOf counts what a Plan does. It counts the NodePool that another one moves to as part of the move.
func TallyOf(p planjson.Plan) Tally {
	t := Tally{Actions: map[plan.Action]int{}}
	targets := Targets(p)
	for _, c := range p.Changes {
		if !targets[c.Object] || c.Action != string(plan.Create) {
			t.Actions[plan.Action(c.Action)]++
		}
		if c.Action != string(plan.Hold) && plan.Effect(c.Effect).Disrupts() {
			t.Nodes, t.UpTo = t.Nodes+c.Nodes, t.UpTo || c.UpTo
		}
	}
	for _, removal := range p.Removals {
		if removal.Held {
			t.Actions[plan.Hold]++
			continue
		}
		t.UpTo = t.UpTo || removal.UpTo
		if t.Nodes += removal.Nodes; len(removal.MovesTo) > 0 {
			t.Moved++
		} else {
			t.Removed++
		}
	}
	return t
}

// Pace is how fast Karpenter may replace, or plumbline removes, the nodes of a NodePool.
type Pace struct {
	Pool string `json:"pool"`
	// Nodes is how many are outdated or removed, Of how many there are, and AtATime how many of them the disruption
	// budgets, or spec.removal, allow at a time; 0 if none. Leaves reports whether the pool is removed.
	Nodes   int  `json:"nodes"`
	Of      int  `json:"of"`
	AtATime int  `json:"atATime"`
	Leaves  bool `json:"leaves,omitempty"`
	// Unlaunchable reports that Karpenter launches no replacement, so that none of its nodes is replaced: no instance
	// type meets the pool's requirements, or limits.nodes of a static pool leave no room.
	Unlaunchable bool `json:"unlaunchable,omitempty"`
	// Rounds is the minimum number of rounds, and From when the first can start, if that is later than now.
	Rounds int `json:"rounds"`
	// UpTo reports whether Nodes and Rounds are maximums, because AWS decides which nodes are outdated. AtLeast is the
	// approximate minimum duration, from the rounds and the fastest launch of the pool's nodes, or from the number of
	// Karpenter's decisions in a large cluster; 0 if unknown.
	UpTo    bool       `json:"upTo,omitempty"`
	AtLeast int        `json:"atLeastSeconds,omitempty"`
	From    *time.Time `json:"from,omitempty"`
	// Waves are the numbers of nodes that are replaced in each wave; none if the nodes are not replaced in waves.
	// WavesAdd is the minimum duration that they add.
	Waves    []int `json:"waves,omitempty"`
	WavesAdd int   `json:"wavesAddSeconds,omitempty"`
	// Windows are when the budgets allow a replacement in the next 30 days, if that is not always.
	Windows []plan.Window `json:"windows,omitempty"`
	Lines   []string      `json:"-"`
}

// Paces returns those of a Plan. unlaunchable is why Karpenter launches no replacement in a NodePool, by its name.
func Paces(p *plan.Plan, live plan.Live, removal v1alpha1.RemovalPolicy, unlaunchable map[string]string, now time.Time) []Pace {
	var found []Pace
	for _, pace := range append(plan.Paces(p.Changes, live, unlaunchable, now), plan.RemovalPaces(p.Removals, removal)...) {
		r := Pace{
			Pool: pace.Pool, Leaves: pace.Leaves, Unlaunchable: pace.Unlaunchable != "", Nodes: pace.Nodes, Of: pace.Of,
			AtATime: cmp.Or(pace.Allowed.Now, pace.Allowed.Next), Rounds: pace.Rounds(), UpTo: pace.UpTo, AtLeast: int(pace.AtLeast().Seconds()),
			Windows: pace.Windows, Lines: []string{pace.Words(now)},
		}
		if !pace.Allowed.At.IsZero() {
			r.From = &pace.Allowed.At
		}
		if words := pace.WindowWords(now); words != "" {
			r.Lines = append(r.Lines, words)
		}
		found = append(found, r)
	}
	return found
}

// AddWaves adds, to the paces of NodePools whose nodes are replaced in waves, how many nodes each wave has.
func AddWaves(paces []Pace, policy v1alpha1.RolloutPolicy) {
	for i := range paces {
		p := &paces[i]
		if p.Leaves || p.Unlaunchable {
			continue
		}
		var adds time.Duration
		if p.Waves, adds = wavesOf(p.Nodes, policy); p.Waves == nil {
			continue
		}
		p.WavesAdd = int(adds.Seconds())
		sizes := make([]string, 0, len(p.Waves))
		for _, n := range p.Waves {
			sizes = append(sizes, strconv.Itoa(n))
		}
		p.Lines = append(p.Lines, fmt.Sprintf("NodePool/%s: in %s of %s nodes, which take %s longer at least",
			p.Pool, english.Plural(len(p.Waves), "wave", ""), finding.Few(sizes, ", "), plan.Short(adds)))
	}
}

// wavesOf returns the numbers of nodes that are replaced in each wave, and the minimum duration that waves add; nil if the
// nodes are not replaced in waves.
func wavesOf(nodes int, policy v1alpha1.RolloutPolicy) (sizes []int, adds time.Duration) {
	waves := policy.GetWaves()
	if waves == nil || nodes < plan.MinWaved {
		return nil, 0
	}
	sizes = plan.WaveSizes(waves, 1, nodes)
	return sizes, plan.WavesTake(&policy, len(sizes))
}

// Pods is what happens to the pods on the nodes that a change or a removal affects.
type Pods struct {
	Object string `json:"object"`
	// UpTo reports whether some of these nodes may remain unaffected.
	UpTo bool `json:"upTo,omitempty"`
	plan.Impact
}

// Lines describes it.
func (r Pods) Lines() []string {
	prefix := r.Object + ": "
	if r.UpTo {
		prefix += "up to "
	}
	var lines []string
	for _, words := range r.Words() {
		lines = append(lines, prefix+words)
		prefix = r.Object + ": "
	}
	return lines
}

// Nodes maps an object to the Nodes that its change or removal affects.
type Nodes map[string]plan.Drains

// Touched returns the Nodes that a Plan affects.
func Touched(p planjson.Plan) Nodes {
	nodes := Nodes{}
	for i := range p.Changes {
		if change := &p.Changes[i]; plan.Effect(change.Effect).Disrupts() {
			nodes[change.Object] = nodesOn(change.NodeClaims)
		}
	}
	for i := range p.Removals {
		nodes[p.Removals[i].Object] = nodesOn(p.Removals[i].NodeClaims)
	}
	return nodes
}

// Any reports whether a Plan affects a Node.
func (n Nodes) Any() bool {
	for _, nodes := range n {
		if len(nodes) > 0 {
			return true
		}
	}
	return false
}

// Pods returns what happens to pods on the Nodes that a Plan affects, by object.
func (n Nodes) Pods(p planjson.Plan, pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, now time.Time) (found []Pods) {
	see := func(object string, upTo bool) {
		if impact := plan.WorkloadsOf(n[object], pods, budgets, now); impact.Pods > 0 {
			found = append(found, Pods{Object: object, UpTo: upTo, Impact: impact})
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		see(c.Object, c.UpTo || len(c.NodeClaims) > c.Nodes)
	}
	for i := range p.Removals {
		see(p.Removals[i].Object, false)
	}
	return found
}

// nodesOn returns the Nodes of NodeClaims.
func nodesOn(claims []planjson.NodeClaim) plan.Drains {
	nodes := plan.Drains{}
	for _, c := range claims {
		if c.Node != "" {
			nodes[c.Node] = c.TerminationGracePeriod
		}
	}
	return nodes
}

// NotSimulated returns a warning about removals with pods whose rescheduling the daemon simulates first, if the plan
// does not (simulates is false); empty if there are none.
func NotSimulated(p *plan.Plan, pods []Pods, guard v1alpha1.Guard, simulates bool) string {
	if simulates || !guard.UnschedulablePods.Holds() {
		return ""
	}
	moved := slices.DeleteFunc(p.NeedLanding(), func(pool string) bool {
		return !slices.ContainsFunc(pods, func(r Pods) bool { return r.Object == pool })
	})
	if len(moved) == 0 {
		return ""
	}
	return fmt.Sprintf("the daemon simulates where the pods of %s can be scheduled before it begins the removal or takes an approval, and holds it if a pod cannot be scheduled: to simulate it now, add --what-if --aws", finding.Some(moved))
}

// Counts returns how many objects of a Plan are held, and how many are refused.
func Counts(p *plan.Plan) (held, refused int) {
	for i := range p.Changes {
		if p.Changes[i].Err != nil {
			refused++
		}
		if p.Changes[i].Action == plan.Hold {
			held++
		}
	}
	for i := range p.Removals {
		if p.Removals[i].Held {
			held++
		}
	}
	return held, refused
}

// OwnerIn returns the NodeSync whose definitions a snapshot has: the one with the name, or the only one if name is
// empty.
func OwnerIn(live plan.Live, name string) (plan.Owner, error) {
	owners := map[plan.Owner]bool{}
	for _, object := range live.Objects {
		if owner, named := plan.OwnerNamed(object); named && (name == "" || name == owner.Name) {
			owners[owner] = true
		}
	}
	switch found := slices.Collect(maps.Keys(owners)); {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return plan.Owner{}, errors.New("the snapshot has definitions of several NodeSyncs: say which with --against")
	case name != "":
		return plan.Owner{}, fmt.Errorf("the snapshot has no definition of NodeSync %s", name)
	}
	return plan.Owner{}, nil
}
