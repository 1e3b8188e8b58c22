package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// impact is what a change of a definition does to running nodes.
type impact struct {
	effect Effect
	// claims are the NodeClaims that it affects; if upTo, the definitions do not show which of them.
	claims []*NodeClaim
	upTo   bool
	// uncomparable reports whether some of claims may have no hash that Karpenter can compare.
	uncomparable bool
	// unnamed is how many further nodes it affects that cannot be identified.
	unnamed int
	// consolidated are the NodeClaims that Karpenter may consolidate after the change but not before.
	consolidated []*NodeClaim
	// expiring are NodeClaims that expire within guard.removalPeriod after the change, if these are more than before.
	expiring []*NodeClaim
	// unavailable are the reasons why the impact is not exact.
	unavailable []string
	// reasons are Karpenter's reasons to mark the nodes Drifted.
	reasons []string
	// scaled are the nodes that Karpenter terminates because of fewer replicas of a static pool.
	scaled scaleDown
	// warnings are sentences about later consequences for nodes, and notes about other consequences.
	warnings, notes []string
}

// Karpenter's drift reasons, as in the condition of a NodeClaim (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/disruption/drift.go and karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
const (
	// DriftOfPool is the reason of a NodeClaim that does not match its NodePool's template.
	DriftOfPool         = "NodePoolDrifted"
	driftOfRequirements = "RequirementsDrifted"
	driftOfClass        = "NodeClassDrift"
	driftOfAMI          = "AMIDrift"
	driftOfSubnet       = "SubnetDrift"
	driftOfGroup        = "SecurityGroupDrift"
	driftOfReservation  = "CapacityReservationDrift"
	driftOfPlacement    = "PlacementGroupDrift"
	typeNotFound        = "InstanceTypeNotFound"
)

func none() impact { return impact{effect: EffectNone} }

func replaces(claims []*NodeClaim, upTo bool, reasons ...string) impact {
	if len(claims) == 0 {
		return none()
	}
	return impact{effect: EffectReplace, claims: claims, upTo: upTo, reasons: reasons}
}

// addUnidentified adds an effect on this many more of the nodes that cannot be identified: they may be among the
// identified ones.
func (i impact) addUnidentified(more int, effect Effect, claims []*NodeClaim) impact {
	if more <= 0 {
		return i
	}
	more = min(more, len(claims)-len(i.claims)-i.unnamed)
	i.upTo = i.upTo || effect == EffectReplace || i.effect != EffectNone
	i.effect, i.unnamed = effect, i.unnamed+more
	return i
}

// outdatedBy returns the impact of a definition with a new hash on the NodeClaims that have another hash. rest are
// those with the new hash, for example if a commit is reverted: they match it.
func outdatedBy(now Hash, claims []*NodeClaim, of func(Hashes) Hash, reason string) (i impact, rest []*NodeClaim) {
	var found []*NodeClaim
	blind := false
	for _, c := range claims {
		blind = blind || !now.comparable(of(c.Hashes))
		if now != "" && of(c.Hashes) == now {
			rest = append(rest, c)
		} else {
			found = append(found, c)
		}
	}
	i = replaces(found, false, reason)
	i.uncomparable = blind
	return i, rest
}

// combine combines two impacts on different NodeClaims.
func (i impact) combine(other impact) impact {
	if len(i.claims) == 0 {
		return other
	}
	if len(other.claims) > 0 {
		whys, blind := slices.Concat(i.unavailable, other.unavailable), i.uncomparable || other.uncomparable
		i = replaces(slices.Concat(i.claims, other.claims), i.upTo || other.upTo, slices.Concat(i.reasons, other.reasons)...)
		i.unavailable, i.uncomparable = whys, blind
	}
	return i
}

