package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Wish is what the user requests.
type Wish struct {
	// Keep are the nodes to keep, by the ID of a group. A group that it does not name keeps what hosts the controllers.
	Keep map[string]int
	// Unpinned are workloads that may run on Karpenter's nodes, as NAMESPACE/NAME.
	Unpinned []string
	// Tested reports whether Karpenter was tested in this run, or needs no test.
	Tested bool
}

// Action is what a step does.
type Action string

// The values of Action, in the order of a migration, then in that of its reversal.
const (
	// Test checks that Karpenter launches and terminates a node.
	Test Action = "test"
	// PinAddon changes the configuration values of an add-on of EKS.
	PinAddon Action = "pin add-on"
	// PinWorkload changes a workload that no tool keeps.
	PinWorkload Action = "pin"
	// StopAutoscaler scales a Cluster Autoscaler to zero.
	StopAutoscaler Action = "stop"
	// RecordSizes tags a group with its sizes.
	RecordSizes Action = "record"
	// Cordon makes the nodes of a group that go away unschedulable.
	Cordon Action = "cordon"
	// LowerMinimum lowers the minimum size of a group.
	LowerMinimum Action = "lower"
	// MoveNode drains a node, terminates its instance, and lowers the desired size of its group.
	MoveNode Action = "move"

	// RestoreSizes gives a group its recorded sizes.
	RestoreSizes Action = "restore"
	// Forget removes the record of a group.
	Forget Action = "forget"
	// Await waits until each instance of a group is a Node, or is terminated.
	Await Action = "await"
	// Uncordon makes nodes schedulable again.
	Uncordon Action = "uncordon"
	// StartAutoscaler gives a Cluster Autoscaler its recorded replicas.
	StartAutoscaler Action = "start"
	// UnpinAddon reverses PinAddon, and UnpinWorkload PinWorkload.
	UnpinAddon    Action = "unpin add-on"
	UnpinWorkload Action = "unpin"
)

// State of a step.
type State string

// The values of State.
const (
	Done    State = "done"
	Pending State = "pending"
	// Waits is a step of the user: another tool keeps the object.
	Waits State = "waits for you"
)

// Step is one step.
type Step struct {
	Action Action `json:"action"`
	// Target is what the step is about: nodegroup/web, Node/ip-10-0-1-7, Deployment/kube-system/coredns.
	Target string `json:"target"`
	State  State  `json:"state"`
	// What the step does, in words. ByHand is the command or the commit of a step that waits for the user.
	What   string `json:"what"`
	ByHand string `json:"byHand,omitempty"`

	// Group is that of a step about a group or a node, and Sizes those that it gets. Node is the name of the node, and Nodes
	// are those that a step about a group cordons or uncordons.
	Group *Group      `json:"-"`
	Sizes cloud.Sizes `json:"-"`
	Tag   string      `json:"-"`
	Node  string      `json:"-"`
	Nodes []string    `json:"-"`
	// ProviderID is that of the node.
	ProviderID string `json:"-"`
	// Ref is a workload or an autoscaler, and Replicas those that it gets.
	Ref      Ref `json:"-"`
	Replicas int `json:"-"`
	// Addon is the add-on, Values its new configuration values, and Mode the value of PinAnnotation.
	Addon  cloud.Addon `json:"-"`
	Values string      `json:"-"`
	Mode   string      `json:"-"`
	// Affinity is what a workload gets.
	Affinity *corev1.Affinity `json:"-"`
}

