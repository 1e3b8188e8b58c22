package plan

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// images are the AMIs that the nodes of an EC2NodeClass are to have, in the order of Karpenter's
// preference.
type images struct {
	amis []ami
	// chosen is the AMI for each set of labels that was asked about; empty where none fits.
	chosen map[Labels]string
}

type ami struct {
	id string
	// requirements are what a node's labels have to fit.
	requirements scheduling.Requirements
}

// imagesOf are those of AMIs as the status of an EC2NodeClass has them.
func imagesOf(amis []awsv1.AMI) *images {
	known := &images{chosen: map[Labels]string{}}
	for _, a := range amis {
		known.amis = append(known.amis, ami{id: a.ID, requirements: scheduling.NewNodeSelectorRequirements(a.Requirements...)})
	}
	return known
}

// outdate says whether a NodeClaim runs another AMI than its labels call for: the first that fits,
// as Karpenter has it (MapToInstanceTypes in karpenter-provider-aws pkg/providers/amifamily/ami.go,
// and isAMIDrifted in pkg/cloudprovider/drift.go, 1.14.1). Its labels are those of its instance type.
// Where there is no AMI at all Karpenter finds no node outdated, and nor does this.
func (i *images) outdate(c *NodeClaim) bool {
	if i == nil || len(i.amis) == 0 || c.Image == "" || c.Labels == "" {
		return false
	}
	return c.Image != i.choose(c.Labels)
}

// choose is the AMI that labels call for; empty where none fits.
func (i *images) choose(of Labels) string {
	chosen, asked := i.chosen[of]
	if !asked {
		labels := scheduling.NewLabelRequirements(of.Map())
		for _, a := range i.amis {
			if labels.Compatible(a.requirements) == nil {
				chosen = a.id
				break
			}
		}
		i.chosen[of] = chosen
	}
	return chosen
}

// ResolvedAMIs are the AMIs that Karpenter has found for an EC2NodeClass. current says that they are
// those of its spec as it is, and not of one before: until Karpenter has looked at that, nobody
// knows which nodes are outdated by it.
func ResolvedAMIs(class *unstructured.Unstructured) (amis []awsv1.AMI, current bool) {
	var status awsv1.EC2NodeClassStatus
	if read, err := typed[awsv1.EC2NodeClass](&unstructured.Unstructured{Object: map[string]any{"status": class.Object["status"]}}); err == nil {
		status = read.Status
	}
	for _, c := range status.Conditions {
		if c.Type == awsv1.ConditionTypeAMIsReady {
			current = c.ObservedGeneration == class.GetGeneration() && c.Status != metav1.ConditionUnknown
		}
	}
	return status.AMIs, current
}