// effect determines what a Change does to nodes. If Karpenter's own libraries can tell, it is exact: the hash that
// Karpenter compares nodes with, and requirements against the labels of NodeClaims. If it depends on AWS, as for AMIs
// and selectors, it is exact with the answer of AWS, and up to all nodes without.
//
// found is the comparison of the two definitions, which caches what is read from them.
func (m *maker) effect(change *Change, found *compared) {
	if change.Action == Conflict || change.Action == Refuse || change.Action == Wait {
		change.Effect = EffectBlocked
		return
	}
	switch change.Ref.Kind {
	case render.NodeOverlay:
		m.warnOfOverlay(change)
		return
	case render.CapacityBuffer:
		m.effectOfBuffer(change)
		return
	}
	claims := m.claims()[change.Ref]
	if change.Live == nil || len(claims) == 0 {
		return
	}
	if found.edit == nil {
		found.edit = editOf(change, m.policy.CABundle)
	}
	e := found.edit
	if m.live.Fork != "" {
		e = ofFork(e, change, m.live.Fork)
	}
	m.setQuestions(change, e, claims)
	i := e.impact(claims, m.knownOf(change.Ref, e, claims))
	change.Effect, change.Nodes, change.UpTo = i.effect, len(i.claims)+i.unnamed, i.upTo
	change.Unavailable = strings.Join(i.unavailable, "; ")
	change.unnamed, change.Warnings, change.DriftReasons = i.unnamed, i.warnings, i.reasons
	change.Notes, change.uncomparable = i.notes, i.uncomparable
	if i.effect == EffectReplace && len(change.rewritten) > 0 {
		change.Warnings = append(change.Warnings, fmt.Sprintf("%s: %s changed in form only, not in value, but Karpenter's hash of the object changes, so Karpenter replaces its nodes", change.Ref, someOf(change.rewritten)))
	}
	for _, c := range i.claims {
		change.touched = append(change.touched, c.UID)
	}
	change.consolidates(i.consolidated)
	change.scaledDown, change.mayScaleDown = uids(i.scaled.certain), uids(i.scaled.possible)
	for _, c := range i.expiring {
		change.expiring = append(change.expiring, c.UID)
	}
}

// setQuestions sets what must be looked up to determine the effect of a Change that is written.
func (m *maker) setQuestions(change *Change, of edit, claims []*NodeClaim) {
	if !change.Action.Writes() {
		return
	}
	switch of := of.(type) {
	case classEdit:
		change.question = of.question(change.Ref, claims)
	case poolEdit:
		change.loads = of.question(claims, m.policy.Now)
	}
}

// knownOf returns the inputs for the edit of an object.
func (m *maker) knownOf(ref render.Ref, of edit, claims []*NodeClaim) known {
	by := known{
		now: m.policy.Now, period: cmp.Or(m.policy.Guard.GetRemovalPeriod(), v1alpha1.DefaultRemovalPeriod),
		answer: m.policy.answer(ref), loads: m.policy.Loads,
	}
	if pool, ok := of.(poolEdit); ok && pool.changesBudgets() {
		by.outdated = m.outdatedByClass(ref, claims)
	}
	return by
}

// NodeClaims returns the identified NodeClaims that a Change affects; if UpTo, it affects only some or none of them.
func (c *Change) NodeClaims() []types.UID { return slices.Clone(c.touched) }

// Uncomparable reports whether the Change gives its object another hash, while its NodeClaims may have none that
// Karpenter can compare: Karpenter marks none of these as drifted.
func (c *Change) Uncomparable() bool { return c.uncomparable }

// ByImages reports whether the Change, besides its NodeClaims, can only make nodes drift that run another AMI than
// their class then requires.
func (c *Change) ByImages() bool {
	return slices.Contains(c.DriftReasons, driftOfAMI) &&
		!slices.ContainsFunc(c.DriftReasons, func(reason string) bool { return reason != driftOfAMI && reason != driftOfClass })
}

// Resolves returns Karpenter's reasons for which the Change makes nodes drift by subnets, security groups or
// reservations: Karpenter finds these nodes at its next check, and no object shows it before.
func (c *Change) Resolves() []string {
	return slices.DeleteFunc(slices.Clone(c.DriftReasons), func(reason string) bool {
		return reason != driftOfSubnet && reason != driftOfGroup && reason != driftOfReservation
	})
}

