package blocker

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// KeepReason is why Karpenter does not scale a node down, as one word.
type KeepReason string

// The reasons. Except for the last three, each is a fact of the definitions, the node or its pods.
const (
	KeptStatic         KeepReason = "StaticNodePool"
	KeptDisabled       KeepReason = "ConsolidationDisabled"
	KeptNotEmpty       KeepReason = "WhenEmpty"
	KeptConsolidate    KeepReason = "ConsolidateAfter"
	KeptNotInitialized KeepReason = "NotInitialized"
	KeptDoNotDisrupt   KeepReason = "DoNotDisrupt"
	KeptPDB            KeepReason = "PodDisruptionBudget"
	KeptBudget         KeepReason = "DisruptionBudget"
	// KeptUnschedulable is about pods that fit nowhere else, and KeptPrice about a replacement that would not be cheaper.
	KeptUnschedulable KeepReason = "FitsNowhereElse"
	KeptPrice         KeepReason = "NotCheaper"
	// KeptOther is any other report of Karpenter.
	KeptOther KeepReason = "Reported"
	// KeptUnknown is what could not be read.
	KeptUnknown KeepReason = "Unknown"
)

// Keep is one reason for which Karpenter does not scale a node down. Each keeps the node by itself.
type Keep struct {
	Reason KeepReason `json:"reason"`
	// Message is what keeps the node.
	Message string `json:"message"`
	// Fix is how to change that; empty if it passes, or depends on the cause.
	Fix string `json:"fix,omitempty"`
}

// Candidate is a running node, and what decides whether Karpenter scales it down, which is whether it consolidates it
// (sigs.k8s.io/karpenter pkg/controllers/disruption: types.go, NewCandidate; consolidation.go and emptiness.go,
// ShouldDisrupt, 1.15.0).
type Candidate struct {
	Claim *karpv1.NodeClaim
	// Node is nil if it has not registered, or was not read.
	Node *corev1.Node
	// Pool is its NodePool; nil if that does not exist, or was not read.
	Pool *karpv1.NodePool
	// Nodes is how many nodes of the NodePool are initialized, and Disrupted how many of these are not Ready or are being
	// terminated: they count against the disruption budgets.
	Nodes, Disrupted int
	// Pods are those of the node, and Budgets the PodDisruptionBudgets of their namespaces.
	Pods    []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
	// Unread is what could not be read, as phrases such as "pods".
	Unread []string
	Now    time.Time
}

// Keeps returns why Karpenter does not scale the node down now: first what the definitions decide, then the node and its
// pods, then what Karpenter reports. None means that nothing known keeps it: Karpenter scales it down once its pods fit on
// other nodes, or on one cheaper node.
func (c Candidate) Keeps() []Keep {
	if c.Pool != nil && c.Pool.Spec.Replicas != nil {
		return []Keep{{
			KeptStatic, fmt.Sprintf("NodePool/%s is static: it always has %s, and Karpenter never consolidates them",
				c.Pool.Name, english.Plural(int(*c.Pool.Spec.Replicas), "node", "")), "lower spec.replicas",
		}}
	}
	keeps := slices.Concat(c.byPool(), c.byNode(), c.byPods(), c.byBudgets())
	keeps = append(keeps, c.reported()...)
	if len(c.Unread) > 0 {
		keeps = append(keeps, Keep{
			KeptUnknown, "you are not allowed to read " + english.WordSeries(c.Unread, "and") + ", which may keep it", "",
		})
	}
	return keeps
}

