package recorder

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// Record is a NodeClaim that has ended, or is ending.
type Record struct {
	NodeClaim string `json:"nodeClaim"`
	// Node is its Node; empty where none has registered.
	Node string `json:"node,omitempty"`
	// Instance is the ID of its EC2 instance; empty where none was launched.
	Instance     string `json:"instance,omitempty"`
	Pool         string `json:"pool"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	// Created is when the NodeClaim was made, and Deleted when its deletion began.
	Created metav1.Time `json:"created"`
	Deleted metav1.Time `json:"deleted,omitzero"`
	// Drained, VolumesDetached and InstanceTerminating are when Karpenter's conditions of these
	// names became True; zero where that was not seen.
	Drained             metav1.Time `json:"drained,omitzero"`
	VolumesDetached     metav1.Time `json:"volumesDetached,omitzero"`
	InstanceTerminating metav1.Time `json:"instanceTerminating,omitzero"`
	// Gone is when the NodeClaim was gone; zero while it is ending.
	Gone metav1.Time `json:"gone,omitzero"`
	// Pods is how many pods were on its node when the deletion began, without those of DaemonSets,
	// static ones and those that had ended; nil where they were not counted then.
	Pods *int `json:"pods,omitempty"`
	// Late says that nobody saw it go: it was gone by then.
	Late bool `json:"goneBefore,omitempty"`

	Cause Cause `json:"cause"`
	// Detail is a word of Karpenter's, such as its reason of the drift, or what was seen.
	Detail string `json:"detail,omitempty"`
	// Revision is the commit that was in force when the deletion began. ByRevision says that the
	// NodeClaim ended because of it: the rollout of that commit was under way, or it was the first
	// one without the pool.
	Revision   string `json:"revision,omitempty"`
	ByRevision bool   `json:"byRevision,omitempty"`
}

// End is when it was gone, or its deletion began where it is not.
func (r Record) End() time.Time {
	if !r.Gone.IsZero() {
		return r.Gone.Time
	}
	return r.Deleted.Time
}

// NewestFirst compares Records: those that are ending come first, the others by when they were gone.
func NewestFirst(a, b Record) int {
	switch {
	case a.Gone.IsZero() == b.Gone.IsZero():
		return b.End().Compare(a.End())
	case a.Gone.IsZero():
		return -1
	}
	return 1
}

// RecordOf is what a NodeClaim says of itself, trimmed or not.
func RecordOf(claim *karpv1.NodeClaim) Record {
	seen := observe.NodeClaim(claim)
	labels := seen.Labels.Map()
	r := Record{
		NodeClaim: claim.Name, Node: seen.Node, Instance: InstanceID(seen.ProviderID), Pool: seen.Pool,
		InstanceType: labels[corev1.LabelInstanceTypeStable], Zone: labels[corev1.LabelTopologyZone], CapacityType: labels[karpv1.CapacityTypeLabelKey],
		Created: claim.CreationTimestamp,
	}
	if claim.DeletionTimestamp != nil {
		r.Deleted = *claim.DeletionTimestamp
	}
	for _, c := range claim.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case karpv1.ConditionTypeDrained:
			r.Drained = c.LastTransitionTime
		case karpv1.ConditionTypeVolumesDetached:
			r.VolumesDetached = c.LastTransitionTime
		case karpv1.ConditionTypeInstanceTerminating:
			r.InstanceTerminating = c.LastTransitionTime
		}
	}
	return r
}

// InstanceID is the instance in a provider ID: i-1 of aws:///eu-west-1a/i-1.
func InstanceID(providerID string) string {
	return providerID[strings.LastIndex(providerID, "/")+1:]
}
