package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stage is one step of the order in which things arrive. Removal runs the
// steps backwards.
type Stage string

// The Stages, in order.
const (
	StageCRDs        Stage = "CRDs"
	StageController  Stage = "Controller"
	StageNodeClasses Stage = "NodeClasses"
	StageNodePools   Stage = "NodePools"
)

// The kinds that are ours.
const (
	NodePool     = "NodePool"
	EC2NodeClass = "EC2NodeClass"
)

// Kind is one kind of definition, and how it hangs together with the others.
type Kind struct {
	GVK   schema.GroupVersionKind
	GVR   schema.GroupVersionResource
	CRD   string
	Stage Stage
	// RefersTo is the kind that an object of this kind names, and RefPath where
	// it does. Empty where it names none.
	RefersTo string
	RefPath  []string
	// Scripts are the fields that hold shell, where ${…} is mostly the shell's.
	Scripts []string
}

// Kinds returns the table of all kinds that are ours, in the order of their
// Stages. Any other kind in a repository is refused by name.
func Kinds() []Kind {
	return []Kind{
		{
			GVK:     schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: EC2NodeClass},
			GVR:     schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
			CRD:     "ec2nodeclasses.karpenter.k8s.aws",
			Stage:   StageNodeClasses,
			Scripts: []string{"spec.userData"},
		},
		{
			GVK:      schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: NodePool},
			GVR:      schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
			CRD:      "nodepools.karpenter.sh",
			Stage:    StageNodePools,
			RefersTo: EC2NodeClass,
			RefPath:  []string{"spec", "template", "spec", "nodeClassRef", "name"},
		},
	}
}

// KindOf returns the entry of a kind, by its name.
func KindOf(kind string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK.Kind == kind })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}
