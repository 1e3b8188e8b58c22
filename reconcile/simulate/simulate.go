package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Run returns where pods would be scheduled. Within one simulation, Karpenter counts each new node against the limits
// of its pool as the largest possible instance type, and leaves the pods that do not fit for later. Therefore Run, like
// Lands, repeats the simulation with the new nodes as the smallest possible ones, until every pod is scheduled, or a
// round launches no node.
func Run(ctx context.Context, c *Capture, commit Commit, offers Offers) (*Outcome, error) {
	return run(ctx, c, commit, offers, relevantPart)
}

// run is Run with the part of each Capture that is simulated.
func run(ctx context.Context, c *Capture, commit Commit, offers Offers, of parting) (*Outcome, error) {
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	before, err := newWorld(ctx, c, c.Definitions, offers, nil, of)
	if err != nil {
		return nil, fmt.Errorf("the cluster as it is: %w", err)
	}
	s := &simulation{capture: c, commit: commit, of: of, before: before, fresh: map[string]*NewNodes{}}
	if err := s.land(ctx, offers); err != nil {
		return nil, err
	}
	if err := s.repeat(ctx, offers); err != nil {
		return nil, err
	}
	s.unlaunchable(ctx, offers.Region())
	s.price(ctx, offers)
	s.note()
	return s.out, nil
}

// land simulates the cluster after the commit.
func (s *simulation) land(ctx context.Context, offers Offers) (err error) {
	definitions, unknown, notes := ready(s.capture.Definitions, s.commit.Definitions)
	if s.after, err = newWorld(ctx, s.capture, definitions, offers, s.commit.Touched, s.of); err != nil {
		return fmt.Errorf("the cluster after the commit: %w", err)
	}
	s.out = &Outcome{}
	for _, u := range unknown {
		s.out.undecided(u.pool, u.why())
		s.out.Unknown = append(s.out.Unknown, fmt.Sprintf("unavailable: NodePool/%s gets no pods in this simulation: %s", u.pool, u.why()))
	}
	s.out.Notes = slices.Concat(s.out.Unknown, notes)
	return s.scheduleOnce(ctx)
}

// simulation is a simulation in progress.
type simulation struct {
	capture *Capture
	commit  Commit
	of      parting
	// before is nil if it is not needed.
	before, after *world
	out           *Outcome
	// pools are the pools of nodes, by the node's name. touched are the nodes that the commit terminates.
	pools   map[string]string
	touched map[string]bool
	results scheduling.Results
	// fresh are the nodes that earlier rounds have launched, by name.
	fresh map[string]*NewNodes
}

// repeat continues the simulation with the launched nodes, and adds the results of later rounds.
func (s *simulation) repeat(ctx context.Context, offers Offers) error {
	last := s
	for round := 1; len(last.out.Nowhere) > 0 && len(last.results.NewNodeClaims) > 0; round++ {
		if round == maxRounds {
			s.out.Notes = append(s.out.Notes,
				fmt.Sprintf("the simulation stopped after %d rounds with %d more pods not scheduled yet", maxRounds, len(last.out.Nowhere)))
			s.out.Nowhere = nil
			break
		}
		next := &simulation{capture: last.launched(), commit: s.commit, of: s.of, before: s.before, fresh: s.fresh}
		if err := next.land(ctx, offers); err != nil {
			return err
		}
		s.out.Moves, s.out.Placed = append(s.out.Moves, next.out.Moves...), append(s.out.Placed, next.out.Placed...)
		s.out.Nowhere = next.out.Nowhere
		last = next
	}
	s.out.Moves = summed(s.out.Moves)
	s.sort()
	s.out.Buffers = last.buffers()
	s.launches(last.results.NewNodeClaims)
	return nil
}

// summed merges equal moves.
func summed(moves []Move) []Move {
	counts := map[Move]int{}
	for _, move := range moves {
		pods := move.Pods
		move.Pods = 0
		counts[move] += pods
	}
	var all []Move
	for move, n := range counts {
		move.Pods = n
		all = append(all, move)
	}
	slices.SortFunc(all, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(fmt.Sprint(a.New), fmt.Sprint(b.New)))
	})
	return all
}

