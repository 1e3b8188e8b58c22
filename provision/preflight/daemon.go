package preflight

import "github.com/plumbline-dev/plumbline/provision/cloud"

// Permissions returns what a controller's role does not allow, as the check controller-role finds it: the subset that the
// daemon evaluates. The trust of the role, and the agent of EKS Pod Identity, are not checked: that takes more queries. Nothing
// that is Unknown, or only a Warning, is returned. The Observed needs Cluster, Region, Version, Controllers and Classes.
func Permissions(o Observed, grant cloud.Grant) []Finding {
	grant.Role.Trust = ""
	o.Grant.Of, o.Agent.Of = grant, true
	o.NodeRoles = nil
	for i := range o.Classes.Of {
		if role := o.Classes.Of[i].Spec.Role; role != "" {
			o.NodeRoles = append(o.NodeRoles, NodeRole{Name: role})
		}
	}
	var found []Finding
	for _, f := range controllerRole().run(o).Findings {
		if f.Status == Problem {
			found = append(found, f)
		}
	}
	return found
}
