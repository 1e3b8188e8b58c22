package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// The states of a NodeClaim, as `plumbline why` has them.
const (
	Running = "running"
	Ending  = "ending"
	Ended   = "ended"
)

// Report is what is known of one NodeClaim.
type Report struct {
	recorder.Record `json:",inline"`

	// NodeSync is whose record it is in; empty if it is in none.
	NodeSync string `json:"nodeSync,omitempty"`
	State    string `json:"state"`
	// Outdated is Karpenter's reason for which it is Drifted, with the inputs that changed where no
	// commit has outdated it, and OutdatedSince since when: zero if Karpenter has not found it yet.
	// Unknown is why nothing tells whether it is outdated.
	Outdated      string      `json:"outdated,omitempty"`
	OutdatedSince metav1.Time `json:"outdatedSince,omitzero"`
	Unknown       string      `json:"unknown,omitempty"`
	// Blocked is what Karpenter said last of why it is not replaced now; of one whose removal is
	// stalled, what its NodeSync says.
	Blocked string `json:"blocked,omitempty"`
	// BreakGlass are the commands that would end it all the same, where its removal is stalled.
	BreakGlass []v1alpha1.BreakGlass `json:"breakGlass,omitempty"`
}

// Recorded returns the newest Record that is looked for; nil if there is none. logs are by NodeSync.
func Recorded(logs map[string]*recorder.Log, is func(recorder.Record) bool) (found *Report) {
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		for _, r := range logs[sync].Records {
			if !is(r) || found != nil && !found.End().Before(r.End()) {
				continue
			}
			found = &Report{Record: r, NodeSync: sync, State: Ended}
			if r.Gone.IsZero() {
				found.State = Ending
			}
		}
	}
	return found
}

// Named reports whether a NodeClaim, its Node or its instance has a name.
func Named(r recorder.Record, name string) bool {
	return slices.Contains([]string{r.NodeClaim, r.Node, r.Instance}, name)
}

// NotRecorded describes the period that the records of a namespace cover, for a name that none has.
func NotRecorded(name, namespace string, logs map[string]*recorder.Log) string {
	words := fmt.Sprintf("%s not found: no NodeClaim, Node or instance has this name, and none that is terminated is recorded in %s", name, namespace)
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		log := logs[sync]
		words += fmt.Sprintf("; nodesync/%s: recorded since %s", sync, summary.Stamp(log.Since))
		for _, gap := range log.Gaps {
			words += fmt.Sprintf(", but not from %s to %s, as the leader changed", summary.Stamp(gap.From), summary.Stamp(gap.To))
		}
	}
	return words
}

// Of returns what the NodeClaim and the statuses of NodeSyncs tell of it.
func Of(claim *karpv1.NodeClaim, state string, syncs []v1alpha1.NodeSync, now time.Time) *Report {
	report := &Report{Record: recorder.RecordOf(claim), State: state}
	report.Keep(syncs, now)
	return report
}

// Keep adds what keeps the node by the statuses of NodeSyncs, as `plumbline status` shows it, and the commands that would terminate it
// all the same: the policy that denies Karpenter's controller the removal of its finalizer; what a rollout or a removal
// waits for, if that names the node or its NodeClaim or is stalled; and what a node that has been terminating for longer
// than expected waits for.
func (r *Report) Keep(syncs []v1alpha1.NodeSync, now time.Time) {
	r.Blocked = r.reported(syncs)
	for _, removal := range Removals(syncs, r.Pool) {
		of := removal.breakGlassOf(r.Node, r.NodeClaim)
		if removal.Stalled != nil || len(of) > 0 || r.isIn(removal.Message) {
			r.Blocked, r.BreakGlass = summary.WaitsFor(removal.Removal, removal.Grace, now), append(r.BreakGlass, of...)
		}
	}
	for i := range syncs {
		for _, t := range syncs[i].Status.Terminations {
			if t.Name != r.NodeClaim && (t.Node == "" || t.Node != r.Node) {
				continue
			}
			r.Blocked = summary.OneLine(t.Message)
			if t.BreakGlass != nil {
				r.BreakGlass = append(r.BreakGlass, *t.BreakGlass)
			}
		}
	}
}

// reported is what keeps the node by a condition or the rollout of a NodeSync; empty if no status names a cause.
func (r *Report) reported(syncs []v1alpha1.NodeSync) string {
	for i := range syncs {
		sync := &syncs[i]
		if r.State == Ending && conditions.IsTrue(sync, v1alpha1.KarpenterDeniedCondition) {
			return conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
		}
		if rollout := sync.Status.Rollout; rollout != nil && r.isIn(rollout.Message) {
			return rollout.Message
		}
	}
	return ""
}