// scheduleOnce simulates, and sorts pods by their result.
func (s *simulation) scheduleOnce(ctx context.Context) error {
	s.nodes()
	leaving, err := s.leaving(ctx)
	if err != nil {
		return err
	}
	pending, err := s.pending(ctx)
	if err != nil {
		return err
	}
	results, err := s.after.schedule(ctx)
	switch {
	case errors.Is(err, provisioning.ErrNodePoolsNotFound):
		s.none(leaving, pending, err)
		return nil
	case err != nil:
		return fmt.Errorf("simulate the scheduling: %w", err)
	}
	s.results = results
	placed := s.moves()
	s.countUnschedulable(ctx, leaving, pending, placed)
	return nil
}

// nodes finds the pool of each node, and the nodes that are terminated.
func (s *simulation) nodes() {
	s.pools, s.touched = map[string]string{}, map[string]bool{}
	for i := range s.capture.Nodes {
		node := &s.capture.Nodes[i]
		s.pools[node.Name] = node.Labels[karpv1.NodePoolLabelKey]
	}
	for i := range s.capture.NodeClaims {
		claim := &s.capture.NodeClaims[i]
		if s.commit.Touched[claim.UID] {
			s.out.Ending++
			s.touched[claim.Status.NodeName] = claim.Status.NodeName != ""
		}
	}
}

// leaving returns the pods on terminated nodes that would be rescheduled now. It records those that may not be evicted.
func (s *simulation) leaving(ctx context.Context) (map[client.ObjectKey]*corev1.Pod, error) {
	limits, err := pdb.NewLimits(ctx, s.after.client)
	if err != nil {
		return nil, fmt.Errorf("read the PodDisruptionBudgets: %w", err)
	}
	found := map[client.ObjectKey]*corev1.Pod{}
	for i := range s.capture.Pods {
		pod := &s.capture.Pods[i]
		if !s.touched[pod.Spec.NodeName] || !podutil.IsReschedulable(pod) {
			continue
		}
		if limits.IsCurrentlyReschedulable(pod, s.after.clock, s.after.recorder) {
			found[client.ObjectKeyFromObject(pod)] = pod
			continue
		}
		why := "a PodDisruptionBudget never allows its eviction"
		if !podutil.IsDisruptable(pod, s.after.clock, s.after.recorder) {
			why = karpv1.DoNotDisruptAnnotationKey
		}
		s.out.Staying = append(s.out.Staying, Blocked{Pod: client.ObjectKeyFromObject(pod).String(), Node: pod.Spec.NodeName, Why: why})
	}
	s.out.Leaving = len(found)
	return found, nil
}

// pending returns the pods that are pending today, with the reason why they would stay so; empty for those that can be
// scheduled without the commit.
func (s *simulation) pending(ctx context.Context) (map[client.ObjectKey]string, error) {
	waiting := map[client.ObjectKey]string{}
	if s.before == nil {
		return waiting, nil
	}
	for i := range s.capture.Pods {
		if pod := &s.capture.Pods[i]; podutil.IsProvisionable(pod) {
			waiting[client.ObjectKeyFromObject(pod)] = ""
		}
	}
	if len(waiting) == 0 {
		return waiting, nil
	}
	results, err := s.before.schedule(ctx)
	if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
		for key := range waiting {
			waiting[key] = err.Error()
		}
		return waiting, nil
	}
	if err != nil {
		return nil, fmt.Errorf("simulate the scheduling of pending pods: %w", err)
	}
	for pod, why := range failures(results) {
		if _, ok := waiting[client.ObjectKeyFromObject(pod)]; ok {
			waiting[client.ObjectKeyFromObject(pod)] = why.Error()
		}
	}
	for key, why := range s.before.recorder.said {
		if _, ok := waiting[key]; ok && waiting[key] == "" {
			waiting[key] = why
		}
	}
	return waiting, nil
}

// failures returns the unschedulable pods. A pod that waits for a node that is starting is not one.
func failures(results scheduling.Results) map[*corev1.Pod]error {
	found := map[*corev1.Pod]error{}
	for pod, err := range results.PodErrors {
		var coming *disruption.UninitializedNodeError
		if !errors.As(err, &coming) {
			found[pod] = err
		}
	}
	return found
}

