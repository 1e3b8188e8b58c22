package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/render"
)

// The states of a NodeClaim, as in `plumbline why`.
const (
	NodeRunning     = "running"
	NodeTerminating = "terminating"
	NodeTerminated  = "terminated"
)

// NodeReport is what is known about one NodeClaim.
type NodeReport struct {
	recorder.Record `json:",inline"`

	// NodeSync whose record it is in; empty if there is none.
	NodeSync string `json:"nodeSync,omitempty"`
	State    string `json:"state"`
	// Outdated is Karpenter's reason for which it is Drifted, with the inputs that changed if no commit has outdated
	// it, and OutdatedSince since when: zero if Karpenter has not found it yet. Unknown is why it is unknown whether it
	// is outdated.
	Outdated      string      `json:"outdated,omitempty"`
	OutdatedSince metav1.Time `json:"outdatedSince,omitzero"`
	Unknown       string      `json:"unknown,omitempty"`
	// Blocked is Karpenter's last message on why it is not replaced now; if its removal is stalled, the message of its
	// NodeSync.
	Blocked string `json:"blocked,omitempty"`
	// BreakGlass are the commands that terminate it nevertheless, if its removal is stalled.
	BreakGlass []v1alpha1.BreakGlass `json:"breakGlass,omitempty"`
	// ScaleDown is why Karpenter does not scale a running node down; empty if nothing known keeps it.
	ScaleDown []blocker.Keep `json:"notScaledDown,omitempty"`
	// Simulated is the result of a simulation of its scale-down; empty if there was none, or it keeps the node.
	Simulated string `json:"scaleDownSimulated,omitempty"`
}

// RecordedNode returns the newest Record for which is returns true; nil if there is none. logs are by NodeSync.
func RecordedNode(logs map[string]*recorder.Log, is func(recorder.Record) bool) (found *NodeReport) {
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		for _, r := range logs[sync].Records {
			if !is(r) || found != nil && !found.End().Before(r.End()) {
				continue
			}
			found = &NodeReport{Record: r, NodeSync: sync, State: NodeTerminated}
			if r.Gone.IsZero() {
				found.State = NodeTerminating
			}
		}
	}
	return found
}

// RecordHasName reports whether a NodeClaim, its Node or its instance has a name.
func RecordHasName(r recorder.Record, name string) bool {
	return slices.Contains([]string{r.NodeClaim, r.Node, r.Instance}, name)
}

// NotRecorded describes the period that the records of a namespace cover, for a name that none has.
func NotRecorded(name, namespace string, logs map[string]*recorder.Log) string {
	words := fmt.Sprintf("%s not found: no NodeClaim, Node or instance has this name, and none that is terminated is recorded in %s",
		name, namespace)
	for _, sync := range slices.Sorted(maps.Keys(logs)) {
		log := logs[sync]
		words += fmt.Sprintf("; nodesync/%s: recorded since %s", sync, Stamp(log.Since))
		for _, gap := range log.Gaps {
			words += fmt.Sprintf(", but not from %s to %s, as the leader changed", Stamp(gap.From), Stamp(gap.To))
		}
	}
	return words
}

// NodeReportOf returns what the NodeClaim and the statuses of NodeSyncs report about it.
func NodeReportOf(claim *karpv1.NodeClaim, state string, syncs []v1alpha1.NodeSync, now time.Time) *NodeReport {
	report := &NodeReport{Record: recorder.RecordOf(claim), State: state}
	report.Keep(syncs, now)
	return report
}

// Keep adds what blocks the node according to the statuses of NodeSyncs, as `plumbline status` shows it, and the
// commands that terminate it nevertheless: the policy that denies Karpenter's controller the removal of its finalizer;
// what a rollout or a removal waits for, if that names the node or its NodeClaim or is stalled; and what a node that
// has been terminating for longer than expected waits for.
func (r *NodeReport) Keep(syncs []v1alpha1.NodeSync, now time.Time) {
	r.Blocked = r.reported(syncs)
	for _, removal := range RemovalsOfPool(syncs, r.Pool) {
		of := removal.breakGlassOf(r.Node, r.NodeClaim)
		if removal.Stalled != nil || len(of) > 0 || r.isIn(removal.Message) {
			r.Blocked, r.BreakGlass = WaitsFor(removal.Removal, removal.Grace, now), append(r.BreakGlass, of...)
		}
	}
	for i := range syncs {
		for _, t := range syncs[i].Status.Terminations {
			if t.Name != r.NodeClaim && (t.Node == "" || t.Node != r.Node) {
				continue
			}
			r.Blocked = OneLine(t.Message)
			if t.BreakGlass != nil {
				r.BreakGlass = append(r.BreakGlass, *t.BreakGlass)
			}
		}
	}
}

