package observe

import (
	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// sentNodeClaim is what is read of the JSON of a NodeClaim: what trimNodeClaim keeps something of.
// Quantities, requirements and managedFields are most of the rest, and cost more than all of this.
type sentNodeClaim struct {
	Metadata struct {
		Name              string                  `json:"name"`
		UID               types.UID               `json:"uid"`
		ResourceVersion   string                  `json:"resourceVersion"`
		CreationTimestamp metav1.Time             `json:"creationTimestamp"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
		Labels            map[string]string       `json:"labels"`
		Annotations       map[string]string       `json:"annotations"`
		Finalizers        []string                `json:"finalizers"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeClassRef *karpv1.NodeClassReference `json:"nodeClassRef"`
		ExpireAfter  karpv1.NillableDuration    `json:"expireAfter"`
	} `json:"spec"`
	Status struct {
		NodeName   string             `json:"nodeName"`
		ProviderID string             `json:"providerID"`
		ImageID    string             `json:"imageID"`
		Conditions []status.Condition `json:"conditions"`
	} `json:"status"`
}

// readNodeClaim reads the JSON of a NodeClaim, as far as it is kept.
func readNodeClaim(raw []byte) (runtime.Object, error) {
	var sent sentNodeClaim
	if err := json.Unmarshal(raw, &sent); err != nil {
		return nil, err
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: sent.Metadata.Name, UID: sent.Metadata.UID, ResourceVersion: sent.Metadata.ResourceVersion,
		CreationTimestamp: sent.Metadata.CreationTimestamp, DeletionTimestamp: sent.Metadata.DeletionTimestamp,
		Labels: sent.Metadata.Labels, Annotations: sent.Metadata.Annotations,
		Finalizers: sent.Metadata.Finalizers, OwnerReferences: sent.Metadata.OwnerReferences,
	}}
	claim.Spec.NodeClassRef, claim.Spec.ExpireAfter = sent.Spec.NodeClassRef, sent.Spec.ExpireAfter
	claim.Status.NodeName, claim.Status.ProviderID = sent.Status.NodeName, sent.Status.ProviderID
	claim.Status.ImageID, claim.Status.Conditions = sent.Status.ImageID, sent.Status.Conditions
	return claim, nil
}
