package iam

// Shield returns statements that deny the use of a cluster's name: the termination of its instances and the creation of
// resources with its name. Attached to the role of another Karpenter, they keep that from using the name.
//
// With exceptions, which are ARNs of principals, they are for a service control policy, and apply to everyone else in
// the accounts that it is attached to. Errors: an invalid cluster.
func Shield(c Cluster, exceptions Values) (Document, error) {
	if err := c.Check(); err != nil {
		return Document{}, err
	}
	tag := "kubernetes.io/cluster/" + c.Name
	deny := func(sid string, actions, resources Values, key string) Statement {
		s := Statement{Sid: sid, Effect: Deny, Action: actions, Resource: resources, Condition: Condition{"StringEquals": {key + "/" + tag: {"owned"}}}}
		if len(exceptions) > 0 {
			s.Condition["ArnNotLike"] = map[string]Values{"aws:PrincipalArn": exceptions}
		}
		return s
	}
	return Document{Version: languageVersion, Statement: []Statement{
		deny("LeaveInstances", Values{"ec2:TerminateInstances", "ec2:StopInstances"}, c.ec2("instance"), "aws:ResourceTag"),
		deny("LeaveLaunchTemplates", Values{"ec2:DeleteLaunchTemplate"}, c.ec2("launch-template"), "aws:ResourceTag"),
		deny("LaunchNothing", Values{"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"}, c.ec2(
			"instance", "fleet", "launch-template"), "aws:RequestTag"),
	}}, nil
}
