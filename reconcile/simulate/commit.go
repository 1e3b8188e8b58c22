package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Commit is what to simulate.
type Commit struct {
	// Definitions are all NodePools, EC2NodeClasses and NodeOverlays once the commit is in force, of any owner, with
	// their current status.
	Definitions []map[string]any
	// Touched are the NodeClaims that the commit terminates, or makes Karpenter replace.
	Touched map[types.UID]bool
}

// CommitOf returns the result of a Plan, including what the guard holds: the definitions once it is in force, and the
// NodeClaims that it touches. The notes name nodes for which this is unknown.
func CommitOf(made *plan.Plan, live plan.Live, definitions []map[string]any) (commit Commit, notes []string) {
	gone := map[render.Ref]bool{}
	for i := range made.Removals {
		if c := &made.Removals[i]; !c.Orphan {
			gone[c.Ref] = true
		}
	}
	touches := func(c *plan.Change) bool { return c.Effect == plan.EffectReplace || c.Effect == plan.EffectDrain }
	commit = commitOf(made, live, definitions, gone, touches)
	for i := range made.Changes {
		if change := &made.Changes[i]; writes(change) && touches(change) {
			if note := unidentified(change); note != "" {
				notes = append(notes, note)
			}
		}
	}
	return commit, notes
}

// unidentified returns a note on the nodes of a Change that cannot be identified; empty if there are none.
func unidentified(change *plan.Change) string {
	certain, _ := change.ScalesDown()
	switch more := change.Nodes - len(change.NodeClaims()); {
	case change.UpTo && more > 0:
		return fmt.Sprintf("%s: up to %d more nodes are replaced, but it is unknown which, so their pods are not simulated", change.Ref, more)
	case change.Effect == plan.EffectDrain && !change.UpTo && more > len(certain):
		return fmt.Sprintf("%s: %s terminated because of fewer replicas, but it is unknown which, so their pods are not simulated",
			change.Ref, english.Plural(more-len(certain), "node is", "nodes are"))
	}
	return ""
}

// Ending returns the result of a Plan without what is held. Only removals touch nodes, including those that have
// started: any other node is terminated only after its own pool has replaced it.
func Ending(made *plan.Plan, live plan.Live, definitions []map[string]any) Commit {
	gone := map[render.Ref]bool{}
	for _, ref := range made.Leaving(live) {
		gone[ref] = true
	}
	unheld := &plan.Plan{Changes: slices.DeleteFunc(slices.Clone(made.Changes), func(c plan.Change) bool { return c.Action == plan.Hold })}
	return commitOf(unheld, live, definitions, gone, func(*plan.Change) bool { return false })
}

// writes reports whether a commit makes a Change.
func writes(change *plan.Change) bool {
	return change.Err == nil && change.Action != plan.Drifted && change.Action != plan.None
}

func commitOf(
	made *plan.Plan, live plan.Live, definitions []map[string]any, gone map[render.Ref]bool, touches func(*plan.Change) bool,
) Commit {
	commit, written := Commit{Touched: map[types.UID]bool{}}, map[render.Ref]*unstructured.Unstructured{}
	for i := range made.Changes {
		change := &made.Changes[i]
		if !writes(change) {
			continue
		}
		written[change.Ref] = cmp.Or(change.Wanted(), change.Object.Desired)
		if !touches(change) {
			continue
		}
		certain, _ := change.ScalesDown()
		for _, uid := range slices.Concat(change.NodeClaims(), certain) {
			commit.Touched[uid] = true
		}
	}
	for i := range live.NodeClaims {
		claim := &live.NodeClaims[i]
		if gone[render.Ref{Kind: render.NodePool, Name: claim.Pool}] {
			commit.Touched[claim.UID] = true
		}
	}
	commit.Definitions = after(definitions, written, gone)
	return commit
}

// after returns the definitions once the changes are written and the removed ones are gone. A definition keeps its
// status.
func after(definitions []map[string]any, written map[render.Ref]*unstructured.Unstructured, gone map[render.Ref]bool) []map[string]any {
	var there []map[string]any
	known := map[render.Ref]bool{}
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		ref := render.RefOf(&object)
		known[ref] = true
		switch desired := written[ref]; {
		case gone[ref]:
		case desired != nil:
			there = append(there, withStatusOf(desired.Object, definition))
		default:
			there = append(there, definition)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(written), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
		if !known[ref] {
			there = append(there, withStatusOf(written[ref].Object, nil))
		}
	}
	return there
}

func withStatusOf(desired, live map[string]any) map[string]any {
	status, _ := live["status"].(map[string]any)
	return WithStatus(desired, status)
}

// unzoned is a NodePool whose EC2NodeClass has no zones yet.
type unzoned struct{ pool, class string }

func (u unzoned) why() string {
	return fmt.Sprintf("the zones of EC2NodeClass/%s are unknown until Karpenter has resolved its subnets", u.class)
}