// moving returns the pods that would have to be rescheduled: without them, a node is empty.
func (c Candidate) moving() []string {
	var names []string
	for i := range c.Pods {
		if podutil.IsReschedulable(&c.Pods[i]) {
			names = append(names, c.Pods[i].Namespace+"/"+c.Pods[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// empty reports whether no pod of the node would have to be rescheduled; known is false if its pods were not read.
func (c Candidate) empty() (empty, known bool) {
	return len(c.moving()) == 0, !slices.Contains(c.Unread, unreadPods)
}

// byPool returns what the consolidation settings of the NodePool decide.
func (c Candidate) byPool() []Keep {
	if c.Pool == nil {
		return nil
	}
	pool, spec := "NodePool/"+c.Pool.Name, c.Pool.Spec.Disruption
	if spec.ConsolidateAfter.Duration == nil {
		return []Keep{{
			KeptDisabled, pool + " has consolidateAfter: Never, which disables consolidation",
			"set spec.disruption.consolidateAfter to a duration",
		}}
	}
	var keeps []Keep
	if pods := c.moving(); spec.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty && len(pods) > 0 {
		keeps = append(keeps, Keep{
			KeptNotEmpty, fmt.Sprintf("%s has consolidationPolicy: WhenEmpty, and the node has %s besides those of DaemonSets: %s",
				pool, english.Plural(len(pods), "pod", ""), finding.Some(pods)),
			"set spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized",
		})
	}
	if idle, since := c.idleFrom(); idle.After(c.Now) {
		keeps = append(keeps, Keep{
			KeptConsolidate, fmt.Sprintf("%s has consolidateAfter: %s, and %s: the node can be consolidated from %s, "+
				"unless a pod is added or removed before", pool, plan.Short(*spec.ConsolidateAfter.Duration), since, plan.ClockTime(idle, c.Now)), "",
		})
	}
	return keeps
}

// idleFrom returns when consolidateAfter is over, and what it counts from; zero if the node is not initialized
// (IsUnderConsolidateAfter in sigs.k8s.io/karpenter pkg/utils/disruption/disruption.go, 1.15.0).
func (c Candidate) idleFrom() (at time.Time, since string) {
	initialized := c.Claim.StatusConditions().Get(karpv1.ConditionTypeInitialized)
	if !initialized.IsTrue() {
		return time.Time{}, ""
	}
	from, since := initialized.LastTransitionTime.Time, "the node was initialized at "
	if last := c.Claim.Status.LastPodEventTime; !last.IsZero() {
		from, since = last.Time, "a pod was added to it or removed from it at "
	}
	return from.Add(*c.Pool.Spec.Disruption.ConsolidateAfter.Duration), since + plan.ClockTime(from, c.Now)
}

// byNode returns what the node itself decides (ValidateNodeDisruptable in sigs.k8s.io/karpenter
// pkg/controllers/state/statenode.go, 1.15.0).
func (c Candidate) byNode() []Keep {
	var keeps []Keep
	if !c.Claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		keeps = append(keeps, Keep{KeptNotInitialized, "the node is not initialized: Karpenter never consolidates such a node", ""})
	}
	object, name := "nodeclaim", c.Claim.Name
	annotations := c.Claim.Annotations
	if c.Node != nil {
		object, name, annotations = "node", c.Node.Name, c.Node.Annotations
	}
	if annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		keeps = append(keeps, Keep{
			KeptDoNotDisrupt, fmt.Sprintf("%s %s is annotated %s: true", object, name, karpv1.DoNotDisruptAnnotationKey),
			fmt.Sprintf("kubectl annotate %s %s %s-", object, name, karpv1.DoNotDisruptAnnotationKey),
		})
	}
	return keeps
}

// byPods returns the pods that Karpenter may not evict (ValidatePodsDisruptable in sigs.k8s.io/karpenter
// pkg/controllers/state/statenode.go, and pkg/utils/pdb/pdb.go, 1.15.0). The annotation also counts on pods of DaemonSets
// and on static ones.
func (c Candidate) byPods() []Keep {
	var annotated, budgeted []Keep
	selectors := selectorsOf(c.Budgets)
	for i := range c.Pods {
		pod := &c.Pods[i]
		if !podutil.IsActive(pod) {
			continue
		}
		name := "pod " + pod.Namespace + "/" + pod.Name
		if words := undisrupted(pod, c.Now); words != "" {
			annotated = append(annotated, Keep{
				KeptDoNotDisrupt, name + strings.Replace(words, ",", " is", 1),
				fmt.Sprintf("kubectl annotate pod -n %s %s %s-", pod.Namespace, pod.Name, karpv1.DoNotDisruptAnnotationKey),
			})
			continue // it is not evicted, so its budget does not matter
		}
		if podutil.ToleratesDisruptedNoScheduleTaint(pod) || podutil.IsOwnedByNode(pod) {
			continue
		}
		if keep, kept := keptByBudget(pod, c.Budgets, selectors); kept {
			budgeted = append(budgeted, keep)
		}
	}
	return slices.Concat(shorten(annotated), shorten(budgeted))
}

// maxKeeps limits how many pods are named for the same reason.
const maxKeeps = 5

// shorten sorts reasons by their message, and summarizes all but the first few.
func shorten(keeps []Keep) []Keep {
	slices.SortFunc(keeps, func(a, b Keep) int { return cmp.Compare(a.Message, b.Message) })
	if more := len(keeps) - maxKeeps; more > 0 {
		rest := Keep{Reason: keeps[0].Reason, Message: english.Plural(more, "more pod", "") + " for the same reason"}
		return append(keeps[:maxKeeps:maxKeeps], rest)
	}
	return keeps
}

// selectorsOf returns the selector of each budget; nil for an invalid one, or none.
func selectorsOf(budgets []policyv1.PodDisruptionBudget) []labels.Selector {
	selectors := make([]labels.Selector, len(budgets))
	for i := range budgets {
		if selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector); err == nil && budgets[i].Spec.Selector != nil {
			selectors[i] = selector
		}
	}
	return selectors
}

// keptByBudget returns the PodDisruptionBudgets that do not allow the eviction of a pod: the only one if it allows no
// disruption, or several, because the API server evicts no pod that more than one selects.
func keptByBudget(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget, selectors []labels.Selector) (Keep, bool) {
	var of []*policyv1.PodDisruptionBudget
	var names []string
	for i := range budgets {
		if budgets[i].Namespace == pod.Namespace && selectors[i] != nil && selectors[i].Matches(labels.Set(pod.Labels)) {
			of, names = append(of, &budgets[i]), append(names, budgets[i].Namespace+"/"+budgets[i].Name)
		}
	}
	name := "pod " + pod.Namespace + "/" + pod.Name
	switch {
	case len(of) > 1:
		return Keep{
			KeptPDB, fmt.Sprintf("%s is selected by %d PodDisruptionBudgets (%s): the API server does not evict such a pod",
				name, len(of), finding.Some(names)), "let only one PodDisruptionBudget select it",
		}, true
	case len(of) == 0 || of[0].Status.DisruptionsAllowed > 0 || evictedUnhealthy(pod, of[0]):
		return Keep{}, false
	}
	return Keep{
		KeptPDB, fmt.Sprintf("PodDisruptionBudget %s allows no disruption%s of %s", names[0], numbers(of[0].Status), name),
		"run more replicas than the PodDisruptionBudget requires, or lower what it requires",
	}, true
}

// evictedUnhealthy reports whether a budget lets a pod be evicted because the pod is not Ready.
func evictedUnhealthy(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool {
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}

// byBudgets returns the reasons of consolidation for which the disruption budgets of the NodePool allow no further node
// now.
func (c Candidate) byBudgets() []Keep {
	if c.Pool == nil || c.Pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
		return nil
	}
	reasons := []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized}
	switch empty, known := c.empty(); {
	case known && empty:
		reasons[0] = karpv1.DisruptionReasonEmpty
	case !known:
		reasons = append(reasons, karpv1.DisruptionReasonEmpty)
	}
	var keeps []Keep
	for _, reason := range reasons {
		allowed := plan.AllowedFor(c.Pool, reason, c.Nodes, c.Now)
		words := fmt.Sprintf("the disruption budgets of NodePool/%s", c.Pool.Name)
		switch {
		case allowed.Unreadable:
			words += " contain one that cannot be parsed: Karpenter disrupts no node"
		case allowed.Now == 0 && allowed.At.IsZero():
			words += fmt.Sprintf(" allow no node for reason %s", reason)
		case allowed.Now == 0:
			words += fmt.Sprintf(" allow no node for reason %s until %s", reason, plan.ClockTime(allowed.At, c.Now))
		case allowed.Now <= c.Disrupted:
			words += fmt.Sprintf(" allow %s for reason %s, and %d of its %s %s not Ready or being terminated",
				english.Plural(allowed.Now, "node", ""), reason, c.Disrupted, english.Plural(c.Nodes, "node", ""),
				english.PluralWord(c.Disrupted, "is", "are"))
		default:
			continue
		}
		keeps = append(keeps, Keep{Reason: KeptBudget, Message: words, Fix: "change spec.disruption.budgets, if it is not to wait"})
	}
	return keeps
}

// The reasons of the events in which Karpenter reports why it does not consolidate a node (sigs.k8s.io/karpenter
// pkg/events/reason.go, 1.15.0).
const (
	unconsolidatable      = "Unconsolidatable"
	consolidationRejected = "ConsolidationRejected"
)

// consolidationRepeated is the maximum age of such an event that still applies: Karpenter repeats Unconsolidatable every
// 15 minutes while it applies (pkg/controllers/disruption/events/events.go there), and evaluates all nodes every five.
const consolidationRepeated = 20 * time.Minute

// maxReport limits the length of a report of Karpenter, in bytes.
const maxReport = 600

// explained are Karpenter's messages on consolidation, by a part of them.
var explained = []struct {
	part   string
	reason KeepReason
	fix    string
}{
	{
		"Not all pods would schedule", KeptUnschedulable,
		"compare their node selectors, affinities, topology spread and requests with the other nodes and NodePools",
	},
	{
		"Can't remove without creating", KeptUnschedulable,
		"its pods fit on no other node and on no single new one: lower their requests, or allow larger instance types",
	},
	{
		"Can't replace with a cheaper node", KeptPrice,
		"its pods fit on no other node, and a node for them would cost as much: lower their requests, or allow cheaper instance types",
	},
	{"Filtering by price", KeptPrice, "lower minValues in the requirements of the NodePool, or allow cheaper instance types"},
	{"SpotToSpotConsolidation is disabled", KeptPrice, "set values.settings.featureGates.spotToSpotConsolidation: true"},
	{"SpotToSpotConsolidation requires", KeptPrice, "allow more instance types in the requirements of the NodePool"},
	{"has buffer pods", KeptOther, "lower the CapacityBuffer whose capacity the node has"},
}

// podFailed finds the pods in Karpenter's list of those that it cannot schedule (NonPendingPodSchedulingErrors in
// sigs.k8s.io/karpenter pkg/controllers/provisioning/scheduling/scheduler.go, 1.15.0).
var podFailed = regexp.MustCompile(`([a-z0-9-]+/[a-z0-9.-]+) => `)

// reported returns Karpenter's last report on why it does not consolidate the node, and why it disrupts it for no reason
// at all, unless other reasons explain it already or it no longer applies.
func (c Candidate) reported() []Keep {
	events := slices.Clone(c.Events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return reportedAt(&a).Compare(reportedAt(&b)) })
	var keeps []Keep
	var found, blocked bool
	for i := range slices.Backward(events) {
		e := &events[i]
		switch {
		case !found && (e.Reason == unconsolidatable || e.Reason == consolidationRejected) && c.applies(e):
			found = true
			keeps = append(keeps, c.explain(e))
		case !blocked && blocksDrift(e) && c.blocks(e):
			blocked = true
			keeps = append(keeps, Keep{Reason: KeptOther, Message: "Karpenter reports: " + quoted(e, c.Now)})
		}
	}
	return keeps
}

