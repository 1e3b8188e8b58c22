package cluster

import (
	"reflect"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// DefinitionChanged lets the events of a NodePool or EC2NodeClass through that
// can change what plumbline does: its spec, labels, fields' owners, deletion,
// readiness, whether it has reached a limit, or which AMIs, groups and subnets it calls for. Karpenter
// writes other status all the time.
func DefinitionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, newer := toUnstructured(e.ObjectOld), toUnstructured(e.ObjectNew)
		if old == nil || newer == nil {
			return true
		}
		before, after := plan.NewObject(old), plan.NewObject(newer)
		return before.GetGeneration() != after.GetGeneration() ||
			(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
			!reflect.DeepEqual(before.GetLabels(), after.GetLabels()) ||
			!reflect.DeepEqual(fieldOwners(old), fieldOwners(newer)) ||
			Ready(before) != Ready(after) || Registers(before) != Registers(after) ||
			plan.LimitReached(old) != plan.LimitReached(newer) || resolvedOtherwise(old, newer)
	}}
}

// resolvedOtherwise reports whether Karpenter has looked for the AMIs of an EC2NodeClass again, and for
// others, or has found others, or other groups, subnets or reservations.
func resolvedOtherwise(old, newer *unstructured.Unstructured) bool {
	_, before := plan.ResolvedAMIs(old)
	_, after := plan.ResolvedAMIs(newer)
	return before != after || !reflect.DeepEqual(amisOf(old), amisOf(newer)) ||
		slices.ContainsFunc(resolvedLists, func(list string) bool { return !reflect.DeepEqual(idsOf(old, list), idsOf(newer, list)) })
}

// fieldOwners are the managers of an object's fields, and of which, as the cache
// keeps them: not of its status, and not when they wrote.
func fieldOwners(obj *unstructured.Unstructured) any {
	owners, _, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	if err != nil {
		return nil
	}
	return owners
}

func toUnstructured(obj client.Object) *unstructured.Unstructured {
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// NodeClaimChanged lets the events of a NodeClaim through that move a removal:
// it appears, gets its instance, is deleted, drains, goes.
func NodeClaimChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*karpv1.NodeClaim)
		after, ok2 := e.ObjectNew.(*karpv1.NodeClaim)
		if !ok || !ok2 {
			return true
		}
		return (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			before.Status.ProviderID != after.Status.ProviderID || before.Status.NodeName != after.Status.NodeName ||
			(joinOf(before) == nil) != (joinOf(after) == nil) ||
			!reflect.DeepEqual(waking(before.Status.Conditions), waking(after.Status.Conditions))
	}}
}

// waking are the conditions of a NodeClaim that a reconcile goes by. Whether it is initialized is only
// shown.
func waking(conditions []status.Condition) []status.Condition {
	shown := func(c status.Condition) bool { return c.Type == karpv1.ConditionTypeInitialized }
	if !slices.ContainsFunc(conditions, shown) {
		return conditions
	}
	kept := slices.DeleteFunc(slices.Clone(conditions), shown)
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// CRDChanged lets the events of a CRD through that change it, or whether it is
// served.
func CRDChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition)
		after, ok2 := e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
		if !ok || !ok2 {
			return true
		}
		return Version(before) != Version(after) || Established(before) != Established(after) ||
			!reflect.DeepEqual(before.Status.AcceptedNames, after.Status.AcceptedNames)
	}}
}
