package preflight

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// ClassCondition is a condition of an EC2NodeClass that is False, in Karpenter's words.
type ClassCondition struct {
	Class, Type, Reason, Message string
	// Refusal is what its message says about a denied call, decoded; nil if there is nothing to decode.
	Refusal Value[*cloud.Refusal]
}

// launchValidation reports what Karpenter's own dry run of launches has found.
func launchValidation() Check {
	return Check{
		ID: "launch-validation",
		Why: "Karpenter tries a launch with each EC2NodeClass, without launching; what AWS denies then, by a service control policy, " +
			"for example, it denies for every node",
		needs: []source{ofClasses, ofConditions},
		look:  lookAtLaunchValidation,
	}
}

func lookAtLaunchValidation(o Observed) (string, []Finding) {
	const looked = "the conditions of EC2NodeClasses"
	if o.Classes.Err != nil {
		return looked, unread(o.Classes.Err)
	}
	if len(o.Classes.Of) == 0 {
		return "no EC2NodeClass", nil
	}
	var found []Finding
	for _, c := range o.Conditions {
		message, _, _ := strings.Cut(c.Message, " Encoded authorization failure message")
		f := Finding{
			Status: Problem, Message: fmt.Sprintf("EC2NodeClass/%s: %s is False (%s): %s", c.Class, c.Type, c.Reason, message),
			Fix: "kubectl describe ec2nodeclass " + c.Class,
		}
		if r := c.Refusal.Of; r != nil {
			f.Message += fmt.Sprintf("; AWS denies %s on %s to %s", r.Action, r.Resource, r.Principal)
			f.Fix = fmt.Sprintf("allow %s on %s to the role", r.Action, r.Resource)
			if r.Explicit {
				f.Message += " explicitly"
				f.Fix = "find the Deny for " + r.Action + " in the role's policies, its permissions boundary and the service control policies"
			}
		}
		found = append(found, f)
		if c.Refusal.Err != nil {
			found = append(found, unread(c.Refusal.Err)...)
		}
	}
	return looked, found
}
