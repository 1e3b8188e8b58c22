package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// controllerReach checks that Karpenter's role cannot do anything to what belongs to others.
func controllerReach() Check {
	return Check{
		ID: "controller-reach",
		Why: "Karpenter identifies its instances by tags with the cluster's name: if another cluster is installed with this name, " +
			"only a condition in the policy keeps this controller from terminating its nodes",
		needs: []source{ofAccount, ofControllers, ofClasses, ofGrant, ofNodeRoles, ofSimulation},
		look:  lookAtControllerReach,
	}
}

// outages are the actions with which a controller takes nodes, or permissions, from others.
var outages = []string{"ec2:TerminateInstances", "iam:PassRole"}

func lookAtControllerReach(o Observed) (string, []Finding) {
	switch {
	case o.Grant.Err != nil:
		return "the policies of Karpenter's role", unread(o.Grant.Err)
	case o.Grant.Of.RoleARN == "":
		c, _ := o.controller()
		return "ServiceAccount " + c.account(), []Finding{noRole(o, c)}
	}
	looked := "the policies of " + o.Grant.Of.RoleARN
	c, _ := o.controller()
	all, err := o.judged(c)
	if err != nil {
		return looked, []Finding{{Status: Unknown, Message: err.Error()}}
	}
	var found []Finding
	for _, f := range all {
		switch f.Kind {
		case iam.TooBroad:
			status := Warning
			if slices.ContainsFunc(f.Actions, func(action string) bool { return slices.Contains(outages, action) }) {
				status = Problem
			}
			found = append(found, Finding{
				Status: status, Message: fmt.Sprintf("%s %s (%s)", o.Grant.Of.RoleARN, f.Message, strings.Join(f.Actions, ", ")),
				Fix: fmt.Sprintf("replace what allows it by (all statements: %s):\n%s", o.policyCommand(c), indented(f.Add)),
			})
		case iam.Undecided:
			found = append(found, Finding{Status: Unknown, Message: strings.Join(f.Actions, ", ") + ": " + f.Message})
		case iam.Differs:
			found = append(found, o.differs(f))
		case iam.Missing: // controllerRole
		}
	}
	return looked + o.compared(), found
}
