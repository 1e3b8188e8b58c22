package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriftedObject is a definition that another client has changed or deleted.
type DriftedObject struct {
	// Kind of the object: NodePool, EC2NodeClass, NodeOverlay or CapacityBuffer.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Message lists the fields, with Git's value and the one found.
	Message string `json:"message"`
	// By are the field managers of those fields, if known.
	// +optional
	By []string `json:"by,omitempty"`
	// Since is when it was first seen.
	Since metav1.Time `json:"since"`
	// CorrectedAt is when it matched Git again; nil while it does not.
	// +optional
	CorrectedAt *metav1.Time `json:"correctedAt,omitempty"`
}

// InstanceDrift is how the EC2 instances of a NodeSync's pools differ from their definitions and NodeClaims, while
// Karpenter considers them in sync.
type InstanceDrift struct {
	// Failure is why they, or all of what they have, could not be compared, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// NotComparedSince is when the instances were last compared with EC2, or when that was first tried; the other fields
	// are from then. It is nil if the last comparison succeeded, in full or in part.
	// +optional
	NotComparedSince *metav1.Time `json:"notComparedSince,omitempty"`
	// Count is how many differ.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Instances are the first 20 of them, by ID.
	// +optional
	Instances []DriftedInstance `json:"instances,omitempty"`
	// Orphaned is how many of them belong to no NodeClaim.
	// +optional
	Orphaned int32 `json:"orphaned,omitempty"`
	// Volumes are those that are still attached to nodes that are gone.
	// +optional
	Volumes *LeftVolumes `json:"volumes,omitempty"`
	// Left are interfaces, launch templates and instance profiles of deleted nodes and EC2NodeClasses.
	// +optional
	Left *LeftResources `json:"left,omitempty"`
}

// Compared reports whether the last comparison succeeded, in full or in part. If it is nil, nothing has failed.
func (d *InstanceDrift) Compared() bool { return d == nil || d.NotComparedSince == nil }

// FailureMessage reports what was not compared, since when, and why; empty if all was.
func (d *InstanceDrift) FailureMessage() string {
	switch {
	case !d.Compared():
		return fmt.Sprintf("instances not compared with EC2 since %s: %s", d.NotComparedSince.UTC().Format(time.RFC3339), d.Failure)
	case d != nil && d.Failure != "":
		return "instances not compared in full: " + d.Failure
	}
	return ""
}

// LeftResources are what deleted nodes and EC2NodeClasses have left in AWS.
type LeftResources struct {
	// Failure is why some of them are unknown, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// Count is how many there are.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Resources are the first 20 of them.
	// +optional
	Resources []LeftResource `json:"resources,omitempty"`
}

// LeftResource is a resource in AWS of a node or an EC2NodeClass that was deleted.
type LeftResource struct {
	// Kind is NetworkInterface, LaunchTemplate or InstanceProfile.
	Kind string `json:"kind" redact:"-"`
	// ID in AWS; for an instance profile, its name.
	ID string `json:"id" redact:"-"`
	// Owned is true if this cluster is known to have created it: a NodeClaim had its instance, or its EC2NodeClass, by
	// UID or name, existed here. If not, another cluster of the same name may have created it.
	// +optional
	Owned bool `json:"owned,omitempty"`
	// Message says what it belonged to, and what to do.
	Message string `json:"message"`
	// Since is when it was first seen.
	Since metav1.Time `json:"since"`
}

// LeftVolumes are volumes that are attached to nodes or instances that are gone.
type LeftVolumes struct {
	// Failure is why they, or those in EC2, are unknown, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// Count is how many there are.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Volumes are the first 20 of them.
	// +optional
	Volumes []LeftVolume `json:"volumes,omitempty"`
}

// LeftVolume is a volume that is attached to a node or an instance that is gone.
type LeftVolume struct {
	// Name of the VolumeAttachment; for a volume without one, the volume's ID in EC2.
	Name string `json:"name" redact:"-"`
	// Volume is the PersistentVolume; empty if unknown.
	// +optional
	Volume string `json:"volume,omitempty" redact:"-"`
	// Driver is the CSI driver that must detach it.
	// +optional
	Driver string `json:"driver,omitempty" redact:"-"`
	// Node that is gone; for a volume in EC2, the instance.
	Node string `json:"node" redact:"-"`
	// Message says what remains, and what to do.
	Message string `json:"message"`
	// Since is when it was first seen.
	Since metav1.Time `json:"since"`
}

// DriftedInstance is an EC2 instance that differs from its definitions and its NodeClaim.
type DriftedInstance struct {
	// ID of the instance.
	ID string `json:"id" redact:"-"`
	// NodeClaim that it belongs to; empty if there is none.
	// +optional
	NodeClaim string `json:"nodeClaim,omitempty" redact:"-"`
	// Pool is the NodePool of its NodeClaim, or in its tags.
	Pool string `json:"pool" redact:"-"`
	// Message says what differs.
	Message string `json:"message"`
	// SecurityGroups are the IDs of those that it should have, if it has others.
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty" redact:"-"`
	// Since is when it was first seen.
	Since metav1.Time `json:"since"`
}
