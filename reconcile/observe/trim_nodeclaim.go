package observe

import (
	"maps"
	"slices"
	"time"
	"unique"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// trimNodeClaim keeps what a Plan and a removal ask about, and what says why it ends. What many
// NodeClaims have in common is held once.
func trimNodeClaim(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	trimmed := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		CreationTimestamp: claim.CreationTimestamp, DeletionTimestamp: claim.DeletionTimestamp,
	}}
	if pool, found := claim.Labels[karpv1.NodePoolLabelKey]; found {
		trimmed.Labels = map[string]string{
			karpv1.NodePoolLabelKey: shared(pool),
			packedLabels:            string(shared(labelsOf(claim))),
			packedHashes:            string(shared(hashesOf(claim))),
			packedLaunch:            shared(launchOf(claim).String()),
		}
	}
	for _, finalizer := range claim.Finalizers {
		trimmed.Finalizers = append(trimmed.Finalizers, shared(finalizer))
	}
	for _, owner := range claim.OwnerReferences {
		trimmed.OwnerReferences = append(trimmed.OwnerReferences, metav1.OwnerReference{
			APIVersion: shared(owner.APIVersion), Kind: shared(owner.Kind), Name: shared(owner.Name), UID: shared(owner.UID),
		})
	}
	if ref := claim.Spec.NodeClassRef; ref != nil {
		class := unique.Make(*ref).Value()
		trimmed.Spec.NodeClassRef = &class
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil {
		trimmed.Spec.ExpireAfter.Duration = ptr.To(*after)
	}
	if at, found := claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]; found {
		trimmed.Annotations = map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: at}
	}
	trimmed.Status.NodeName = claim.Status.NodeName
	trimmed.Status.ProviderID = claim.Status.ProviderID
	trimmed.Status.ImageID = shared(claim.Status.ImageID)
	trimmed.Status.Conditions = telling(claim.Status.Conditions)
	return trimmed
}

// packedLabels is the key under which the cache keeps all labels of a NodeClaim, as
// one text: a map of them for each would take more than all else of it. It stands
// on no object in the cluster.
const packedLabels = "labels"

// packedHashes is the key of Karpenter's hashes, likewise.
const packedHashes = "hashes"

// packedLaunch is the key of how long the launch has taken: many have taken as many seconds.
const packedLaunch = "launch"

// launchOf is how long the launch of a NodeClaim, trimmed or not, has taken; 0 where it has not ended.
func launchOf(claim *karpv1.NodeClaim) time.Duration {
	if packed, trimmed := claim.Labels[packedLaunch]; trimmed {
		took, _ := time.ParseDuration(packed) // it is a Duration's own text
		return took
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeInitialized && c.Status == metav1.ConditionTrue {
			return max(0, c.LastTransitionTime.Sub(claim.CreationTimestamp.Time).Truncate(time.Second))
		}
	}
	return 0
}

// uninitialized says that Karpenter has said so of a NodeClaim, trimmed or not: it does from its first look
// at one, before that has a node.
func uninitialized(claim *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c status.Condition) bool {
		return c.Type == karpv1.ConditionTypeInitialized && c.Status != metav1.ConditionTrue
	})
}

// hashesOf are the hashes that Karpenter has noted on a NodeClaim, trimmed or not.
func hashesOf(claim *karpv1.NodeClaim) plan.Hashes {
	if packed, trimmed := claim.Labels[packedHashes]; trimmed {
		return plan.Hashes(packed)
	}
	return plan.HashesOf(claim.Annotations)
}

// labelsOf are the labels of a NodeClaim, trimmed or not, but for the name of its
// host, which is no other's.
func labelsOf(claim *karpv1.NodeClaim) plan.Labels {
	if packed, trimmed := claim.Labels[packedLabels]; trimmed {
		return plan.Labels(packed)
	}
	kept := maps.Clone(claim.Labels)
	delete(kept, corev1.LabelHostname)
	return plan.PackLabels(kept)
}

// telling are the conditions that say how far a NodeClaim's end has come, why it
// was not launched, that it has drifted, and, without why, that it is not initialized.
func telling(conditions []status.Condition) []status.Condition {
	var kept []status.Condition
	for _, c := range conditions {
		leaving := slices.Contains([]string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating}, c.Type)
		drifted := c.Type == karpv1.ConditionTypeDrifted && c.Status == metav1.ConditionTrue
		drifted = drifted || c.Type == karpv1.ConditionTypeDisruptionReason && c.Status == metav1.ConditionTrue
		if leaving || drifted || c.Type == karpv1.ConditionTypeLaunched && c.Status != metav1.ConditionTrue {
			kept = append(kept, c)
		} else if c.Type == karpv1.ConditionTypeInitialized && c.Status != metav1.ConditionTrue {
			kept = append(kept, status.Condition{Type: shared(c.Type), Status: metav1.ConditionUnknown})
		}
	}
	return kept
}

// shared is a text that many objects have, held once.
func shared[T ~string](text T) T { return unique.Make(text).Value() }