// reported returns what blocks the node according to a condition or the rollout of a NodeSync; empty if no status names
// a cause.
func (r *NodeReport) reported(syncs []v1alpha1.NodeSync) string {
	for i := range syncs {
		sync := &syncs[i]
		if r.State == NodeTerminating && conditions.IsTrue(sync, v1alpha1.KarpenterDeniedCondition) {
			return conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
		}
		if rollout := sync.Status.Rollout; rollout != nil && r.isIn(rollout.Message) {
			return rollout.Message
		}
	}
	return ""
}

// isIn reports whether a message names the node or its NodeClaim.
func (r *NodeReport) isIn(message string) bool {
	return names(message, r.Node) || names(message, "NodeClaim/"+r.NodeClaim)
}

// names reports whether a message contains a name as a word.
func names(message, name string) bool {
	return name != "" && slices.Contains(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) }), name)
}

// Drifted adds what has outdated the NodeClaim, if Karpenter has found it Drifted: the changed input that a NodeSync
// reports, else Karpenter's reason. It returns false if Karpenter has not.
func (r *NodeReport) Drifted(claim *karpv1.NodeClaim, syncs []v1alpha1.NodeSync) bool {
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

// DefinitionsOf returns the definitions of a NodeClaim, to be read for Compare.
func DefinitionsOf(claim *karpv1.NodeClaim) []render.Ref {
	if claim.Status.ProviderID == "" {
		return nil // it is being launched
	}
	seen := cluster.NodeClaim(claim)
	return slices.DeleteFunc([]render.Ref{{Kind: render.NodePool, Name: seen.Pool}, {Kind: render.EC2NodeClass, Name: seen.Class}},
		func(ref render.Ref) bool { return ref.Name == "" })
}

// Compare adds whether a NodeClaim that Karpenter has not found outdated matches its definitions: Karpenter checks each
// within minutes of a change, and never finds one without a hash. lives does not contain a definition that does not
// exist.
func (r *NodeReport) Compare(claim *karpv1.NodeClaim, lives map[render.Ref]*plan.Object, syncs []v1alpha1.NodeSync, now time.Time) {
	seen := cluster.NodeClaim(claim)
	var definitions []*plan.Object
	match := plan.Match{
		Exact: true, Since: now, Memory: &plan.MatchMemory{}, Live: plan.Live{Objects: lives, NodeClaims: []plan.NodeClaim{seen}},
	}
	for i := range syncs {
		match.Live.Fork = cmp.Or(match.Live.Fork, plan.ForkOf(syncs[i].Status.Karpenter))
	}
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
		return strings.TrimSpace(fmt.Sprintf("Karpenter asks AWS which nodes %s outdates, until %s",
			render.ShortRevision(rollout.Revision), plan.ClockTime(rollout.SettlesAt.Time, now)))
	}
	return ""
}

// Type describes the instance's type: none before it is launched.
func (r *NodeReport) Type() string {
	known := slices.DeleteFunc([]string{r.InstanceType, r.CapacityType, r.Zone}, func(word string) bool { return word == "" })
	return cmp.Or(strings.Join(known, ", "), "unknown")
}

// Of names the NodeSync whose record it is in, to append to its NodePool.
func (r *NodeReport) Of() string {
	if r.NodeSync == "" {
		return ""
	}
	return ", of nodesync/" + r.NodeSync
}

// Commit describes the commit that terminated it, or that was in force.
func (r *NodeReport) Commit() string {
	commit := render.ShortRevision(r.Revision)
	switch {
	case r.ByRevision && r.Cause == recorder.Removed:
		return commit + ", the first one without the pool"
	case r.ByRevision:
		return commit + ", whose rollout was in progress"
	}
	return commit + ", in force when the deletion began"
}

// ClassReport is what blocks an EC2NodeClass that was deleted.
type ClassReport struct {
	Class   string      `json:"class"`
	Deleted metav1.Time `json:"deleted"`
	// NodeClaims is how many use it, and NodePools are those that refer to it.
	NodeClaims int      `json:"nodeClaims"`
	NodePools  []string `json:"nodePools,omitempty"`
	// Finalizers are those that remain: the class is gone once each is removed.
	Finalizers []string `json:"finalizers,omitempty"`
	// Commit is the YAML to commit to move them to a copy; empty if no NodePool refers to it.
	Commit string `json:"commit,omitempty"`
}

