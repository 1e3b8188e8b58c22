package blocker

import (
	"cmp"
	"fmt"
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// deletes is what has Karpenter begin with a node that it has not begun with.
const deletes = "kubectl delete nodeclaim "

// BreakGlass is the command for a cause, with what it risks; false if there is none. It is the table
// of docs/runbooks/PlumblineStalled.md.
func BreakGlass(n *Node, c Cause) (v1alpha1.BreakGlass, bool) {
	g := v1alpha1.BreakGlass{Node: cmp.Or(n.Name, n.Claim), Cause: c.Kind, Command: terminateNow(n.Claim)}
	if n.Stays { // Karpenter has not begun, and reads the annotation of what is deleted only
		g.Command = deletes + n.Claim + " --wait=false && " + g.Command
	}
	instance := cloud.InstanceID(n.ProviderID)
	switch c.Kind {
	case v1alpha1.CauseBudget:
		g.Risk = "Karpenter deletes all pods of the node whatever PodDisruptionBudgets say: the workload has fewer than it needs until they run elsewhere"
	case v1alpha1.CauseDoNotDisrupt:
		g.Command = fmt.Sprintf("kubectl annotate pod %s -n %s %s-", c.Name, c.Namespace, karpv1.DoNotDisruptAnnotationKey)
		g.Risk = "the pod is evicted, and what it was at is lost unless it can go on elsewhere"
	case v1alpha1.CauseFinalizer:
		g.Risk = "the node ends before the finalizer's controller is done with the pod; the pod's object stays until it is"
	case v1alpha1.CausePod:
		g.Risk = "Karpenter deletes all pods of the node, without PodDisruptionBudgets and without the rest of their grace period"
	case v1alpha1.CauseVolume:
		g.Risk = "the instance ends with the volume mounted: what was not written yet is lost, and the file system may need a repair"
	case v1alpha1.CauseProtected:
		g.Command = fmt.Sprintf("aws ec2 modify-instance-attribute --instance-id %s --no-disable-api-termination", instance)
		g.Risk = "the instance was protected on purpose: find out by whom, and what is on it"
	case v1alpha1.CauseObjectFinalizer:
		g.Command = RemoveFinalizers(c.Object)
		g.Risk = "whatever the finalizer's controller still has to do for the object is not done"
	case v1alpha1.CauseDenied:
		g.Command = "aws ec2 terminate-instances --instance-ids " + instance
		g.Risk = "it is done with your rights, past the policy that denies it to Karpenter, which denies it for the next node as well"
	default:
		return v1alpha1.BreakGlass{}, false
	}
	if strings.HasPrefix(g.Command, deletes) {
		g.Risk = "Karpenter launches no replacement first; " + g.Risk
	}
	return g, true
}

// terminateNow is the command that has Karpenter terminate a node past its pods and
// their budgets (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle).
func terminateNow(claim string) string {
	return fmt.Sprintf("kubectl annotate nodeclaim %s --overwrite %s=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)", claim, karpv1.NodeClaimTerminationTimestampAnnotationKey)
}

// RemoveFinalizers is the command that removes all finalizers of an object, given as kubectl names it: kind/name.
func RemoveFinalizers(object string) string {
	return fmt.Sprintf(`kubectl patch %s --type=merge --patch '{"metadata":{"finalizers":null}}'`, object)
}
