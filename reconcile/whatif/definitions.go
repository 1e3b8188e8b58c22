package whatif

import (
	"fmt"
	"maps"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// ready has each NodePool of a commit count as Ready that will be once its EC2NodeClass is known to
// have zones, and gives a class that is new, or whose subnets are selected otherwise, the zones of
// one that selects the same. It names the pools that cannot be known, and notes which get no pod.
func ready(before, after []map[string]any) (definitions []map[string]any, unknown, notes []string) {
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
			unknown = append(unknown, fmt.Sprintf("unavailable: NodePool/%s gets no pod here: the zones of EC2NodeClass/%s are not known before Karpenter has found its subnets", object.GetName(), class))
		case unchangedAndUnready(object, before):
			notes = append(notes, fmt.Sprintf("NodePool/%s gets no pod: it is not Ready today, and the commit does not change it", object.GetName()))
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

// zonesFor is the status that has the zones of a class: its own where it selects subnets as before,
// or that of another that selects the same. It is nil where there is none.
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

// classOf is the EC2NodeClass that a NodePool names.
func classOf(pool map[string]any) string {
	name, _, _ := unstructured.NestedString(pool, "spec", "template", "spec", "nodeClassRef", "name")
	return name
}

// WithStatus is a definition with a status in the place of its own; nil has none.
func WithStatus(definition, status map[string]any) map[string]any {
	definition = maps.Clone(definition)
	delete(definition, "status")
	if status != nil {
		definition["status"] = status
	}
	return definition
}

// unchangedAndUnready says that a pool of today is not Ready, and that the commit leaves it and so
// whatever keeps it from being so.
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

// withReady has a NodePool be Ready, with what that hangs on (pkg/apis/v1/nodepool_status.go in
// sigs.k8s.io/karpenter, 1.14.1), which Karpenter's scheduling asks of it.
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
