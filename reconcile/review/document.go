package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// Targets are the objects to which others move.
func Targets(p planjson.Plan) map[string]bool {
	found := map[string]bool{}
	for _, removal := range p.Removals {
		for _, name := range removal.MovesTo {
			found[removal.Kind+"/"+name] = found[removal.Kind+"/"+name] || !removal.Held
		}
	}
	return found
}

// Tally is how many objects a Plan does what to, and on how many nodes.
type Tally struct {
	Actions map[plan.Action]int
	Removed int
	Moved   int
	// Nodes drain or are replaced; UpTo reports whether that is the most that it can be.
	Nodes int
	UpTo  bool
}

// TallyOf counts what a Plan does. The NodePool that another one moves to is counted with the move.
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
		if t.Nodes += removal.Nodes; len(removal.MovesTo) > 0 {
			t.Moved++
		} else {
			t.Removed++
		}
	}
	return t
}

// Pace is how fast Karpenter may replace the nodes of a NodePool, or how fast they end.
type Pace struct {
	Pool string `json:"pool"`
	// Nodes is how many are outdated or end, Of how many there are, and AtATime how many of them the
	// disruption budgets, or spec.removal, allow to go at a time; 0 where none may. Leaves reports that the
	// pool leaves.
	Nodes   int  `json:"nodes"`
	Of      int  `json:"of"`
	AtATime int  `json:"atATime"`
	Leaves  bool `json:"leaves,omitempty"`
	// Unlaunchable reports that no instance type meets the pool, so that none of the nodes is replaced.
	Unlaunchable bool `json:"unlaunchable,omitempty"`
	// Rounds is the least number of rounds, and From when the first can begin, where that is later.
	Rounds int `json:"rounds"`
	// UpTo reports whether Nodes and Rounds are at most those, as AWS decides which nodes are outdated. AtLeast
	// is about how long the rounds take at least, by the fastest launch of the pool's nodes; 0 where
	// it is not known.
	UpTo    bool       `json:"upTo,omitempty"`
	AtLeast int        `json:"atLeastSeconds,omitempty"`
	From    *time.Time `json:"from,omitempty"`
	// Windows are when the budgets allow a replacement in the next 30 days, where that is not all the
	// time.
	Windows []plan.Window `json:"windows,omitempty"`
	Lines   []string      `json:"-"`
}

// Paces are those of a Plan. unlaunchable are the NodePools that no instance type meets.
func Paces(p *plan.Plan, live plan.Live, removal v1alpha1.RemovalPolicy, unlaunchable []string, now time.Time) []Pace {
	var found []Pace
	for _, pace := range append(plan.Paces(p.Changes, live, unlaunchable, now), plan.RemovalPaces(p.Removals, removal)...) {
		r := Pace{Pool: pace.Pool, Leaves: pace.Leaves, Unlaunchable: pace.Unlaunchable, Nodes: pace.Nodes, Of: pace.Of, AtATime: cmp.Or(pace.Allowed.Now, pace.Allowed.Next), Rounds: pace.Rounds(), UpTo: pace.UpTo, AtLeast: int(pace.AtLeast().Seconds()), Windows: pace.Windows, Lines: []string{pace.Words(now)}}
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

// Pods is what becomes of the pods on the nodes that a change or a removal touches.
type Pods struct {
	Object string `json:"object"`
	// UpTo reports whether not all of these nodes need be touched.
	UpTo bool `json:"upTo,omitempty"`
	plan.Impact
}

// Lines say it to people.
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

// Nodes are the Nodes by object that a change or a removal of a Plan touches, by name.
type Nodes map[string]map[string]bool

// Touched returns the Nodes that a Plan touches.
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

// Any reports whether a Plan touches a Node.
func (n Nodes) Any() bool {
	for _, nodes := range n {
		if len(nodes) > 0 {
			return true
		}
	}
	return false
}

// Pods returns what becomes of pods on the Nodes that a Plan touches, by object.
func (n Nodes) Pods(p planjson.Plan, pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, now time.Time) (found []Pods) {
	see := func(object string, upTo bool) {
		if impact := plan.WorkloadsOf(n[object], pods, budgets, now); impact.Pods > 0 {
			found = append(found, Pods{Object: object, UpTo: upTo, Impact: impact})
		}
	}
	for i := range p.Changes {
		see(p.Changes[i].Object, p.Changes[i].UpTo)
	}
	for i := range p.Removals {
		see(p.Removals[i].Object, false)
	}
	return found
}

// nodesOn are the Nodes of NodeClaims, by name.
func nodesOn(claims []planjson.NodeClaim) map[string]bool {
	nodes := map[string]bool{}
	for _, c := range claims {
		if c.Node != "" {
			nodes[c.Node] = true
		}
	}
	return nodes
}

// NotSimulated warns about removals with pods that the daemon simulates where these go before it begins, when the plan does not
// (simulates is false); empty if there are none.
func NotSimulated(p *plan.Plan, pods []Pods, guard v1alpha1.Guard, simulates bool) string {
	if simulates || !guard.UnschedulablePods.Holds() {
		return ""
	}
	moved := slices.DeleteFunc(p.Lands(), func(pool string) bool {
		return !slices.ContainsFunc(pods, func(r Pods) bool { return r.Object == pool })
	})
	if len(moved) == 0 {
		return ""
	}
	return fmt.Sprintf("the daemon simulates where the pods of %s can be scheduled before it begins the removal or takes an approval, and holds it if a pod cannot be scheduled: to simulate it now, add --what-if --aws", finding.Some(moved))
}

// Counts are how many objects of a Plan are held, and how many are refused.
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

// OwnerIn is the NodeSync whose definitions a snapshot has: the one of a name, or if that is empty the only one.
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