// isIn reports whether a message names the node or its NodeClaim.
func (r *Report) isIn(message string) bool {
	return names(message, r.Node) || names(message, "NodeClaim/"+r.NodeClaim)
}

// names reports whether a message has a name as a word.
func names(message, name string) bool {
	return name != "" && slices.Contains(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) }), name)
}

// Drifted adds by what the NodeClaim is outdated, if Karpenter has found it Drifted: what a NodeSync reports as the input that changed,
// else Karpenter's reason. It returns false if Karpenter has not.
func (r *Report) Drifted(claim *karpv1.NodeClaim, syncs []v1alpha1.NodeSync) bool {
	drifted := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted)
	if !drifted.IsTrue() {
		return false
	}
	r.Outdated, r.OutdatedSince = cmp.Or(drifted.Reason, karpv1.ConditionTypeDrifted), drifted.LastTransitionTime
	for i := range syncs {
		if input := syncs[i].Status.Rollout.InputOf(claim.Labels[karpv1.NodePoolLabelKey], drifted.Reason, claim.Status.ImageID); input != nil {
			r.Outdated = input.Words()
			break
		}
	}
	return true
}

// Definitions are those that a NodeClaim is made by, to read them for Compare.
func Definitions(claim *karpv1.NodeClaim) []render.Ref {
	if claim.Status.ProviderID == "" {
		return nil // it is being launched
	}
	seen := cluster.NodeClaim(claim)
	return slices.DeleteFunc([]render.Ref{{Kind: render.NodePool, Name: seen.Pool}, {Kind: render.EC2NodeClass, Name: seen.Class}},
		func(ref render.Ref) bool { return ref.Name == "" })
}

// Compare adds of a NodeClaim that Karpenter has not found outdated whether it matches its definitions all the same:
// Karpenter looks at each within minutes of a change, and never finds one without a hash. A definition that the cluster does not
// have is not in lives.
func (r *Report) Compare(claim *karpv1.NodeClaim, lives map[render.Ref]*plan.Object, syncs []v1alpha1.NodeSync, now time.Time) {
	seen := cluster.NodeClaim(claim)
	var definitions []*plan.Object
	match := plan.Match{Exact: true, Since: now, Memory: &plan.MatchMemory{}, Live: plan.Live{Objects: lives, NodeClaims: []plan.NodeClaim{seen}}}
	for ref, object := range lives {
		definitions, match.Unhashed = append(definitions, object), append(match.Unhashed, ref.String())
	}
	switch found := match.Outdated(definitions); {
	case len(found.Outdated) > 0:
		r.Outdated = found.Outdated[0].Reason
	case len(found.Unresolved) > 0:
		r.Unknown = "Karpenter has yet to find the AMIs of " + render.EC2NodeClass + "/" + seen.Class
	case len(found.Unknown) > 0:
		r.Unknown = "it lacks the hash by which Karpenter compares it with its definitions: delete it to have it replaced"
	default:
		r.Unknown = settling(lives[render.Ref{Kind: render.NodePool, Name: seen.Pool}], syncs, now)
	}
}

// settling reports that AWS decides which nodes of a NodePool a commit has outdated, and that Karpenter may not have
// checked each since; empty if it has.
func settling(pool *plan.Object, syncs []v1alpha1.NodeSync, now time.Time) string {
	if pool == nil {
		return ""
	}
	for i := range syncs {
		sync := &syncs[i]
		label, _ := plan.OwnerOf(sync.Namespace, sync.Name).Label()
		rollout := sync.Status.Rollout
		if pool.GetLabels()[v1alpha1.OwnerLabel] != label || rollout == nil || rollout.SettlesAt == nil || !now.Before(rollout.SettlesAt.Time) {
			continue
		}
		return strings.TrimSpace(fmt.Sprintf("Karpenter asks AWS which nodes %s outdates, until %s", render.ShortRevision(rollout.Revision), plan.ClockTime(rollout.SettlesAt.Time, now)))
	}
	return ""
}

// Type is what is known of the instance's type: none before it is launched.
func (r *Report) Type() string {
	known := slices.DeleteFunc([]string{r.InstanceType, r.CapacityType, r.Zone}, func(word string) bool { return word == "" })
	return cmp.Or(strings.Join(known, ", "), "unknown")
}

// Of names the NodeSync in whose record it is, after its NodePool.
func (r *Report) Of() string {
	if r.NodeSync == "" {
		return ""
	}
	return ", of nodesync/" + r.NodeSync
}

// Commit says which commit it ended by, or which one was in force.
func (r *Report) Commit() string {
	commit := render.ShortRevision(r.Revision)
	switch {
	case r.ByRevision && r.Cause == recorder.Removed:
		return commit + ", the first one without the pool"
	case r.ByRevision:
		return commit + ", whose rollout was in progress"
	}
	return commit + ", in force when the deletion began"
}
