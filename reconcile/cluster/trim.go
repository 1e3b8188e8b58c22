package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unique"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// CacheOptions defines what the watch cache contains, and reduces each object to the parts that plumbline uses: memory
// grows with the NodeClaims, so each byte of them counts. refusals records the watches that fail.
func CacheOptions(refusals *Refusals) cache.Options {
	karpenters := labels.SelectorFromSet(ControllerLabels())
	objects := map[client.Object]cache.ByObject{
		&apiextensionsv1.CustomResourceDefinition{}: {Transform: trimCRD},
		&appsv1.Deployment{}:                        {Label: karpenters, Transform: trimDeployment},
		&corev1.Event{}:                             poolEvents(),
	}
	for _, kind := range ChartedKinds() {
		objects[Charted(kind)] = cache.ByObject{Label: karpenters, Transform: trimCharted}
	}
	return cache.Options{
		DefaultWatchErrorHandler: refusals.Handle,
		ByObject:                 objects,
		// Karpenter's kinds have no entries of their own, because an entry requires its CRD at the start.
		DefaultTransform: func(obj any) (any, error) {
			switch o := obj.(type) {
			case *karpv1.NodeClaim:
				return trimNodeClaim(o), nil
			case *unstructured.Unstructured:
				return trimDefinition(o)
			case *v1alpha1.Approval:
				// A user who may create Approvals controls their size, and plumbline reads none of these fields.
				o.Labels, o.Annotations, o.ManagedFields = nil, nil, nil
				return o, nil
			}
			return obj, nil
		},
	}
}

// ControllerLabels selects Karpenter's Deployment, whichever tool installed it (charts/karpenter/templates/_helpers.tpl
// in karpenter-provider-aws).
func ControllerLabels() labels.Set {
	return labels.Set{"app.kubernetes.io/name": "karpenter"}
}

func trimCRD(obj any) (any, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil
	}
	trimmed := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: crd.ObjectMeta, Status: crd.Status}
	for _, v := range crd.Spec.Versions {
		trimmed.Spec.Versions = append(trimmed.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served})
	}
	managers := owners.TrimManagers(crd.ManagedFields)
	trimMetadata(trimmed)
	trimmed.ManagedFields = managers
	return trimmed, nil
}

func trimDeployment(obj any) (any, error) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return obj, nil
	}
	trimMetadata(deployment)
	deployment.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: deployment.Spec.Template.ObjectMeta}
	return deployment, nil
}

func trimCharted(obj any) (any, error) {
	if object, ok := obj.(*metav1.PartialObjectMetadata); ok {
		trimMetadata(object)
	}
	return obj, nil
}

// trimMetadata removes the managed fields, kubectl's copy of the object, and the count of rollouts, which the
// Deployment's controller updates.
func trimMetadata(object client.Object) {
	object.SetManagedFields(nil)
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, "deployment.kubernetes.io/revision")
	object.SetAnnotations(annotations)
}

// trimDefinition keeps the parts of a NodePool or EC2NodeClass that are compared with Git, the owners of its fields,
// and whether it is Ready. It does not change its argument, which is trimmed again when a watch is reopened, and may be
// read by others at that time.
func trimDefinition(full *unstructured.Unstructured) (any, error) {
	obj := &unstructured.Unstructured{Object: maps.Clone(full.Object)}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		obj.Object["metadata"] = metadata
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			// kubectl's copy of the whole object.
			delete(annotations, corev1.LastAppliedConfigAnnotation)
			metadata["annotations"] = annotations
		}
	}
	if err := plan.PackManagedFields(obj); err != nil {
		return nil, fmt.Errorf("trim %s/%s: %w", obj.GetKind(), obj.GetName(), err)
	}
	trimStatus(obj)
	return obj, nil
}