// none makes every pod unschedulable, because no pool is left.
func (s *simulation) none(leaving map[client.ObjectKey]*corev1.Pod, pending map[client.ObjectKey]string, err error) {
	for key, pod := range leaving {
		s.out.Nowhere = append(s.out.Nowhere,
			Stranded{Pod: key.String(), Workload: workloadOf(pod), Pool: s.pools[pod.Spec.NodeName], Node: pod.Spec.NodeName, Reason: err.Error()})
	}
	for key, why := range pending {
		s.out.Nowhere = append(s.out.Nowhere, Stranded{Pod: key.String(), Already: why != "", Reason: err.Error()})
	}
	s.out.Notes = append(s.out.Notes,
		"no NodePool is left that can launch nodes: only kube-scheduler decides which pods fit on the remaining nodes, so nothing is simulated")
	s.sort()
}

func (s *simulation) sort() {
	slices.SortFunc(s.out.Nowhere, func(a, b Stranded) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.Sort(s.out.Placed)
}

// world is a Capture with some definitions, in the form in which Karpenter's controller would hold it.
type world struct {
	client   *CaptureClient
	cloud    cloudprovider.CloudProvider
	cluster  *state.Cluster
	clock    *clocktesting.FakeClock
	recorder *recorder
	bare     *provider
	// alike serves the instance types to the scheduler; nil if it gets all of them.
	alike *alike
	// placeholders are the pods that CapacityBuffers keep capacity for.
	placeholders placeholders
}

// newWorld loads the part of a Capture into Karpenter's own cluster state that decides where pods are scheduled. Nodes
// of touched NodeClaims are marked for deletion, which is how Karpenter treats those of a deleted pool.
func newWorld(
	ctx context.Context, c *Capture, definitions []map[string]any, offers Offers, touched map[types.UID]bool, of parting,
) (*world, error) {
	buffered, err := placeholdersOf(ctx, c, definitions)
	if err != nil {
		return nil, err
	}
	p, under := of(c, touched, buffered.pods), *c
	under.Definitions, under.Budgets = p.limits(definitions), p.budgets(c.Budgets)
	served, err := NewCaptureClient(&under)
	if err != nil {
		return nil, err
	}
	bare := &provider{client: served, offers: offers, known: map[string][]*cloudprovider.InstanceType{}, failed: map[string]error{}}
	w := &world{
		client: served, bare: bare, placeholders: buffered, clock: clocktesting.NewFakeClock(c.TakenAt),
		recorder: &recorder{said: map[types.NamespacedName]string{}, unmet: map[string]*karpv1.NodePool{}},
	}
	store := nodeoverlay.NewInstanceTypeStore()
	w.cloud = overlay.Decorate(bare, served, store)
	w.cluster = state.NewCluster(w.clock, served, w.cloud)
	if err := w.fill(ctx, c, touched, p.without); err != nil {
		return nil, err
	}
	if !p.whole {
		if w.alike, err = w.newAlike(ctx, c, p.moving); err != nil {
			return nil, err
		}
	}
	if c.Settings.NodeOverlay {
		// A pool whose class is unknown results in an error, but the others are evaluated anyway.
		_, _ = nodeoverlay.NewController(w.clock, served, bare, store, w.cluster).Reconcile(ctx, reconcile.Request{})
	}
	return w, nil
}

func (w *world) fill(ctx context.Context, c *Capture, touched map[types.UID]bool, without map[string]bool) error {
	var ending []string
	for i := range c.NodeClaims {
		if without[c.NodeClaims[i].Status.ProviderID] {
			continue
		}
		claim := c.NodeClaims[i].DeepCopy()
		w.cluster.UpdateNodeClaim(claim)
		if touched[claim.UID] && claim.Status.ProviderID != "" {
			ending = append(ending, claim.Status.ProviderID)
		}
	}
	for i := range c.Nodes {
		if without[c.Nodes[i].Spec.ProviderID] {
			continue
		}
		if err := w.cluster.UpdateNode(ctx, c.Nodes[i].DeepCopy()); err != nil {
			return fmt.Errorf("node %s: %w", c.Nodes[i].Name, err)
		}
	}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.NodeName == "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			continue // already counted with its node
		}
		// A pod on a node that does not exist does not count.
		if err := w.cluster.UpdatePod(ctx, pod); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for i := range c.DaemonSets {
		if err := w.cluster.UpdateDaemonSet(ctx, &c.DaemonSets[i]); err != nil {
			return fmt.Errorf("daemonset %s/%s: %w", c.DaemonSets[i].Namespace, c.DaemonSets[i].Name, err)
		}
	}
	w.cluster.MarkForDeletion(ending...)
	return nil
}

