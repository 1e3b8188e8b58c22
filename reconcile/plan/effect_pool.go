package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/render"
)

// editOfPool returns the edit of a NodePool.
func editOfPool(live, desired *unstructured.Unstructured) edit {
	before, err := typed[karpv1.NodePool](unbraked(live))
	if err != nil {
		return unknown("%v", err)
	}
	after, err := typed[karpv1.NodePool](desired)
	if err != nil {
		return unknown("%v", err)
	}
	return poolEdit{
		before: before, after: after, desired: desired,
		outdated:     before.Hash() != after.Hash(),
		hash:         poolHash(after),
		known:        poolHashVersion(live) == karpv1.NodePoolHashVersion,
		requirements: !equal(specField(live, "template", "spec", "requirements"), specField(desired, "template", "spec", "requirements")),
	}
}

// poolEdit is a NodePool before and after a change.
type poolEdit struct {
	before, after *karpv1.NodePool
	// desired is after, as an unstructured object.
	desired *unstructured.Unstructured
	// outdated reports whether their hashes differ, known whether the controller uses these hashes for drift, and hash
	// is the one after.
	outdated, known bool
	hash            Hash
	// why is why known is false; empty if the hash versions differ.
	why string
	// requirements reports whether the requirements differ.
	requirements bool
}

func (e poolEdit) impact(claims []*NodeClaim, by known) impact {
	before, after, now := e.before, e.after, by.now
	i := none()
	rest := claims
	if e.outdated && e.known {
		i, rest = outdatedBy(e.hash, claims, Hashes.Pool, DriftOfPool)
	} else if e.outdated {
		i, rest = replaces(claims, true, DriftOfPool), nil
		why := fmt.Sprintf("this Karpenter does not use hash version %s for NodePools, which this plumbline uses", karpv1.NodePoolHashVersion)
		i.unavailable = []string{cmp.Or(e.why, why)}
	}
	if e.requirements {
		i = i.combine(unfit(rest, after.Spec.Template.Spec.Requirements))
	}
	remaining := e.remaining(claims, i.claims, by.outdated)
	waiting := min(len(remaining), e.extraDisruptions(claims, now, karpv1.DisruptionReasonDrifted))
	i = i.addUnidentified(waiting, EffectReplace, claims)
	i.scaled = scaleDownOf(before, after, claims, by.loads)
	i = i.addUnidentified(i.scaled.nodes, EffectDrain, claims)
	i.expiring = expiring(before, after, claims, by.period)
	i.warnings = append(i.warnings, poolWarnings(before, after, claims, by)...)
	for _, warning := range e.replacementWarnings(i.claims) {
		i.warnings = append(i.warnings, "NodePool/"+after.Name+": "+warning)
	}
	i.notes = poolNotes(before, after)
	if waiting == 0 {
		remaining = nil
	}
	i.consolidated = e.consolidated(claims, i.claims, remaining, by)
	return i
}

// remaining returns the NodeClaims that drifted before the change and still do after it, without those that it affects
// or that match the template after it. It includes those that an earlier change of the template or the EC2NodeClass
// made drift, even if Karpenter has not marked them yet.
func (e poolEdit) remaining(claims, touched []*NodeClaim, byClass map[types.UID]bool) []*NodeClaim {
	var left []*NodeClaim
	for _, c := range claims {
		own := c.Hashes.Pool()
		matches := e.outdated && e.known && c.DriftReason == DriftOfPool && own == e.hash
		unmarked := !e.outdated && e.known && e.hash.comparable(own) && own != e.hash
		if (c.Drifted || unmarked || byClass[c.UID]) && !c.Deleting && !matches && !slices.Contains(touched, c) {
			left = append(left, c)
		}
	}
	return left
}

// unfit returns the NodeClaims that drift because they no longer match the requirements, as Karpenter determines it
// (areRequirementsDrifted in karpenter pkg/controllers/nodeclaim/disruption/drift.go, 1.14.1). One with unknown labels
// may drift.
func unfit(claims []*NodeClaim, requirements []karpv1.NodeSelectorRequirementWithMinValues) impact {
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(requirements...)
	fits := map[Labels]bool{}
	var found []*NodeClaim
	whys := map[string]int{}
	for _, c := range claims {
		if c.Labels == "" {
			found = append(found, c)
			whys[noLabels]++
			continue
		}
		fit, asked := fits[c.Labels]
		if !asked {
			fit = scheduling.NewLabelRequirements(c.Labels.Map()).Compatible(wanted) == nil
			fits[c.Labels] = fit
		}
		if !fit {
			found = append(found, c)
		}
	}
	i := replaces(found, len(whys) > 0, driftOfRequirements)
	i.unavailable = whyUnavailable(whys)
	return i
}

// scaledDown returns how many nodes of a static pool terminate because of its replicas: all at once, regardless of
// budgets.
func scaledDown(before, after *karpv1.NodePool, claims []*NodeClaim) int {
	if before.Spec.Replicas == nil || after.Spec.Replicas == nil || *after.Spec.Replicas >= *before.Spec.Replicas {
		return 0
	}
	return max(0, len(notTerminating(claims))-int(*after.Spec.Replicas))
}