// trimStatus keeps the Ready condition in a status, the conditions that say why it is not True, a NodePool's usage of
// its limited resources, what Karpenter has resolved for the selectors of an EC2NodeClass, and for which generation, and
// the number of a CapacityBuffer's pods.
func trimStatus(obj *unstructured.Unstructured) {
	var kept []any
	if value, _, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions"); err == nil {
		conditions, _ := value.([]any)
		for _, c := range conditions {
			fields, ok := c.(map[string]any)
			kind, isFalse := fields["type"], fields["status"] == string(metav1.ConditionFalse)
			if ok && (kind == readyConditionOf(obj.GetKind()) || isFalse || slices.Contains(resolvedConditions, kind)) {
				fields = maps.Clone(fields)
				delete(fields, "lastTransitionTime")
				kept = append(kept, fields)
			}
		}
	}
	status := map[string]any{}
	if kept != nil {
		status["conditions"] = kept
	}
	if used := limited(obj); used != nil {
		status["resources"] = used
	}
	if replicas, found, err := unstructured.NestedInt64(obj.Object, "status", "replicas"); err == nil && found {
		status["replicas"] = replicas
	}
	if amis := amisOf(obj); amis != nil {
		status["amis"] = amis
	}
	for _, list := range resolvedLists {
		if ids := idsOf(obj, list); ids != nil {
			status[list] = ids
		}
	}
	delete(obj.Object, "status")
	if len(status) > 0 {
		obj.Object["status"] = status
	}
}

// amisOf returns the AMIs in the status of an EC2NodeClass, with the fields that are compared with nodes.
func amisOf(obj *unstructured.Unstructured) (kept []any) {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "amis")
	amis, _ := value.([]any)
	for _, a := range amis {
		if fields, ok := a.(map[string]any); ok {
			kept = append(kept, map[string]any{"id": fields["id"], "requirements": fields["requirements"]})
		}
	}
	return kept
}

// resolvedConditions are the conditions that are kept even if they are True: they report for which generation of an EC2NodeClass the
// AMIs, subnets and security groups in its status are.
var resolvedConditions = []any{awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady}

// resolvedLists are the lists in the status of an EC2NodeClass whose IDs are kept: nodes are outdated if they do not
// match them.
var resolvedLists = []string{"securityGroups", "subnets", "capacityReservations"}

// idsOf returns the IDs in such a list, sorted: Karpenter's order changes with the free addresses of the subnets
// (karpenter-provider-aws pkg/controllers/nodeclass/subnet.go, 1.14.1).
func idsOf(obj *unstructured.Unstructured, list string) (kept []any) {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", list)
	found, _ := value.([]any)
	var ids []string
	for _, one := range found {
		fields, _ := one.(map[string]any)
		if id, ok := fields["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		kept = append(kept, map[string]any{"id": id})
	}
	return kept
}

// limited returns a NodePool's usage of the resources that its spec limits.
func limited(obj *unstructured.Unstructured) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "limits")
	limits, _ := value.(map[string]any)
	value, _, _ = unstructured.NestedFieldNoCopy(obj.Object, "status", "resources")
	resources, _ := value.(map[string]any)
	var used map[string]any
	for name := range limits {
		if amount, found := resources[name]; found {
			if used == nil {
				used = map[string]any{}
			}
			used[name] = amount
		}
	}
	return used
}

// trimNodeClaim keeps what a Plan and a removal use, and what explains its deletion. Texts that many NodeClaims share
// are stored once.
func trimNodeClaim(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	trimmed := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		CreationTimestamp: claim.CreationTimestamp, DeletionTimestamp: claim.DeletionTimestamp,
	}}
	if pool, found := claim.Labels[karpv1.NodePoolLabelKey]; found {
		trimmed.Labels = map[string]string{
			karpv1.NodePoolLabelKey:         intern(pool),
			packedLabels:                    string(intern(labelsOf(claim))),
			packedHashes:                    string(intern(hashesOf(claim))),
			karpv1.ConditionTypeLaunched:    intern(conditionAfter(claim, karpv1.ConditionTypeLaunched).String()),
			karpv1.ConditionTypeRegistered:  intern(conditionAfter(claim, karpv1.ConditionTypeRegistered).String()),
			karpv1.ConditionTypeInitialized: intern(conditionAfter(claim, karpv1.ConditionTypeInitialized).String()),
		}
	}
	for _, finalizer := range claim.Finalizers {
		trimmed.Finalizers = append(trimmed.Finalizers, intern(finalizer))
	}
	for _, owner := range claim.OwnerReferences {
		trimmed.OwnerReferences = append(trimmed.OwnerReferences, metav1.OwnerReference{
			APIVersion: intern(owner.APIVersion), Kind: intern(owner.Kind), Name: intern(owner.Name), UID: intern(owner.UID),
		})
	}
	if ref := claim.Spec.NodeClassRef; ref != nil {
		class := unique.Make(*ref).Value()
		trimmed.Spec.NodeClassRef = &class
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil {
		trimmed.Spec.ExpireAfter.Duration = ptr.To(*after)
	}
	if grace := claim.Spec.TerminationGracePeriod; grace != nil {
		trimmed.Spec.TerminationGracePeriod = ptr.To(*grace)
	}
	if at, found := claim.Annotations[terminationTime]; found {
		trimmed.Annotations = map[string]string{terminationTime: at}
	}
	trimmed.Status.NodeName = claim.Status.NodeName
	trimmed.Status.ProviderID = claim.Status.ProviderID
	trimmed.Status.ImageID = intern(claim.Status.ImageID)
	trimmed.Status.Conditions = progressConditions(claim.Status.Conditions)
	return trimmed
}

