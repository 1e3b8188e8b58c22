package awssim

import (
	"maps"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// services is the table of all supported actions. Any other action is an error for its caller.
func (a *account) services() map[string]service {
	return map[string]service{
		"ec2": {
			name: "ec2", protocol: wire.EC2, namespace: "http://ec2.amazonaws.com/doc/2016-11-15/",
			denied: "UnauthorizedOperation", throttled: "RequestLimitExceeded", unknown: "InvalidAction",
			actions: a.ec2Actions(),
		},
		"iam": {
			name: "iam", protocol: wire.Query, namespace: "https://iam.amazonaws.com/doc/2010-05-08/", global: true,
			denied: "AccessDenied", throttled: "Throttling", unknown: "InvalidAction",
			actions: merged(a.iamActions(), a.policyActions(), a.oidcActions()),
		},
		"sts": {
			name: "sts", protocol: wire.Query, namespace: "https://sts.amazonaws.com/doc/2011-06-15/", global: true,
			denied: "AccessDenied", throttled: "Throttling", unknown: "InvalidAction",
			actions: a.stsActions(),
		},
		"ssm":            a.jsonService("ssm", a.ssmActions()),
		"sqs":            a.jsonService("sqs", a.sqsActions()),
		"events":         a.jsonService("events", a.eventBridgeActions()),
		"kms":            a.jsonService("kms", a.keyActions()),
		"pricing":        a.global(a.jsonService("pricing", a.pricingActions())),
		"eks":            a.eksService(),
		"autoscaling":    a.autoScalingService(),
		"cloudformation": a.cloudFormationService(),
		"cloudtrail":     a.jsonService("cloudtrail", a.cloudTrailActions()),
		"eks-auth":       a.eksAuthService(),
		"servicequotas":  a.jsonService("servicequotas", a.quotaActions()),
	}
}

func (a *account) jsonService(name string, actions map[string]action) service {
	return service{
		name: name, protocol: wire.JSON,
		denied: "AccessDeniedException", throttled: "ThrottlingException", unknown: "UnknownOperationException",
		actions: actions,
	}
}

func (a *account) global(s service) service {
	s.global = true
	return s
}

func (a *account) ec2Actions() map[string]action {
	return merged(
		a.instanceActions(),
		a.launchActions(),
		a.stopActions(),
		a.launchTemplateActions(),
		a.offeringActions(),
		a.imageActions(),
		a.networkActions(),
		a.interfaceActions(),
		a.volumeActions(),
		a.tagActions(),
	)
}

// merged returns the actions of several groups.
func merged(groups ...map[string]action) map[string]action {
	all := map[string]action{}
	for _, group := range groups {
		maps.Copy(all, group)
	}
	return all
}
