package blocker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestGlass: the command for each cause, of a node that Karpenter ends and of one that it has not begun with. The NodeClaim
// of the latter is deleted first, else the annotation does nothing; a pod that may not be disrupted is freed, and
// Karpenter begins by itself.
func TestGlass(t *testing.T) {
	const (
		annotate = "kubectl annotate nodeclaim general-1 --overwrite karpenter.sh/nodeclaim-termination-timestamp=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
		first    = "kubectl delete nodeclaim general-1 --wait=false && " + annotate
		free     = "kubectl annotate pod web -n shop karpenter.sh/do-not-disrupt-"
		patch    = `kubectl patch node/node-1 --type=merge --patch '{"metadata":{"finalizers":null}}'`
		without  = "Karpenter launches no replacement first; "
	)
	risks := map[v1alpha1.BreakGlassCause]string{
		v1alpha1.CauseBudget:       "Karpenter deletes all pods of the node whatever PodDisruptionBudgets say: the workload has fewer than it needs until they run elsewhere",
		v1alpha1.CauseDoNotDisrupt: "the pod is evicted, and what it was at is lost unless it can go on elsewhere",
		v1alpha1.CauseFinalizer:    "the node ends before the finalizer's controller is done with the pod; the pod's object stays until it is",
		v1alpha1.CausePod:          "Karpenter deletes all pods of the node, without PodDisruptionBudgets and without the rest of their grace period",
		v1alpha1.CauseVolume:       "the instance ends with the volume mounted: what was not written yet is lost, and the file system may need a repair",
		v1alpha1.CauseProtected:    "the instance was protected on purpose: find out by whom, and what is on it",
		v1alpha1.CauseDenied:       "it is done with your rights, past the policy that denies it to Karpenter, which denies it for the next node as well",
	}
	for kind, c := range map[v1alpha1.BreakGlassCause]struct{ ending, stays string }{
		v1alpha1.CauseBudget:       {annotate, first},
		v1alpha1.CauseDoNotDisrupt: {free, free},
		v1alpha1.CauseFinalizer:    {annotate, first},
		v1alpha1.CausePod:          {annotate, first},
		v1alpha1.CauseVolume:       {annotate, first},
		v1alpha1.CauseProtected:    {"aws ec2 modify-instance-attribute --instance-id i-1 --no-disable-api-termination", "aws ec2 modify-instance-attribute --instance-id i-1 --no-disable-api-termination"},
		v1alpha1.CauseDenied:       {"aws ec2 terminate-instances --instance-ids i-1", "aws ec2 terminate-instances --instance-ids i-1"},
	} {
		for stays, command := range map[bool]string{false: c.ending, true: c.stays} {
			want := v1alpha1.BreakGlass{Node: "node-1", Cause: kind, Command: command, Risk: risks[kind]}
			if command == first {
				want.Risk = without + want.Risk
			}
			n := &Node{Claim: "general-1", Name: "node-1", ProviderID: "aws:///eu-west-1a/i-1", Stays: stays}
			got, is := BreakGlass(n, Cause{Kind: kind, Name: "web", Namespace: "shop", Object: "node/node-1"})
			if diff := cmp.Diff(want, got); diff != "" || !is {
				t.Errorf("%s, stays %t: %t (-want +got):\n%s", kind, stays, is, diff)
			}
		}
	}
	if g, is := BreakGlass(&Node{Claim: "general-1"}, Cause{Words: "Karpenter to terminate it"}); is {
		t.Errorf("a cause that no command is for: %+v", g)
	}
}