// packedLabels is the key for all labels of a NodeClaim in the cache, packed into one text, because a map for each
// would take more memory than everything else in it. No object in the cluster has this key.
const packedLabels = "labels"

// packedHashes is the key for Karpenter's hashes, packed in the same way.
const packedHashes = "hashes"

// conditionAfter returns how long after the creation of a NodeClaim, trimmed or not, a condition became True; 0 if it
// is not True. The cache stores it as a label with the condition's name, because many NodeClaims have the same number
// of seconds.
func conditionAfter(claim *karpv1.NodeClaim, condition string) time.Duration {
	if packed, trimmed := claim.Labels[condition]; trimmed {
		took, _ := time.ParseDuration(packed) // it was written by Duration.String
		return took
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == condition && c.Status == metav1.ConditionTrue {
			return max(0, c.LastTransitionTime.Sub(claim.CreationTimestamp.Time).Truncate(time.Second))
		}
	}
	return 0
}

// uninitialized reports whether Karpenter has set Initialized to anything but True on a NodeClaim, trimmed or not: it
// does so when it first reconciles one, before that has a node.
func uninitialized(claim *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c status.Condition) bool {
		return c.Type == karpv1.ConditionTypeInitialized && c.Status != metav1.ConditionTrue
	})
}

// hashesOf returns the hashes that Karpenter has stored on a NodeClaim, trimmed or not.
func hashesOf(claim *karpv1.NodeClaim) plan.Hashes {
	if packed, trimmed := claim.Labels[packedHashes]; trimmed {
		return plan.Hashes(packed)
	}
	return plan.HashesOf(claim.Annotations)
}

// labelsOf returns the labels of a NodeClaim, trimmed or not, except the host name, which is unique.
func labelsOf(claim *karpv1.NodeClaim) plan.Labels {
	if packed, trimmed := claim.Labels[packedLabels]; trimmed {
		return plan.Labels(packed)
	}
	kept := maps.Clone(claim.Labels)
	delete(kept, corev1.LabelHostname)
	return plan.PackLabels(kept)
}

// progressConditions returns the conditions that show the progress of a NodeClaim's termination, why it was not
// launched, that it has drifted, and, without the reason, that it is not initialized.
func progressConditions(conditions []status.Condition) []status.Condition {
	var kept []status.Condition
	for _, c := range conditions {
		leaving := slices.Contains([]string{
			karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating,
		}, c.Type)
		drifted := c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue
		drifted = drifted || c.Type == karpv1.ConditionTypeDisruptionReason && c.Status == metav1.ConditionTrue
		if leaving || drifted || c.Type == karpv1.ConditionTypeLaunched && c.Status != metav1.ConditionTrue {
			kept = append(kept, c)
		} else if c.Type == karpv1.ConditionTypeInitialized && c.Status != metav1.ConditionTrue {
			kept = append(kept, status.Condition{Type: intern(c.Type), Status: metav1.ConditionUnknown})
		}
	}
	return kept
}

// intern returns a text that many objects have in common, stored once.
func intern[T ~string](text T) T { return unique.Make(text).Value() }