// schedule runs Karpenter's simulation. The terminated nodes are marked for deletion rather than candidates: Karpenter
// omits a candidate that a PodDisruptionBudget currently blocks.
func (w *world) schedule(ctx context.Context) (scheduling.Results, error) {
	cloud := w.cloud
	if w.alike != nil {
		cloud = w.alike
	}
	provisioner := provisioning.NewProvisioner(w.client, w.recorder, cloud, w.cluster, w.clock, nil, w.placeholders.cache)
	results, err := disruption.SimulateScheduling(ctx, w.client, w.cluster, provisioner, w.clock, w.recorder, nil, disruption.SimulationOptions{})
	if err != nil || w.alike == nil {
		return results, err
	}
	return w.alike.expand(ctx, results), nil
}

// observe makes the offers learn the memory of instance types from running nodes.
func observe(ctx context.Context, c *Capture, offers Offers) error {
	served, err := NewCaptureClient(c)
	if err != nil {
		return err
	}
	for i := range c.NodeClaims {
		claim, node, class := &c.NodeClaims[i], &corev1.Node{}, &awsv1.EC2NodeClass{}
		if claim.Spec.NodeClassRef == nil || render.ClassOfAutoMode(claim.Spec.NodeClassRef.Group) ||
			served.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node) != nil ||
			served.Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class) != nil ||
			node.Labels[karpv1.NodeRegisteredLabelKey] != "true" || !plan.Hashable(class) {
			continue
		}
		if err := offers.Observe(ctx, node, claim, class); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return nil
}

// with sets Karpenter's settings where its library reads them, and discards its logs.
func with(ctx context.Context, s Settings) context.Context {
	ctx = log.IntoContext(ctx, logr.Discard())
	o := &options.Options{
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict, IgnoreDRARequests: true,
		CPURequests: 1000, FeatureGates: options.FeatureGates{
			ReservedCapacity: true, NodeOverlay: s.NodeOverlay, StaticCapacity: true, CapacityBuffer: s.CapacityBuffer,
		},
	}
	if s.IgnorePreferences {
		o.PreferencePolicy = options.PreferencePolicyIgnore
	}
	if s.RelaxMinValues {
		o.MinValuesPolicy = options.MinValuesPolicyBestEffort
	}
	return options.ToContext(ctx, o)
}

// forced returns the cluster in which pods that may not be evicted are deleted anyway, if Karpenter deletes them after
// the terminationGracePeriod of their node (https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod).
// They must be rescheduled like the others.
func forced(c *Capture, touched map[types.UID]bool) *Capture {
	ends := map[string]bool{}
	for i := range c.NodeClaims {
		if claim := &c.NodeClaims[i]; touched[claim.UID] && claim.Spec.TerminationGracePeriod != nil {
			ends[claim.Status.NodeName] = claim.Status.NodeName != ""
		}
	}
	if len(ends) == 0 {
		return c
	}
	free := *c
	free.Pods = slices.Clone(c.Pods)
	var some []*corev1.Pod
	for i := range free.Pods {
		pod := &free.Pods[i]
		if !ends[pod.Spec.NodeName] {
			continue
		}
		some = append(some, pod)
		pod.Annotations = maps.Clone(pod.Annotations)
		delete(pod.Annotations, karpv1.DoNotDisruptAnnotationKey)
	}
	free.Budgets = slices.DeleteFunc(slices.Clone(c.Budgets), func(b policyv1.PodDisruptionBudget) bool {
		return slices.ContainsFunc(some, func(pod *corev1.Pod) bool { return guards(b, pod) })
	})
	return &free
}