// ClassReportOf returns what uses an EC2NodeClass that is being deleted, and the commit that moves its nodes to a copy.
func ClassReportOf(name string, classes, pools []unstructured.Unstructured, claims []karpv1.NodeClaim) (*ClassReport, error) {
	ref := render.Ref{Kind: render.EC2NodeClass, Name: name}
	has := func(name string) int {
		return slices.IndexFunc(classes, func(o unstructured.Unstructured) bool { return o.GetName() == name })
	}
	at := has(name)
	if at < 0 {
		return nil, fmt.Errorf("%s not found", ref)
	}
	class := classes[at]
	if class.GetDeletionTimestamp() == nil {
		return nil, fmt.Errorf("%s is not being deleted: nothing keeps nodes from being launched from it by that", ref)
	}
	report := &ClassReport{Class: ref.String(), Deleted: *class.GetDeletionTimestamp(), Finalizers: class.GetFinalizers()}
	for i := range claims {
		if names := claims[i].Spec.NodeClassRef; names != nil && names.Name == name && !render.ClassOfAutoMode(names.Group) {
			report.NodeClaims++
		}
	}
	copied := plan.CopyName(name, func(name string) bool { return has(name) >= 0 })
	documents := []any{map[string]any{
		"apiVersion": class.GetAPIVersion(), "kind": class.GetKind(), "metadata": map[string]any{"name": copied}, "spec": class.Object["spec"],
	}}
	for i := range pools {
		ref := render.Ref{Kind: render.NodePool, Name: pools[i].GetName()}
		if named, ok := render.Reference(ref, &pools[i]); ok && named.Name == name {
			report.NodePools = append(report.NodePools, ref.String())
			documents = append(documents, pointed(&pools[i], copied))
		}
	}
	if len(report.NodePools) > 0 {
		commit, err := yamlOf(documents)
		if err != nil {
			return nil, err
		}
		report.Commit = commit
	}
	return report, nil
}

// pointed returns the fields by which a NodePool refers to a class.
func pointed(pool *unstructured.Unstructured, class string) any {
	fields := &unstructured.Unstructured{Object: map[string]any{}}
	fields.SetAPIVersion(pool.GetAPIVersion())
	fields.SetKind(pool.GetKind())
	fields.SetName(pool.GetName())
	kind, _ := render.KindOf(render.NodePool)
	_ = unstructured.SetNestedField(fields.Object, class, kind.RefPath...) // each map on the path is new
	return fields.Object
}

// yamlOf returns the documents as one file.
func yamlOf(documents []any) (string, error) {
	var texts []string
	for _, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			return "", fmt.Errorf("write YAML: %w", err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n"), nil
}

// WaitsFor describes what a class that no NodePool refers to waits for. Karpenter removes its finalizer once no
// NodeClaim refers to the class and its instance profiles are deleted (karpenter-provider-aws
// pkg/controllers/nodeclass/controller.go); only its log has the reason why it does not.
func (r *ClassReport) WaitsFor() string {
	if r.NodeClaims > 0 {
		return english.PluralWord(r.NodeClaims, "that NodeClaim", "these NodeClaims") + " to be deleted"
	}
	words := blocker.WaitsForFinalizers(r.Finalizers)
	if slices.Contains(r.Finalizers, awsv1.TerminationFinalizer) {
		words += "; where that does not happen within a minute, the log of Karpenter's controller has its message"
	}
	return words
}

// PoolRemoval is what a NodePool that is being removed waits for.
type PoolRemoval struct {
	// NodeSync that removes it.
	NodeSync string `json:"nodeSync"`

	v1alpha1.Removal `json:",inline"`

	// Grace is spec.removal.grace of the NodeSync.
	Grace time.Duration `json:"-"`
}

// breakGlassOf returns the commands for a node, by its name or its NodeClaim's.
func (r PoolRemoval) breakGlassOf(node, claim string) []v1alpha1.BreakGlass {
	return slices.DeleteFunc(slices.Clone(r.BreakGlass), func(g v1alpha1.BreakGlass) bool {
		return g.Node == "" || g.Node != node && g.Node != claim
	})
}

// RemovalsOfPool returns those of a NodePool, from the statuses of NodeSyncs.
func RemovalsOfPool(syncs []v1alpha1.NodeSync, pool string) (found []PoolRemoval) {
	for i := range syncs {
		for _, removal := range syncs[i].Status.Removals {
			if removal.Kind == render.NodePool && removal.Name == pool {
				found = append(found, PoolRemoval{NodeSync: syncs[i].Name, Removal: removal, Grace: syncs[i].GetRemovalGrace()})
			}
		}
	}
	return found
}