// applies reports whether an event on consolidation is about the node as it is now. What the definitions decide is read
// from them.
func (c Candidate) applies(e *corev1.Event) bool {
	if strings.Contains(e.Message, "has consolidation disabled") || strings.Contains(e.Message, "has consolidation policy WhenEmpty") {
		return false
	}
	pods := podFailed.FindAllStringSubmatch(e.Message, -1)
	if len(pods) == 0 || slices.Contains(c.Unread, unreadPods) {
		return true
	}
	moving := c.moving()
	return slices.ContainsFunc(pods, func(named []string) bool { return slices.Contains(moving, named[1]) })
}

// explain returns an event on consolidation as a reason.
func (c Candidate) explain(e *corev1.Event) Keep {
	keep := Keep{Reason: KeptOther, Message: "Karpenter reports: " + strings.TrimSuffix(finding.Bounded(e.Message, maxReport), ".")}
	if at := reportedAt(e); !at.IsZero() && c.Now.Sub(at) > consolidationRepeated {
		keep.Message += fmt.Sprintf(" (last reported at %s)", at.UTC().Format(time.RFC3339))
	}
	for _, one := range explained {
		if strings.Contains(e.Message, one.part) {
			keep.Reason, keep.Fix = one.reason, one.fix
			break
		}
	}
	return keep
}

