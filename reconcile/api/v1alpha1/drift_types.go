package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DriftedObject is a definition that another client has changed or deleted.
type DriftedObject struct {
	// Kind of the object: NodePool or EC2NodeClass.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Message says which fields, from Git's value to the one found.
	Message string `json:"message"`
	// By are the field managers of those fields, if they are known.
	// +optional
	By []string `json:"by,omitempty"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
	// CorrectedAt is when it was as Git says again; nil while it is not.
	// +optional
	CorrectedAt *metav1.Time `json:"correctedAt,omitempty"`
}

// InstanceDrift is how the EC2 instances of a NodeSync's pools differ from what their
// definitions and NodeClaims say, while Karpenter finds nothing wrong with them.
type InstanceDrift struct {
	// Failure is why they, or all of what they have, could not be compared, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// Count is how many differ.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Instances are these, by ID; the first 20.
	// +optional
	Instances []DriftedInstance `json:"instances,omitempty"`
	// Orphaned is how many of them no NodeClaim has.
	// +optional
	Orphaned int32 `json:"orphaned,omitempty"`
	// Volumes are those that nodes which are gone have left attached.
	// +optional
	Volumes *LeftVolumes `json:"volumes,omitempty"`
	// Left are interfaces, launch templates and instance profiles of what is gone.
	// +optional
	Left *LeftResources `json:"left,omitempty"`
}

// LeftResources are what nodes and EC2NodeClasses that are gone have left in AWS.
type LeftResources struct {
	// Failure is why some of them are not known, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// Count is how many there are.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Resources are these; the first 20.
	// +optional
	Resources []LeftResource `json:"resources,omitempty"`
}

// LeftResource is something in AWS of a node or an EC2NodeClass that is gone.
type LeftResource struct {
	// Kind is NetworkInterface, LaunchTemplate or InstanceProfile.
	Kind string `json:"kind" redact:"-"`
	// ID in AWS; the name of an instance profile.
	ID string `json:"id" redact:"-"`
	// Owned is true if this cluster is known to have made it: a NodeClaim had its instance, or the UID or name of its
	// EC2NodeClass is that of one that was here. If not, another cluster of the same name may have made it.
	// +optional
	Owned bool `json:"owned,omitempty"`
	// Message says what it is of, and what to do.
	Message string `json:"message"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
}

// LeftVolumes are volumes that are attached to nodes or instances that are gone.
type LeftVolumes struct {
	// Failure is why they, or those in EC2, are not known, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
	// Count is how many there are.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Volumes are these; the first 20.
	// +optional
	Volumes []LeftVolume `json:"volumes,omitempty"`
}

// LeftVolume is a volume that is attached to a node or an instance that is gone.
type LeftVolume struct {
	// Name of the VolumeAttachment; of a volume that has none, the ID in EC2.
	Name string `json:"name" redact:"-"`
	// Volume is the PersistentVolume; empty if none is known.
	// +optional
	Volume string `json:"volume,omitempty" redact:"-"`
	// Driver is the CSI driver that is to detach it.
	// +optional
	Driver string `json:"driver,omitempty" redact:"-"`
	// Node that is gone; of a volume in EC2, the instance.
	Node string `json:"node" redact:"-"`
	// Message says what is left, and what to do.
	Message string `json:"message"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
}

// DriftedInstance is an EC2 instance that is not what its definitions and its NodeClaim say.
type DriftedInstance struct {
	// ID of the instance.
	ID string `json:"id" redact:"-"`
	// NodeClaim that it belongs to; empty if none has it.
	// +optional
	NodeClaim string `json:"nodeClaim,omitempty" redact:"-"`
	// Pool is the NodePool of its NodeClaim, or in its tags.
	Pool string `json:"pool" redact:"-"`
	// Message says what differs.
	Message string `json:"message"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
}