// Reselects returns Karpenter's reasons, besides AMIDrift, for which NodeClaims drift by selectors that the Change
// writes: expectations from the previous selectors no longer apply.
func (c *Change) Reselects() []string {
	var reasons []string
	for _, of := range resolvedFields() {
		written := func(f Field) bool { return strings.HasPrefix(f.Path, "spec."+of.name) }
		if of.reason != driftOfAMI && slices.ContainsFunc(c.Fields, written) {
			reasons = append(reasons, of.reason)
		}
	}
	return reasons
}

// edit is the difference of two definitions for the nodes that were created from the first.
type edit interface {
	impact(claims []*NodeClaim, by known) impact
}

// known are the inputs of an edit besides the two definitions.
type known struct {
	// now is only compared with the creation times of nodes.
	now time.Time
	// period is guard.removalPeriod, or its default if commits do not count together.
	period time.Duration
	// outdated are the NodeClaims of a NodePool that drift, or may drift, by its EC2NodeClass.
	outdated map[types.UID]bool
	// answer is the answer of AWS for the object.
	answer *Answer
	// loads are those of the Policy.
	loads map[types.UID]Load
}

func editOf(change *Change, bundle string) edit {
	desired := written(change.Wanted(), change.Live)
	if change.Ref.Kind == render.NodePool {
		return editOfPool(change.Live, desired)
	}
	return editOfClass(change.Live, desired, bundle)
}

// ofFork returns an edit of a definition of which only a fork of Karpenter knows the hash.
func ofFork(e edit, change *Change, fork string) edit {
	why := fmt.Sprintf("Karpenter %s is not a release of upstream, and what it hashes is unknown", fork)
	switch of := e.(type) {
	case classEdit:
		if equal(specField(change.Live), specField(change.Wanted())) {
			return e
		}
		return allOrNone{upTo: true, why: why}
	case poolEdit:
		of.known, of.why = false, why
		of.outdated = of.outdated || !equal(specField(change.Live, "template"), specField(change.Wanted(), "template"))
		return of
	}
	return e
}

// allOrNone is an edit that replaces all nodes, up to all, or none.
type allOrNone struct {
	none, upTo bool
	// why is the reason why that is unknown.
	why     string
	reasons []string
}

func (e allOrNone) impact(claims []*NodeClaim, _ known) impact {
	if e.none {
		return none()
	}
	i := replaces(claims, e.upTo, e.reasons...)
	if e.why != "" {
		i.unavailable = []string{e.why}
	}
	return i
}

// typed converts an object to Karpenter's own type; unknown fields are dropped.
func typed[T any](object *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", object.GetKind(), object.GetName(), err)
	}
	return into, nil
}

// specField returns a value of a spec; nil if there is none.
func specField(object *unstructured.Unstructured, path ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, append([]string{"spec"}, path...)...)
	if err != nil {
		return nil
	}
	return value
}

// limitWarnings lists the limits of a pool that a change sets below the current usage. Karpenter reports usage in the
// pool's status, and terminates no node for a limit.
func limitWarnings(before, after *karpv1.NodePool) []string {
	var found []string
	for _, name := range loweredLimits(before, after) {
		limit, runs := after.Spec.Limits[name], before.Status.Resources[name]
		found = append(found, fmt.Sprintf("limits.%s %s is below the current usage of %s: no node is terminated, but Karpenter launches none here until usage is below the limit; replacements come from another NodePool or wait",
			name, limit.String(), runs.String()))
	}
	return found
}

// loweredLimits returns the limits that are below the current usage, and were not before.
func loweredLimits(before, after *karpv1.NodePool) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(after.Spec.Limits)), func(name corev1.ResourceName) bool {
		limit, runs := after.Spec.Limits[name], before.Status.Resources[name]
		was, limited := before.Spec.Limits[name]
		return runs.Cmp(limit) <= 0 || limited && runs.Cmp(was) > 0
	})
}