// blocks reports whether a report that Karpenter does not disrupt the node is recent, and about something that the objects
// do not show.
func (c Candidate) blocks(e *corev1.Event) bool {
	if at := reportedAt(e); !at.IsZero() && c.Now.Sub(at) > repeatedWithin {
		return false
	}
	shown := []string{uninitialized, noNode}
	if _, known := c.empty(); known {
		shown = append(shown, karpv1.DoNotDisruptAnnotationKey, "PodDisruptionBudget")
	}
	return !slices.ContainsFunc(shown, func(part string) bool { return strings.Contains(e.Message, part) })
}

// What ReadCandidate may be unable to read.
const (
	unreadPool   = "NodePools"
	unreadNodes  = "Nodes"
	unreadPods   = "pods"
	unreadPDBs   = "PodDisruptionBudgets"
	unreadEvents = "events"
)

// ReadCandidate reads what decides whether Karpenter scales down the node of a NodeClaim. claims are all NodeClaims. What
// the user may not read is in Unread. Errors: those of the API server.
func ReadCandidate(
	ctx context.Context, reader client.Reader, claim *karpv1.NodeClaim, claims []karpv1.NodeClaim, now time.Time,
) (Candidate, error) {
	r := candidateReader{Reader: reader, c: Candidate{Claim: claim, Now: now}}
	r.pool(ctx)
	r.nodes(ctx, claims)
	if claim.Status.NodeName != "" {
		r.pods(ctx)
	}
	for _, name := range []string{claim.Name, claim.Status.NodeName} {
		events := &corev1.EventList{}
		about := client.MatchingFields{"involvedObject.name": name}
		if name != "" && r.read(unreadEvents, reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), about)) {
			r.c.Events = append(r.c.Events, events.Items...)
		}
	}
	return r.c, r.err
}

