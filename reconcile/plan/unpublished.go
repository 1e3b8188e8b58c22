package plan

import (
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// ReasonUnpublishedAMI is the reason of an EC2NodeClass whose alias, or SSM parameter, names no AMI that AWS publishes.
const ReasonUnpublishedAMI = "UnpublishedAMI"

// holdUnpublished holds an EC2NodeClass if AWS reports that it publishes no AMI for the alias, or at the SSM parameter, that a
// commit gives it. Karpenter would launch no node with the class, and its conditions may stay as they are. Any other
// answer of AWS, and none, holds nothing. By tags, names and IDs Karpenter reports what it does not find in AMIsReady.
func (m *maker) holdUnpublished(change *Change) {
	commits := (change.Action == Create || change.Action == Update || change.Action == Adopt) && !change.Drift && !change.Rescue
	if change.Ref.Kind != render.EC2NodeClass || !commits || change.Live != nil && equal(specField(change.Live, "amiSelectorTerms"), specField(change.Wanted(), "amiSelectorTerms")) {
		return
	}
	class, err := typed[awsv1.EC2NodeClass](change.Wanted())
	if err != nil || !Hashable(class) {
		return
	}
	named := namedAMI(class)
	if named == "" {
		return
	}
	if change.question == nil {
		change.question = &Question{Ref: change.Ref, Class: class}
	}
	change.question.AMIs = true
	if answer, answered := m.policy.Answers[change.Ref]; !answered || !answer.AMIs.Empty {
		return
	}
	change.Effect, change.Nodes, change.UpTo, change.Unavailable, change.DriftReasons = EffectBlocked, 0, false, "", nil
	change.touched, change.unnamed, change.blind = nil, 0, false
	change.hold(ReasonUnpublishedAMI, fmt.Sprintf(
		"AWS publishes no AMI for %s of %s: no node could be launched with it; correct it, or wait until AWS publishes it for the cluster's Kubernetes version", named, change.Ref))
}

// namedAMI is the alias or the SSM parameter by which a class names all of its AMIs; empty if it has other terms.
func namedAMI(class *awsv1.EC2NodeClass) string {
	if len(class.Spec.AMISelectorTerms) != 1 {
		return ""
	}
	switch term := class.Spec.AMISelectorTerms[0]; {
	case term.Alias != "":
		return "alias " + term.Alias
	case term.SSMParameter != "":
		return "ssmParameter " + term.SSMParameter
	}
	return ""
}