// ready makes each NodePool of a commit Ready that will be once its EC2NodeClass is known to have zones, and gives a
// class that is new, or has changed subnet selectors, the zones of one with the same selectors. It returns the pools
// for which this is unknown, and notes on those that get no pods.
func ready(before, after []map[string]any) (definitions []map[string]any, unknown []unzoned, notes []string) {
	known := classesOf(before)
	zoned := map[string]bool{}
	for _, definition := range after {
		object := unstructured.Unstructured{Object: definition}
		if object.GetKind() != render.EC2NodeClass {
			continue
		}
		status := zonesFor(object, known)
		zoned[object.GetName()] = status != nil
		definitions = append(definitions, WithStatus(definition, status))
	}
	for _, definition := range after {
		object := unstructured.Unstructured{Object: definition}
		switch class := classOf(definition); {
		case object.GetKind() == render.EC2NodeClass:
		case object.GetKind() != render.NodePool:
			definitions = append(definitions, definition)
		case !zoned[class]:
			unknown = append(unknown, unzoned{pool: object.GetName(), class: class})
		case unchangedAndUnready(object, before):
			notes = append(notes, fmt.Sprintf("NodePool/%s gets no pods: it is not Ready now, and the commit does not change it", object.GetName()))
		default:
			definitions = append(definitions, withReady(definition))
		}
	}
	return definitions, unknown, notes
}

func classesOf(definitions []map[string]any) []unstructured.Unstructured {
	var found []unstructured.Unstructured
	for _, definition := range definitions {
		if object := (unstructured.Unstructured{Object: definition}); object.GetKind() == render.EC2NodeClass {
			found = append(found, object)
		}
	}
	return found
}

// zonesFor returns the status that contains the zones of a class: its own if its subnet selectors are unchanged, or
// that of another class with the same selectors. It is nil if there is none.
func zonesFor(class unstructured.Unstructured, known []unstructured.Unstructured) map[string]any {
	wanted := subnetTerms(class)
	own := func(c unstructured.Unstructured) bool { return c.GetName() == class.GetName() }
	for _, same := range []bool{true, false} {
		for _, candidate := range known {
			subnets, _, _ := unstructured.NestedSlice(candidate.Object, "status", "subnets")
			if own(candidate) != same || len(subnets) == 0 || !equality.Semantic.DeepEqual(wanted, subnetTerms(candidate)) {
				continue
			}
			if same {
				found, _, _ := unstructured.NestedMap(candidate.Object, "status")
				return found
			}
			return map[string]any{"subnets": subnets}
		}
	}
	return nil
}

func subnetTerms(class unstructured.Unstructured) any {
	terms, _, _ := unstructured.NestedFieldNoCopy(class.Object, "spec", "subnetSelectorTerms")
	return terms
}

// classOf returns the EC2NodeClass that a NodePool references.
func classOf(pool map[string]any) string {
	name, _, _ := unstructured.NestedString(pool, "spec", "template", "spec", "nodeClassRef", "name")
	return name
}

// WithStatus returns a definition with its status replaced; if nil, removed.
func WithStatus(definition, status map[string]any) map[string]any {
	definition = maps.Clone(definition)
	delete(definition, "status")
	if status != nil {
		definition["status"] = status
	}
	return definition
}

// unchangedAndUnready reports whether an existing pool is not Ready and the commit does not change it, so it stays not
// Ready.
func unchangedAndUnready(pool unstructured.Unstructured, before []map[string]any) bool {
	for _, definition := range before {
		live := unstructured.Unstructured{Object: definition}
		if live.GetKind() == render.NodePool && live.GetName() == pool.GetName() {
			return equality.Semantic.DeepEqual(live.Object["spec"], pool.Object["spec"]) && notReady(live)
		}
	}
	return false
}

func notReady(object unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == status.ConditionReady && fields["status"] == string(metav1.ConditionFalse)
	})
}

// withReady makes a NodePool Ready, including the conditions that Ready depends on (pkg/apis/v1/nodepool_status.go in
// sigs.k8s.io/karpenter, 1.14.1), because Karpenter's scheduling requires it.
func withReady(pool map[string]any) map[string]any {
	object := unstructured.Unstructured{Object: pool}
	var conditions []any
	for _, kind := range []string{status.ConditionReady, karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady} {
		conditions = append(conditions, map[string]any{
			"type": kind, "status": string(metav1.ConditionTrue), "reason": kind, "message": "",
			"lastTransitionTime": "2006-01-02T15:04:05Z", "observedGeneration": object.GetGeneration(),
		})
	}
	return WithStatus(pool, map[string]any{"conditions": conditions})
}

// ofCronJob matches the name of a Job that a CronJob has created: that of the CronJob and the minute.
var ofCronJob = regexp.MustCompile(`^(.+)-[0-9]{8,}$`)

// workloadOf returns the namespace, kind and name of a pod's owner, with names that stay the same while its pods are
// replaced: that of a Deployment, not of its ReplicaSet, and that of a CronJob, not of its Job.
func workloadOf(pod *corev1.Pod) string {
	kind, name := "Pod", pod.Name
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kind, name = owner.Kind, owner.Name
	}
	hash := "-" + pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	switch found := ofCronJob.FindStringSubmatch(name); {
	case kind == "ReplicaSet" && hash != "-" && strings.HasSuffix(name, hash):
		kind, name = "Deployment", strings.TrimSuffix(name, hash)
	case kind == "Job" && found != nil:
		kind, name = "CronJob", found[1]
	}
	return strings.Join([]string{pod.Namespace, kind, name}, "/")
}
