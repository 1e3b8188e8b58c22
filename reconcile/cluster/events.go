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

// DefinitionChanged admits the events of a NodePool or EC2NodeClass that can change what plumbline does: changes of its
// spec, labels, field owners, deletion, readiness, whether it has reached a limit, or which AMIs, security groups and
// subnets it resolves to. Karpenter updates other parts of the status all the time.
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
			plan.LimitReached(old) != plan.LimitReached(newer) || resolvedOtherwise(old, newer) ||
			plan.UnresolvedNetwork(before) != plan.UnresolvedNetwork(after)
	}}
}

// resolvedOtherwise reports whether Karpenter has resolved the AMIs of an EC2NodeClass for other terms, or has found
// other AMIs, security groups, subnets or reservations.
func resolvedOtherwise(old, newer *unstructured.Unstructured) bool {
	_, before := plan.ResolvedAMIs(old)
	_, after := plan.ResolvedAMIs(newer)
	return before != after || !reflect.DeepEqual(amisOf(old), amisOf(newer)) ||
		slices.ContainsFunc(resolvedLists, func(list string) bool { return !reflect.DeepEqual(idsOf(old, list), idsOf(newer, list)) })
}

// fieldOwners returns the managers of an object's fields and their fields, as the cache keeps them: without those of
// the status, and without times.
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

// NodeClaimChanged admits the events of a NodeClaim that affect a removal: it is created, gets its instance, is
// deleted, drains, or is gone.
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
			!reflect.DeepEqual(relevantConditions(before.Status.Conditions), relevantConditions(after.Status.Conditions))
	}}
}

// relevantConditions returns the conditions of a NodeClaim that a reconcile uses. Initialized is only displayed.
func relevantConditions(conditions []status.Condition) []status.Condition {
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

// CRDChanged admits the events of a CRD that change it, or whether it is served.
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