// poolWarnings lists what a change does to nodes later, or to all at once.
func poolWarnings(before, after *karpv1.NodePool, claims []*NodeClaim, by known) []string {
	var warnings []string
	now := by.now
	warn := func(format string, args ...any) {
		warnings = append(warnings, "NodePool/"+after.Name+": "+fmt.Sprintf(format, args...))
	}
	if scaled := scaleDownOf(before, after, claims, by.loads); scaled.nodes > 0 {
		warn("replicas %d to %d: %s", *before.Spec.Replicas, *after.Spec.Replicas, scaled.words())
	}
	was, is := before.Spec.Template.Spec, after.Spec.Template.Spec
	if grace := is.TerminationGracePeriod; grace != nil &&
		(was.TerminationGracePeriod == nil || grace.Duration < was.TerminationGracePeriod.Duration) {
		warn("terminationGracePeriod %s: after that time, the drain of a new node overrides PodDisruptionBudgets and karpenter.sh/do-not-disrupt",
			Short(grace.Duration))
	}
	if warning := expiryWarning(before, after, claims, by); warning != "" {
		warn("%s", warning)
	}
	for _, warning := range limitWarnings(before, after) {
		warn("%s", warning)
	}
	if warning := closedBudgetsWarning(before, after, len(claims), now); warning != "" {
		warn("%s", warning)
	}
	if removesLastLimit(before, after, len(claims)) {
		warn("its disruption budgets allow Karpenter to disrupt all of its %s at the same time", english.Plural(len(claims), "node", ""))
	}
	return warnings
}

// expiryWarning describes what a shorter expireAfter does to nodes that are launched after the change.
func expiryWarning(before, after *karpv1.NodePool, claims []*NodeClaim, by known) string {
	was, is := before.Spec.Template.Spec.ExpireAfter.Duration, after.Spec.Template.Spec.ExpireAfter.Duration
	if is == nil || was != nil && *was <= *is {
		return ""
	}
	nodes, n := older(claims, by.now, *is), len(expiring(before, after, claims, by.period))
	switch {
	case nodes > 0:
		return fmt.Sprintf("expireAfter %s is less than the age of %d of its %s: Karpenter terminates each new node at that age, again and again, regardless of disruption budgets",
			Short(*is), nodes, english.Plural(len(claims), "node", ""))
	case n > 0:
		return fmt.Sprintf("expireAfter %s: Karpenter terminates about %s in each %s, regardless of disruption budgets",
			Short(*is), english.Plural(n, "node", ""), Short(by.period))
	}
	return ""
}

// expiring returns as many NodeClaims as expire on average within a period after a change of expireAfter, if these are
// more than before. Karpenter terminates a node at that age regardless of disruption budgets, and launches no
// replacement first (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/expiration/controller.go, 1.14.1). Which nodes
// these are is unknown: the change applies to nodes that replace the present ones.
func expiring(before, after *karpv1.NodePool, claims []*NodeClaim, period time.Duration) []*NodeClaim {
	running := notTerminating(claims)
	within := func(pool *karpv1.NodePool) int {
		age := pool.Spec.Template.Spec.ExpireAfter.Duration
		if age == nil {
			return 0
		}
		return min(len(running), int(math.Ceil(float64(len(running))*float64(period)/float64(max(*age, 1)))))
	}
	if n := within(after); n > within(before) {
		return running[:n]
	}
	return nil
}

// older counts the NodeClaims that are older than an age.
func older(claims []*NodeClaim, now time.Time, age time.Duration) int {
	n := 0
	for _, c := range claims {
		if !now.IsZero() && !c.Created.IsZero() && now.Sub(c.Created) > age {
			n++
		}
	}
	return n
}

// Short formats a duration without trailing zero units: 1m instead of Go's 1m0s.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// changesBudgets reports whether the disruption budgets differ.
func (e poolEdit) changesBudgets() bool {
	return !slices.EqualFunc(e.before.Spec.Disruption.Budgets, e.after.Spec.Disruption.Budgets, sameBudget)
}

// extraDisruptions returns how many nodes the budgets of a pool let Karpenter disrupt at once for a reason after a
// change, if that is more than before; otherwise 0. Karpenter subtracts terminating nodes.
func (e poolEdit) extraDisruptions(claims []*NodeClaim, now time.Time, reason karpv1.DisruptionReason) int {
	if !e.changesBudgets() {
		return 0
	}
	allowed := moreAllowedAtOnce(e.before, e.after, len(claims), now, reason)
	for _, c := range claims {
		if c.Deleting {
			allowed--
		}
	}
	return max(0, allowed)
}

