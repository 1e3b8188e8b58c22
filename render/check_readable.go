package render

import (
	"fmt"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// checkReadable refuses what the CRD's schema lets through and Karpenter's own type cannot
// hold, as a duration of 10,000,000 hours: Karpenter could then read no object of the kind
// any more, and would stand still.
func checkReadable(object Object) []problem {
	var into any
	switch object.Ref.Kind {
	case NodePool:
		into = &karpv1.NodePool{}
	case EC2NodeClass:
		into = &aws.EC2NodeClass{}
	default:
		return nil
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, into)
	if err == nil {
		return nil
	}
	return []problem{{"spec", cut(fmt.Sprintf("%s: Karpenter cannot read it: %v", object.Ref, err))}}
}
