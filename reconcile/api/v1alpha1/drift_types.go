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
	// By are the field managers of those fields, as far as they are known.
	// +optional
	By []string `json:"by,omitempty"`
	// Since is when it was seen first.
	Since metav1.Time `json:"since"`
	// CorrectedAt is when it was as Git says again; nil while it is not.
	// +optional
	CorrectedAt *metav1.Time `json:"correctedAt,omitempty"`
}