// moreAllowedAtOnce returns how many of this many nodes the budgets of a pool allow at once for a reason after a
// change, if that is more than before: now, or when they allow the most. A budget that opens only tonight is as wide as
// one that is open now; if it opened equally wide before, nothing is gained.
func moreAllowedAtOnce(before, after *karpv1.NodePool, nodes int, now time.Time, reason karpv1.DisruptionReason) int {
	is, err := readBudgets(after, nodes, reason)
	if err != nil {
		return 0
	}
	was, err := readBudgets(before, nodes, reason)
	if err != nil {
		was = budgets{nodes: nodes, all: []budget{{}}}
	}
	allowed := 0
	if n := is.allowedAt(now); n > was.allowedAt(now) {
		allowed = n
	}
	if now.IsZero() {
		return allowed
	}
	least, _ := was.maxWithin(now, horizon)
	most, whole := is.maxWithin(now, horizon)
	if !whole {
		most = is.alwaysAllowed()
	}
	if most > least {
		allowed = max(allowed, most)
	}
	return allowed
}

// removesLastLimit reports whether a change removes the last budget that always keeps some nodes from being replaced.
func removesLastLimit(before, after *karpv1.NodePool, nodes int) bool {
	return nodes > 1 && alwaysAllowed(after, nodes) >= nodes && alwaysAllowed(before, nodes) < nodes
}

// alwaysAllowed returns how many nodes the budgets of a pool without a schedule allow to be replaced at a time; 0 if
// one cannot be parsed.
func alwaysAllowed(pool *karpv1.NodePool, nodes int) int {
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return 0
	}
	return b.alwaysAllowed()
}

// replacementWarnings lists the limits of a pool that leave no room for a replacement, because the change raises the
// size of its smallest node. When Karpenter simulates a replacement, it does not count the node that it replaces
// (SimulateScheduling in karpenter pkg/controllers/disruption/helpers.go, and calculateExistingNodeClaims in
// pkg/controllers/provisioning/scheduling/scheduler.go, 1.14.1). There is no warning if the size of the replaced nodes
// is unknown.
func (e poolEdit) replacementWarnings(replaced []*NodeClaim) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(e.after.Spec.Limits)) {
		limit, runs := e.after.Spec.Limits[name], e.before.Status.Resources[name]
		smallest := e.smallest(name)
		frees, known := largest(replaced, name)
		room := limit.DeepCopy()
		room.Sub(runs)
		room.Add(frees)
		if !known || room.Cmp(smallest) >= 0 || slices.Contains(loweredLimits(e.before, e.after), name) {
			continue
		}
		found = append(found, fmt.Sprintf(
			"limits.%s %s does not allow a replacement (usage is %s, a new node has at least %s, and replacing a node frees at most %s): raise the limit first, otherwise Karpenter launches no replacement in this NodePool until nodes are removed",
			name, limit.String(), runs.String(), smallest.String(), frees.String()))
	}
	return found
}

// smallest returns how much of a limit the smallest node of the pool uses after the change.
func (e poolEdit) smallest(limit corev1.ResourceName) resource.Quantity {
	smallest, _ := render.SmallestNode(e.desired, string(limit))
	if limit == corev1.ResourceCPU {
		if n := processors(e.after); smallest.CmpInt64(n) < 0 {
			return *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return smallest
}

// largest returns how much of a limit the largest of some nodes uses, by the labels of their NodeClaims; known is false
// if a label is missing, or if there are no nodes.
func largest(claims []*NodeClaim, limit corev1.ResourceName) (most resource.Quantity, known bool) {
	label, unit := awsv1.LabelInstanceCPU, ""
	switch limit {
	case "nodes":
		return *resource.NewQuantity(1, resource.DecimalSI), len(claims) > 0
	case corev1.ResourceCPU:
	case corev1.ResourceMemory:
		label, unit = awsv1.LabelInstanceMemory, "Mi"
	default:
		return most, false
	}
	sizes := map[string]bool{}
	for _, c := range claims {
		value := c.Labels.value(label)
		if sizes[value] {
			continue
		}
		sizes[value] = true
		quantity, err := resource.ParseQuantity(value + unit)
		if err != nil {
			return most, false
		}
		if most.Cmp(quantity) < 0 {
			most = quantity
		}
	}
	return most, len(claims) > 0
}

// processors returns the minimum number of vCPUs of an instance that the requirements allow by instance sizes or types;
// 1 if they list none. A size has the same number in each family except HPC, where it has half of it
// (https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html).
func processors(pool *karpv1.NodePool) int64 {
	most, each := int64(1), int64(2)
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key == awsv1.LabelInstanceCategory && r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, "hpc") {
			each = 4
		}
	}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0 ||
			r.Key != awsv1.LabelInstanceSize && r.Key != corev1.LabelInstanceTypeStable {
			continue
		}
		var sizes []int64
		for _, value := range r.Values {
			sizes = append(sizes, processorsOf(value[strings.LastIndex(value, ".")+1:], each))
		}
		most = max(most, slices.Min(sizes))
	}
	return most
}

// processorsOf returns the minimum number of vCPUs of a size, given that of xlarge.
func processorsOf(size string, xlarge int64) int64 {
	times, is := strings.CutSuffix(size, "xlarge")
	if !is {
		return 1
	}
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		return xlarge
	}
	return n * xlarge
}
