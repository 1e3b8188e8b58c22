package iam

import (
	"fmt"
	"maps"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// call is a request that Karpenter's controller makes.
type call struct {
	Request
	// sid is the reference's statement that allows it.
	sid string
	// purpose is what needs it; empty if every installation does.
	purpose string
}

// What only some installations need: values of Finding.For.
const (
	forSnapshots   = "EC2NodeClasses whose blockDeviceMappings name a snapshot"
	ForProfiles    = "EC2NodeClasses with spec.role"
	ForPrices      = "current prices; without it Karpenter uses those that it was built with"
	forReservation = "capacity reservations"
	forPlacement   = "placement groups"
	forReboots     = "settings.awsFeatureGates.rebootForRepair"
	ForQueue       = "settings.interruptionQueue"
)

// sample is the last part of the ARNs in requests: the ID or name of a resource.
const sample = "plumbline-sample"

// tags are those of instances, and of what is created with them.
func (r reference) tags() map[string]string {
	return map[string]string{ownedTagPrefix + r.Name: owned, clusterTag: r.Name, poolTag: sample, classTag: sample}
}

// profileTags are those of instance profiles.
func (r reference) profileTags() map[string]string {
	return map[string]string{ownedTagPrefix + r.Name: owned, clusterTag: r.Name, classTag: sample, regionTag: r.Region}
}

// resource returns the ARN of an EC2 resource of a type.
func (r reference) resource(kind string) string {
	if kind == "image" || kind == "snapshot" {
		return fmt.Sprintf("arn:%s:ec2:%s::%s/%s", r.partition(), r.Region, kind, sample)
	}
	return r.arn("ec2", kind+"/"+sample)
}

// calls returns the requests of a version, in the order of the reference's statements.
func (r reference) calls() []call {
	all := append(r.launchCalls(), r.tagCalls()...)
	all = append(all, r.profileCalls()...)
	return append(all, r.readCalls()...)
}

// launchCalls are those of CreateFleet, which also needs the permissions of RunInstances for what it launches, and of
// terminations.
func (r reference) launchCalls() []call {
	uses := []struct{ kind, purpose string }{{"image", ""}, {"security-group", ""}, {"subnet", ""}, {"snapshot", forSnapshots}}
	if r.needs("ec2:DescribeCapacityReservations") {
		uses = append(uses, struct{ kind, purpose string }{"capacity-reservation", forReservation})
	}
	if r.needs("ec2:DescribePlacementGroups") {
		uses = append(uses, struct{ kind, purpose string }{"placement-group", forPlacement})
	}
	var all []call
	for _, action := range []string{"ec2:CreateFleet", "ec2:RunInstances"} {
		for _, used := range uses {
			all = append(all, call{Request{Action: action, Resource: r.resource(used.kind), Region: r.Region}, "LaunchWith", used.purpose})
		}
		all = append(all, call{
			Request{Action: action, Resource: r.resource("launch-template"), Region: r.Region, ResourceTags: r.tags()}, "LaunchFromTemplates", "",
		})
		for _, kind := range []string{"fleet", "instance", "volume", "network-interface", "spot-instances-request"} {
			if kind == "fleet" && action != "ec2:CreateFleet" {
				continue
			}
			all = append(all, call{
				Request{Action: action, Resource: r.resource(kind), Region: r.Region, RequestTags: r.tags(), ResourceTags: noTags},
				"LaunchWithTags", "",
			})
		}
	}
	all = append(all, call{Request{
		Action: "ec2:CreateLaunchTemplate", Resource: r.resource("launch-template"), Region: r.Region,
		RequestTags: r.tags(), ResourceTags: noTags,
	}, "LaunchWithTags", ""})
	ends := []call{
		{Request{Action: "ec2:TerminateInstances", Resource: r.resource("instance")}, "Terminate", ""},
		{Request{Action: "ec2:DeleteLaunchTemplate", Resource: r.resource("launch-template")}, "Terminate", ""},
	}
	if r.needs("ec2:RebootInstances") {
		ends = append(ends, call{Request{Action: "ec2:RebootInstances", Resource: r.resource("instance")}, "Terminate", forReboots})
	}
	for _, one := range ends {
		one.Region, one.ResourceTags = r.Region, r.tags()
		all = append(all, one)
	}
	return all
}

// tagCalls are those of tags, at creation and later: KPA pkg/controllers/nodeclaim/tagging/controller.go.
func (r reference) tagCalls() []call {
	var all []call
	for _, created := range []struct {
		kind string
		by   []string
	}{
		{"fleet", []string{"CreateFleet"}},
		{"instance", []string{"CreateFleet", "RunInstances"}},
		{"volume", []string{"CreateFleet", "RunInstances"}},
		{"network-interface", []string{"CreateFleet", "RunInstances"}},
		{"spot-instances-request", []string{"CreateFleet", "RunInstances"}},
		{"launch-template", []string{"CreateLaunchTemplate"}},
	} {
		for _, action := range created.by {
			all = append(all, call{Request{
				Action: "ec2:CreateTags", Resource: r.resource(created.kind), Region: r.Region, RequestTags: r.tags(),
				ResourceTags: noTags, Keys: map[string]string{"ec2:CreateAction": action},
			}, "TagAtCreation", ""})
		}
	}
	later := map[string]string{nameTag: sample, claimTag: sample}
	withName := maps.Clone(later)
	withName[clusterTag] = r.Name
	for _, tags := range []map[string]string{later, withName} {
		all = append(all, call{Request{
			Action: "ec2:CreateTags", Resource: r.resource("instance"), Region: r.Region, RequestTags: tags, ResourceTags: r.tags(),
		}, "TagInstances", ""})
	}
	return all
}

// profileCalls are those of instance profiles and of the role in them.
func (r reference) profileCalls() []call {
	profile := func(action, sid, purpose string) call {
		return call{Request{
			Action: "iam:" + action, Resource: r.global("instance-profile/" + sample), Region: globalRegions[r.partition()],
		}, sid, purpose}
	}
	create, tag := profile("CreateInstanceProfile", "CreateProfiles", ForProfiles), profile("TagInstanceProfile", "TagProfiles", ForProfiles)
	create.RequestTags, create.ResourceTags = r.profileTags(), noTags
	tag.RequestTags, tag.ResourceTags = r.profileTags(), r.profileTags()
	var all []call
	for _, role := range r.nodeRoles() {
		all = append(all, call{Request{
			Action: "iam:PassRole", Resource: role, Region: globalRegions[r.partition()],
			Keys: map[string]string{"iam:PassedToService": ec2Services[r.partition()][0]},
		}, "PassNodeRole", ""})
	}
	all = append(all, create, tag)
	for _, action := range []string{"AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile", "DeleteInstanceProfile"} {
		one := profile(action, "ChangeProfiles", ForProfiles)
		one.ResourceTags = r.profileTags()
		all = append(all, one)
	}
	all = append(all, profile("GetInstanceProfile", "ReadProfiles", ""))
	if r.needs("iam:ListInstanceProfiles") {
		list := profile("ListInstanceProfiles", "ListProfiles", "")
		list.Resource = r.global("instance-profile/")
		all = append(all, list)
	}
	return all
}

// readCalls are those that change nothing, and those of the interruption queue.
func (r reference) readCalls() []call {
	all := []call{{Request{Action: "eks:DescribeCluster", Resource: r.clusterARN(), Region: r.Region}, "DescribeCluster", ""}}
	for _, s := range r.discovery() {
		if s.Sid != "ReadEC2" {
			continue
		}
		for _, action := range s.Action {
			purpose := ""
			if p, found := karpenter.PermissionOf(action); found {
				purpose = p.For
			}
			all = append(all, call{Request{Action: action, Region: r.Region}, s.Sid, purpose})
		}
	}
	all = append(all,
		call{Request{Action: "ssm:GetParameter", Resource: r.publicParameter(sample), Region: r.Region}, "ReadImageParameters", ""},
		call{Request{Action: "pricing:GetProducts", Region: r.Region}, "ReadPrices", ForPrices})
	for _, s := range append(r.interruption(), r.zonalShift()...) {
		for _, action := range s.Action {
			one := call{Request{Action: action, Resource: r.arn("sqs", r.Queue), Region: r.Region}, s.Sid, ForQueue}
			if p, found := karpenter.PermissionOf(action); found {
				one.Resource, one.purpose = r.clusterARN(), p.For
				one.Keys = map[string]string{"arc-zonal-shift:ResourceIdentifier": r.clusterARN()}
			}
			all = append(all, one)
		}
	}
	return all
}