// guards reports whether a PodDisruptionBudget selects a pod.
func guards(budget policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels))
}

// launched returns the cluster after the nodes of a simulation are launched, each as the smallest possible one, with
// the scheduled pods running on them: these count for topology spread and anti-affinity, and use the node's resources.
// A pod whose node is still starting stays where it is.
func (s *simulation) launched() *Capture {
	next := *s.capture
	next.NodeClaims, next.Nodes = slices.Clone(next.NodeClaims), slices.Clone(next.Nodes)
	at := map[client.ObjectKey]string{}
	runs := func(pods []*corev1.Pod, node string) {
		for _, pod := range pods {
			at[client.ObjectKeyFromObject(pod)] = node
		}
	}
	for _, existing := range s.results.ExistingNodes {
		if existing.Node != nil {
			runs(existing.Pods, existing.Node.Name)
		}
	}
	for _, claim := range s.results.NewNodeClaims {
		if made, node, comes := launch(claim, fmt.Sprint("what-if-", len(next.Nodes))); comes {
			next.NodeClaims, next.Nodes = append(next.NodeClaims, made), append(next.Nodes, node)
			if s.fresh != nil {
				s.fresh[node.Name] = newNodes(claim)
			}
			runs(claim.Pods, node.Name)
		}
	}
	next.Pods = slices.Clone(next.Pods)
	for i := range next.Pods {
		pod := &next.Pods[i]
		if node, runs := at[client.ObjectKeyFromObject(pod)]; runs {
			pod.Spec.NodeName, pod.Status = node, corev1.PodStatus{Phase: corev1.PodRunning}
		}
	}
	return &next
}

// launch returns a new node as the smallest of its pool's instance types that has an offering, with the labels that
// Karpenter sets.
func launch(claim *scheduling.NodeClaim, name string) (karpv1.NodeClaim, corev1.Node, bool) {
	var of *cloudprovider.InstanceType
	for _, t := range claim.InstanceTypeOptions {
		if len(t.Offerings.Launchable().Compatible(claim.Requirements)) > 0 && (of == nil || smaller(t, of)) {
			of = t
		}
	}
	if of == nil {
		return karpv1.NodeClaim{}, corev1.Node{}, false
	}
	labels := maps.Clone(claim.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, requirements := range []karpscheduling.Requirements{claim.Requirements, of.Requirements, of.Offerings.Launchable().Compatible(claim.Requirements).Cheapest().Requirements} {
		for key, r := range requirements {
			if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
				labels[key] = r.Any()
			}
		}
	}
	labels[corev1.LabelHostname], labels[karpv1.NodePoolLabelKey] = name, claim.NodePoolName
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	object, provider := metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}, "what-if:///"+name
	made := karpv1.NodeClaim{ObjectMeta: object, Spec: karpv1.NodeClaimSpec{NodeClassRef: claim.Spec.NodeClassRef, Taints: claim.Spec.Taints}}
	made.Status = karpv1.NodeClaimStatus{ProviderID: provider, NodeName: name, Capacity: of.Capacity, Allocatable: of.Allocatable()}
	node := corev1.Node{ObjectMeta: object, Spec: corev1.NodeSpec{ProviderID: provider, Taints: claim.Spec.Taints}}
	node.Status = corev1.NodeStatus{
		Capacity: of.Capacity, Allocatable: of.Allocatable(),
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	return made, node, true
}

// smaller reports whether an instance type has less CPU than another, or the same and less memory.
func smaller(a, b *cloudprovider.InstanceType) bool {
	less := func(name corev1.ResourceName) int {
		has := a.Capacity[name]
		return has.Cmp(b.Capacity[name])
	}
	return cmp.Or(less(corev1.ResourceCPU), less(corev1.ResourceMemory), cmp.Compare(a.Name, b.Name)) < 0
}

// maxRounds is the maximum number of rounds.
const maxRounds = 20