// candidateReader reads a Candidate, up to the first error.
type candidateReader struct {
	client.Reader
	c   Candidate
	err error
}

// read returns whether something was read. What may not be read is recorded, and what does not exist is not.
func (r *candidateReader) read(what string, err error) bool {
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		if !slices.Contains(r.c.Unread, what) {
			r.c.Unread = append(r.c.Unread, what)
		}
	case !apierrors.IsNotFound(err) && r.err == nil:
		r.err = fmt.Errorf("read %s: %w", what, err)
	}
	return false
}

// pool reads the NodePool.
func (r *candidateReader) pool(ctx context.Context) {
	ref := render.Ref{Kind: render.NodePool, Name: r.c.Claim.Labels[karpv1.NodePoolLabelKey]}
	object := ref.Empty() // the command line's scheme does not have the type
	if !r.read(unreadPool, r.Get(ctx, ref.Key(), object)) {
		return
	}
	pool := &karpv1.NodePool{}
	if r.read(unreadPool, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pool)) {
		r.c.Pool = pool
	}
}

// nodes reads the node, and counts those of its NodePool as Karpenter does for disruption budgets (NodePoolStatsFromNodes
// in sigs.k8s.io/karpenter pkg/controllers/disruption/helpers.go, 1.15.0).
func (r *candidateReader) nodes(ctx context.Context, claims []karpv1.NodeClaim) {
	pool := r.c.Claim.Labels[karpv1.NodePoolLabelKey]
	list := &corev1.NodeList{}
	listed := r.read(unreadNodes, r.List(ctx, list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}))
	ready := map[string]bool{}
	for i := range list.Items {
		node := &list.Items[i]
		ready[node.Name] = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if node.Name == r.c.Claim.Status.NodeName {
			r.c.Node = node
		}
	}
	for i := range claims {
		claim := &claims[i]
		initialized := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue()
		if claim.Labels[karpv1.NodePoolLabelKey] != pool || !initialized || Terminating(claim) {
			continue
		}
		r.c.Nodes++
		if claim.DeletionTimestamp != nil || listed && !ready[claim.Status.NodeName] {
			r.c.Disrupted++
		}
	}
}

// pods reads those of the node, and the PodDisruptionBudgets of their namespaces.
func (r *candidateReader) pods(ctx context.Context) {
	pods := &corev1.PodList{}
	if !r.read(unreadPods, r.List(ctx, pods, client.MatchingFields{"spec.nodeName": r.c.Claim.Status.NodeName})) {
		return
	}
	r.c.Pods = pods.Items
	namespaces := map[string]bool{}
	for i := range r.c.Pods {
		namespace := r.c.Pods[i].Namespace
		if namespaces[namespace] {
			continue
		}
		namespaces[namespace] = true
		budgets := &policyv1.PodDisruptionBudgetList{}
		if r.read(unreadPDBs, r.List(ctx, budgets, client.InNamespace(namespace))) {
			r.c.Budgets = append(r.c.Budgets, budgets.Items...)
		}
	}
}