// closedBudgetsWarning returns a warning if a change makes disruption budgets never allow a node to be replaced for
// drift within the period that is searched for windows; otherwise it is empty.
func closedBudgetsWarning(before, after *karpv1.NodePool, nodes int, now time.Time) string {
	if nodes == 0 || now.IsZero() || slices.EqualFunc(before.Spec.Disruption.Budgets, after.Spec.Disruption.Budgets, sameBudget) {
		return ""
	}
	allowed := AllowedFor(after, karpv1.DisruptionReasonDrifted, nodes, now)
	if allowed.Unreadable {
		return "the schedule of a disruption budget cannot be parsed: Karpenter disrupts none of its nodes"
	}
	if allowed.Now > 0 || !allowed.At.IsZero() {
		return ""
	}
	if schedule := neverMatches(after, now); schedule != "" {
		return fmt.Sprintf("the schedule %q of a disruption budget never matches, and Karpenter treats such a budget as always active: no node can be replaced for drift", schedule)
	}
	if allowed.Partly {
		return ""
	}
	return fmt.Sprintf("its disruption budgets allow Karpenter to replace none of its %s for drift within 31 days: changes in Git do not reach these nodes", english.Plural(nodes, "node", ""))
}

// neverMatches returns a schedule of a pool's budgets that has no next time; empty if there is none. Karpenter checks
// whether that time is in the past, which is true for the zero time (IsActive in karpenter pkg/apis/v1/nodepool.go,
// 1.14.1).
func neverMatches(pool *karpv1.NodePool, now time.Time) string {
	for _, budget := range pool.Spec.Disruption.Budgets {
		if budget.Schedule == nil {
			continue
		}
		if schedule, err := cron.ParseStandard("TZ=UTC " + *budget.Schedule); err == nil && schedule.Next(now).IsZero() {
			return *budget.Schedule
		}
	}
	return ""
}

func sameBudget(a, b karpv1.Budget) bool {
	return a.Nodes == b.Nodes && slices.Equal(a.Reasons, b.Reasons) && ptr.Equal(a.Schedule, b.Schedule) && ptr.Equal(a.Duration, b.Duration)
}

// poolNotes lists what a change does besides replacing or terminating nodes: when Karpenter consolidates, and which
// pool it launches from.
func poolNotes(before, after *karpv1.NodePool) []string {
	var notes []string
	note := func(format string, args ...any) {
		notes = append(notes, "NodePool/"+after.Name+": "+fmt.Sprintf(format, args...))
	}
	if was, is := before.Spec.Disruption.ConsolidateAfter, after.Spec.Disruption.ConsolidateAfter; !ptr.Equal(was.Duration, is.Duration) {
		note("consolidateAfter %s to %s: %s", waitWords(was), waitWords(is), consolidates(is))
	}
	if was, is := before.Spec.Disruption.ConsolidationPolicy, after.Spec.Disruption.ConsolidationPolicy; was != is {
		note("consolidationPolicy %s to %s: changes which nodes Karpenter may consolidate, at once and within its disruption budgets",
			cmp.Or(was, "none"), cmp.Or(is, "none"))
	}
	if was, is := ptr.Deref(before.Spec.Weight, 0), ptr.Deref(after.Spec.Weight, 0); was != is {
		note("weight %d to %d: Karpenter launches new nodes from the compatible NodePool with the highest weight; running nodes stay", was, is)
	}
	return notes
}

func consolidates(after karpv1.NillableDuration) string {
	if after.Duration == nil {
		return "Karpenter no longer consolidates its nodes"
	}
	return "the time that Karpenter waits after a pod is added or removed before it consolidates a node"
}

func waitWords(d karpv1.NillableDuration) string {
	if d.Duration == nil {
		return karpv1.Never
	}
	return Short(*d.Duration)
}