// Lands reports whether the rescheduled pods can be scheduled. It returns nothing about pods that are already pending,
// or about prices, and needs half the memory.
//
// Within one simulation, Karpenter counts a new node against the limits of its pool as the largest possible instance
// type, and one that may be launched in several zones as being in each of them. It retries unschedulable pods once it
// knows what was launched. Lands does the same: it assumes that the smallest instance type was launched, in its
// cheapest zone. Pods that cannot be scheduled in a round without a new node are unschedulable.
//
// CapacityBuffers do not count: kube-scheduler gives the capacity that they keep to pods.
func Lands(ctx context.Context, all *Capture, commit Commit, offers Offers) (*Outcome, error) {
	unbuffered := *all
	unbuffered.Settings.CapacityBuffer = false
	c := &unbuffered
	ctx = with(ctx, c.Settings)
	if err := observe(ctx, c, offers); err != nil {
		return nil, err
	}
	c = forced(c, commit.Touched)
	room, err := roomOf(commit.Definitions, c)
	if err != nil {
		return nil, err
	}
	for round := 1; ; round++ {
		s := &simulation{capture: c, commit: commit, of: relevantPart}
		s.commit.Definitions = room.within(commit.Definitions)
		if err := s.land(ctx, offers); err != nil {
			return nil, err
		}
		if len(s.out.Nowhere) == 0 || len(s.results.NewNodeClaims) == 0 || round == maxRounds {
			s.unlaunchable(ctx, offers.Region())
			return s.out, nil
		}
		c = s.launched()
	}
}

// rooms are what is left within the limits of pools, by name; pools without limits are omitted.
type rooms map[string]map[string]resource.Quantity

// oneNode is how much each node counts against a limit of nodes.
var oneNode = corev1.ResourceList{resources.Node: resource.MustParse("1")}

// roomOf returns what is left within the limits of NodePools, without the nodes of a Capture, which Karpenter counts
// itself: if a Capture has only some nodes, the others are only known from the status.
func roomOf(definitions []map[string]any, c *Capture) (rooms, error) {
	found, counted := rooms{}, map[string]corev1.ResourceList{}
	for i := range c.Nodes {
		pool := c.Nodes[i].Labels[karpv1.NodePoolLabelKey]
		counted[pool] = resources.Merge(counted[pool], c.Nodes[i].Status.Capacity, oneNode)
	}
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		limits, limited, _ := unstructured.NestedMap(definition, "spec", "limits")
		if object.GetKind() != render.NodePool || !limited {
			continue
		}
		used, _, _ := unstructured.NestedMap(definition, "status", "resources")
		left := map[string]resource.Quantity{}
		for name, limit := range limits {
			l, ok := quantity(limit)
			if !ok {
				return nil, fmt.Errorf("the limits of NodePool/%s: %s is %v, which is not a quantity", object.GetName(), name, limit)
			}
			if u, known := quantity(used[name]); known {
				if u.Sub(counted[object.GetName()][corev1.ResourceName(name)]); u.Sign() > 0 {
					l.Sub(u)
				}
			}
			left[name] = l
		}
		found[object.GetName()] = left
	}
	return found, nil
}

// within returns the definitions with what is left as their limits.
func (r rooms) within(definitions []map[string]any) []map[string]any {
	var found []map[string]any
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		if left, limited := r[object.GetName()]; limited && object.GetKind() == render.NodePool {
			limits := map[string]any{}
			for name, quantity := range left {
				if quantity.Sign() < 0 {
					quantity = resource.Quantity{}
				}
				limits[name] = quantity.String()
			}
			definition = object.DeepCopy().Object
			_ = unstructured.SetNestedMap(definition, limits, "spec", "limits")
		}
		found = append(found, definition)
	}
	return found
}

func quantity(value any) (resource.Quantity, bool) {
	switch v := value.(type) {
	case string:
		q, err := resource.ParseQuantity(v)
		return q, err == nil
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), true
	case float64: // from a file that was read as JSON
		q, err := resource.ParseQuantity(strconv.FormatFloat(v, 'f', -1, 64))
		return q, err == nil
	}
	return resource.Quantity{}, false
}
