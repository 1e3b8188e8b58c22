package preflight

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// LostNode is a Node of Karpenter whose instance is terminated, or unknown to EC2.
type LostNode struct{ Node, ProviderID string }

// leftovers checks that nothing is left of nodes that are gone.
func leftovers() Check {
	return Check{
		ID: "leftovers",
		Why: "a Node without an instance keeps its pods pending or terminating; instances without a NodeClaim and volumes cost money, " +
			"interfaces use up addresses, and instance profiles and launch templates quotas of the account",
		needs: []source{ofAccount, ofClasses, ofClaims, ofLeft},
		look:  lookAtLeftovers,
	}
}

func lookAtLeftovers(o Observed) (string, []Finding) {
	const looked = "Nodes without instances, instances without NodeClaims, and volumes, interfaces, launch templates and " +
		"instance profiles that nothing uses"
	var found []Finding
	for _, err := range []error{o.Classes.Err, o.LostNodes.Err, o.Left.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	for _, n := range o.LostNodes.Of {
		found = append(found, Finding{
			Status: Problem, Message: fmt.Sprintf("Node/%s has no instance: %s is terminated or does not exist", n.Node, n.ProviderID),
			Fix: "kubectl delete node " + n.Node,
		})
	}
	for _, id := range o.LostInstances {
		f := Finding{
			Status: Problem, Message: fmt.Sprintf("instance %s has no NodeClaim: Karpenter does not terminate it, as it does within minutes", id),
			// Another cluster may have the same name, and its tags are the same.
			Fix: "make sure that no other cluster has the name " + o.Cluster + ", then: aws ec2 terminate-instances --region " + o.Region +
				" --instance-ids " + id,
		}
		if o.Conflict {
			f.Fix = "resolve the identity conflict first: plumbline identity"
			f.Message = fmt.Sprintf("instance %s has no NodeClaim here, while the identity conflict is open: it may be one of the other cluster", id)
		}
		found = append(found, f)
	}
	for _, f := range o.Left.Of {
		of := ""
		if f.What != "" {
			of = " (" + f.What + ")"
		}
		found = append(found, Finding{
			Status: Warning, Message: fmt.Sprintf("%s %s%s is left over: nothing in the cluster uses it", leftover.Noun(f.Kind), f.ID, of),
			// Another cluster may have the same name, and its tags are the same.
			Fix: "make sure that no other cluster has or had the name " + o.Cluster + ", then delete it in AWS",
		})
	}
	return looked, append(found, o.protected()...)
}

// protected returns the instances that plumbline protects from termination. While the conflict is open that is its response;
// if it is over, or plumbline does not run, Karpenter cannot terminate them.
func (o Observed) protected() []Finding {
	var found []Finding
	for _, id := range o.Protected {
		f := Finding{
			Status: Warning, Fix: fmt.Sprintf("if plumbline does not run: aws ec2 modify-instance-attribute --region %s --instance-id %s --no-disable-api-termination", o.Region, id),
			Message: fmt.Sprintf("plumbline protects instance %s from termination while the identity conflict is open: only plumbline lets Karpenter terminate it", id),
		}
		if !o.Conflict {
			f.Status, f.Fix = Problem, strings.TrimPrefix(f.Fix, "if plumbline does not run: ")
			f.Message = fmt.Sprintf("instance %s is still protected from termination, and the identity conflict is over: Karpenter cannot terminate it", id)
		}
		found = append(found, f)
	}
	return found
}