// Plan is what was found, and what is done.
type Plan struct {
	Cluster     string         `json:"cluster"`
	Autoscalers []string       `json:"autoscalers"`
	Groups      []GroupPlan    `json:"groups"`
	Workloads   []WorkloadPlan `json:"workloads"`
	Steps       []Step         `json:"steps"`
	// Blocked are the pods that will keep a node from being drained until the user acts.
	Blocked []string `json:"blocked,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// GroupPlan is a group of nodes, or a Fargate profile, which has no nodes.
type GroupPlan struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Autoscaled reports whether a Cluster Autoscaler changes its size.
	Autoscaled bool `json:"autoscaled"`
	// Nodes it has, of which Keep stay, and the pods on them besides those of DaemonSets.
	Nodes int `json:"nodes"`
	Keep  int `json:"keep"`
	Pods  int `json:"pods"`
	// Sizes are minimum, desired and maximum.
	Sizes string `json:"sizes,omitempty"`
	// Going are the nodes that are terminated, in this order.
	Going []string `json:"going,omitempty"`
}

// WorkloadPlan is a workload that has to run on nodes that stay.
type WorkloadPlan struct {
	Workload string `json:"workload"`
	Why      string `json:"why"`
	Owner    string `json:"owner"`
	Pinned   bool   `json:"pinned"`
	// On are the places where its pods run, such as nodegroup/web.
	On []string `json:"on"`
}

// Next returns the next step; nil if all are done. Steps that wait for the user come last among those that depend on none of
// them: it is enough to stop for the user once.
func (p *Plan) Next() *Step {
	var waits *Step
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case s.State == Done:
		case s.State == Waits:
			waits = cmp.Or(waits, s)
		case waits == nil || s.independent():
			return s
		}
	}
	return waits
}

// independent reports whether a step may be performed while others wait for the user.
func (s *Step) independent() bool {
	return slices.Contains([]Action{Test, PinAddon, PinWorkload, UnpinAddon, UnpinWorkload}, s.Action)
}

// Waiting returns the steps of the user.
func (p *Plan) Waiting() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.State != Waits })
}

// ErrNoAutoscaler is returned if the cluster has no Cluster Autoscaler.
var ErrNoAutoscaler = errors.New("the cluster has no Deployment of the Cluster Autoscaler: there is nothing to migrate")

// Decide returns the plan of a migration. Errors: the cluster has no Cluster Autoscaler, or too little would stay for the
// controllers.
func Decide(w Wish, f *Facts) (*Plan, error) {
	scalers := f.Autoscalers()
	if len(scalers) == 0 {
		return nil, ErrNoAutoscaler
	}
	groups, workloads := f.Groups(scalers), f.critical(scalers)
	kept, err := keep(f, w, groups, workloads)
	if err != nil {
		return nil, err
	}
	d := &decision{Wish: w, f: f, p: &Plan{Cluster: f.Cluster}, scalers: scalers, workloads: workloads, kept: kept}
	for _, a := range scalers {
		d.p.Autoscalers = append(d.p.Autoscalers, a.Words())
	}
	d.describe()
	d.test()
	if err := d.pins(); err != nil {
		return nil, err
	}
	d.stop()
	d.shrink()
	return d.p, nil
}

// decision is a plan while it is made.
type decision struct {
	Wish
	f         *Facts
	p         *Plan
	scalers   []Autoscaler
	workloads []*Workload
	kept      []*kept
}

func (d *decision) step(s Step, done bool) {
	if s.State == "" {
		s.State = Pending
	}
	if done {
		s.State, s.ByHand = Done, ""
	}
	d.p.Steps = append(d.p.Steps, s)
}

// describe adds what was found to the plan.
func (d *decision) describe() {
	d.p.Groups, d.p.Workloads = []GroupPlan{}, []WorkloadPlan{}
	for _, g := range d.kept {
		one := GroupPlan{
			Group: g.ID(), Kind: string(g.Kind), Autoscaled: g.Autoscaled, Nodes: len(g.Nodes), Keep: g.n,
			Sizes: fmt.Sprintf("%d/%d/%d", g.Sizes.Min, g.Sizes.Desired, g.Sizes.Max),
		}
		for _, n := range g.Nodes {
			one.Pods += d.moving(n.Name)
		}
		for _, n := range inOrder(g) {
			one.Going = append(one.Going, n.Name)
			d.blocked(n)
		}
		d.p.Groups = append(d.p.Groups, one)
		if more := len(g.Instances) - len(g.Nodes); more > 0 {
			d.p.Notes = append(d.p.Notes, fmt.Sprintf("%s has %s in EC2 without a Node in the cluster: starting, terminating, or not able to join",
				g.ID(), english.Plural(more, "instance", "")))
		}
	}
	for _, profile := range d.f.Fargate {
		d.p.Groups = append(d.p.Groups, GroupPlan{Group: "fargate/" + profile.Name, Kind: "Fargate profile", Pods: d.f.podsOfProfile(profile)})
	}
	for _, w := range d.workloads {
		one := WorkloadPlan{Workload: w.String(), Why: w.Why, Owner: w.Owner.String(), Pinned: w.Pinned, On: []string{}}
		if w.Addon != "" {
			one.Owner = "add-on " + w.Addon
		}
		for _, p := range w.Pods {
			if node := d.f.node(p.Spec.NodeName); node != nil {
				one.On = append(one.On, Place(node))
			}
		}
		slices.Sort(one.On)
		one.On = slices.Compact(one.On)
		d.p.Workloads = append(d.p.Workloads, one)
	}
}

// moving counts the pods on a node that are evicted.
func (d *decision) moving(node string) int {
	n := 0
	for _, p := range d.f.podsOn(node) {
		if !staysOnNode(p) {
			n++
		}
	}
	return n
}

func (d *decision) blocked(n *corev1.Node) {
	for _, p := range d.f.podsOn(n.Name) {
		if why := unmovable(p); why != "" {
			d.p.Blocked = append(d.p.Blocked, fmt.Sprintf("Node/%s: pod %s/%s %s", n.Name, p.Namespace, p.Name, why))
		}
	}
}

// podsOfProfile counts the pods that run on Fargate by a profile.
func (f *Facts) podsOfProfile(profile cloud.FargateProfile) int {
	n := 0
	for i := range f.Pods {
		p := &f.Pods[i]
		node := f.node(p.Spec.NodeName)
		if node != nil && node.Labels[computeTypeLabel] == "fargate" && p.Labels["eks.amazonaws.com/fargate-profile"] == profile.Name {
			n++
		}
	}
	return n
}

// begun reports whether an earlier run has recorded anything after the test.
func (d *decision) begun() bool {
	return slices.ContainsFunc(d.kept, func(g *kept) bool { return g.Record != nil }) ||
		slices.ContainsFunc(d.scalers, func(a Autoscaler) bool { return a.Before >= 0 })
}

func (d *decision) test() {
	d.step(Step{
		Action: Test, Target: "Karpenter", What: "test that each NodePool launches a node and terminates it: plumbline smoke",
	}, d.Tested || d.begun())
}

// pins adds the steps that keep the controllers on the nodes that stay.
func (d *decision) pins() error {
	seen := map[string]bool{}
	for _, w := range d.workloads {
		if slices.Contains(d.Unpinned, w.Namespace+"/"+w.Name) {
			continue
		}
		ready := w.Pinned && (w.Rolled || w.Mode == "")
		addon, path := d.addon(w.Addon), d.f.Affinity[w.Addon]
		switch {
		case w.Addon != "" && len(path) > 0:
			if seen[w.Addon] {
				continue
			}
			seen[w.Addon] = true
			if err := d.pinAddon(w, addon, path); err != nil {
				return err
			}
		case w.Pinned && w.Mode == "":
			continue // it was pinned before
		case w.Addon != "":
			d.manual(w, fmt.Sprintf("the configuration of add-on %s has no affinity: leave it with --unpinned %s/%s", w.Addon, w.Namespace, w.Name))
		case Reverts(w.Owner) != "":
			d.manual(w, ByHand(w.Owner, "give "+w.Words()+" a node affinity that requires "+nodePoolLabel+" DoesNotExist", helmAffinity))
		default:
			mode := Merged
			if w.Affinity == nil {
				mode = Added
			}
			d.step(Step{
				Action: PinWorkload, Target: w.String(), Ref: w.Ref, Affinity: Pin(w.Affinity), Mode: cmp.Or(w.Mode, mode),
				What: "require nodes that are not Karpenter's (" + w.Why + ")",
			}, ready)
		}
	}
	return nil
}

// helmAffinity is the pin as a value of most charts.
const helmAffinity = `--set-json 'affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` +
	`[{"matchExpressions":[{"key":"` + nodePoolLabel + `","operator":"DoesNotExist"}]}]}}}'`

func (d *decision) manual(w *Workload, byHand string) {
	d.step(Step{
		Action: PinWorkload, Target: w.String(), Ref: w.Ref, State: Waits, ByHand: byHand,
		What: fmt.Sprintf("require nodes that are not Karpenter's (%s); %s would revert a change in the cluster", w.Why, w.Owner),
	}, false)
}

func (d *decision) addon(name string) cloud.Addon {
	for _, a := range d.f.Addons {
		if a.Name == name {
			return a
		}
	}
	return cloud.Addon{}
}

// pinAddon adds the step about an add-on. It is done once the workloads have what the values have.
func (d *decision) pinAddon(w *Workload, addon cloud.Addon, path []string) error {
	inValues := ValuesPinned(addon.Configuration, path)
	if w.Pinned && !inValues && addon.Tags[PinAnnotation] == "" {
		return nil // it was pinned before, by a default of the add-on
	}
	values, mode, err := PinValues(addon.Configuration, path, w.Affinity)
	if err != nil {
		return fmt.Errorf("add-on %s: %w", addon.Name, err)
	}
	if inValues && addon.Tags[PinAnnotation] == "" {
		mode = "" // the user has pinned it
	}
	d.step(Step{
		Action: PinAddon, Target: "addon/" + addon.Name, Ref: w.Ref, Addon: addon, Values: values, Mode: cmp.Or(addon.Tags[PinAnnotation], mode),
		What: fmt.Sprintf("UpdateAddon: %s requires nodes that are not Karpenter's (%s)", w.Words(), w.Why),
	}, inValues && w.Pinned && w.Rolled)
	return nil
}

// stop adds the steps that scale the autoscalers to zero.
func (d *decision) stop() {
	for _, a := range d.scalers {
		s := Step{
			Action: StopAutoscaler, Target: a.String(), Ref: a.Ref,
			What: fmt.Sprintf("scale to 0, and record its %s", english.Plural(max(a.Replicas, a.Before), "replica", "")),
		}
		if by := Reverts(a.Owner); by != "" && a.Replicas > 0 {
			s.State = Waits
			s.What = "scale to 0: " + by + " would revert a change in the cluster"
			s.ByHand = ByHand(a.Owner, "set replicas of "+a.Words()+" to 0", "--set replicaCount=0")
		}
		d.step(s, a.Replicas == 0 && a.Running == 0)
	}
}

// shrinking returns the groups that get smaller, or have, those that keep the fewest nodes first.
func (d *decision) shrinking() []*kept {
	var groups []*kept
	for _, g := range d.kept {
		if len(g.going) > 0 || g.Record != nil || g.Sizes.Min > g.n && g.Autoscaled {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b *kept) int { return cmp.Or(cmp.Compare(a.n, b.n), strings.Compare(a.ID(), b.ID())) })
	return groups
}

// shrink adds the steps of the groups. All nodes that go are cordoned before the first is drained, so that no pod moves twice.
func (d *decision) shrink() {
	groups := d.shrinking()
	for _, g := range groups {
		record := Record{g.Sizes, g.n}
		if g.Record != nil {
			record.Sizes = g.Record.Sizes
		}
		d.step(Step{
			Action: RecordSizes, Target: g.ID(), Group: g.Group, Tag: record.String(),
			What: fmt.Sprintf("tag it with its sizes: minimum %d, desired %d, maximum %d", record.Min, record.Desired, record.Max),
		}, g.Record != nil && g.Record.Keep == g.n)
	}
	for _, g := range groups {
		s := Step{Action: Cordon, Target: g.ID(), Group: g.Group, What: "cordon " + english.Plural(len(g.going), "node", "")}
		for _, n := range g.going {
			if !n.Spec.Unschedulable || n.Annotations[CordonAnnotation] == "" {
				s.Nodes = append(s.Nodes, n.Name)
			}
		}
		d.step(s, len(s.Nodes) == 0)
	}
	for _, g := range groups {
		sizes := cloud.Sizes{Min: min(g.Sizes.Min, g.n), Max: g.Sizes.Max, Desired: g.Sizes.Desired}
		if g.Sizes.Min > g.n {
			d.step(Step{
				Action: LowerMinimum, Target: g.ID(), Group: g.Group, Sizes: sizes,
				What: fmt.Sprintf("minimum size %d instead of %d", sizes.Min, g.Sizes.Min),
			}, false)
		}
		for _, n := range inOrder(g) {
			d.step(Step{
				Action: MoveNode, Target: "Node/" + n.Name, Group: g.Group, Node: n.Name, ProviderID: n.Spec.ProviderID,
				What: fmt.Sprintf("drain it (%s), terminate %s, and lower %s to %d", english.Plural(d.moving(n.Name), "pod", ""),
					cloud.InstanceID(n.Spec.ProviderID), g.ID(), len(g.Nodes)-1-slices.Index(inOrder(g), n)),
			}, false)
		}
	}
	d.stay()
	d.await(groups)
	d.leaving()
}

// stay makes nodes schedulable that an earlier run has cordoned and that stay now, before the first node is drained.
func (d *decision) stay() {
	s := Step{Action: Uncordon, Target: "Nodes"}
	for _, g := range d.kept {
		for _, n := range g.staying {
			if cordonedByUs(n) == 1 {
				s.Nodes = append(s.Nodes, n.Name)
			}
		}
	}
	if len(s.Nodes) == 0 {
		return
	}
	s.What, s.State = "uncordon "+english.Plural(len(s.Nodes), "node", "")+" that stay now", Pending
	at := slices.IndexFunc(d.p.Steps, func(one Step) bool { return one.Action == MoveNode || one.Action == LowerMinimum })
	if at < 0 {
		at = len(d.p.Steps)
	}
	d.p.Steps = slices.Insert(d.p.Steps, at, s)
}

// await adds the groups that have instances without a Node: one that joins later would stay.
func (d *decision) await(groups []*kept) {
	for _, g := range groups {
		if more := len(g.Instances) - len(g.Nodes); more > 0 {
			d.step(Step{
				Action: Await, Target: g.ID(), Group: g.Group,
				What: fmt.Sprintf("wait until %s without a Node has joined the cluster, or is terminated", english.Plural(more, "instance", "")),
			}, false)
		}
	}
}

// leaving adds the nodes that an earlier run has terminated, if they still exist, and are no longer in a group.
func (d *decision) leaving() {
	for i := range d.f.Nodes {
		n := &d.f.Nodes[i]
		inGroup := slices.ContainsFunc(d.kept, func(g *kept) bool { return slices.Contains(g.Nodes, n) })
		if n.Annotations[CordonAnnotation] != "" && !inGroup {
			d.step(Step{
				Action: MoveNode, Target: "Node/" + n.Name, Node: n.Name, ProviderID: n.Spec.ProviderID,
				What: "wait until EC2 has terminated " + cloud.InstanceID(n.Spec.ProviderID),
			}, false)
		}
	}
}

// inOrder returns the nodes of a group that go, in an order in which the zones stay balanced: EC2 Auto Scaling launches and
// terminates instances by itself in a group whose zones are not
// (https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-benefits.html#AutoScalingBehavior.Rebalancing).
func inOrder(g *kept) []*corev1.Node {
	zones := map[string]int{}
	for _, n := range g.Nodes {
		zones[zoneOf(n)]++
	}
	rest := slices.Clone(g.going)
	ordered := make([]*corev1.Node, 0, len(rest))
	for len(rest) > 0 {
		next := slices.MinFunc(rest, func(a, b *corev1.Node) int {
			return cmp.Or(cmp.Compare(zones[zoneOf(b)], zones[zoneOf(a)]), strings.Compare(a.Name, b.Name))
		})
		zones[zoneOf(next)]--
		ordered = append(ordered, next)
		rest = slices.DeleteFunc(rest, func(n *corev1.Node) bool { return n == next })
	}
	return ordered
}
