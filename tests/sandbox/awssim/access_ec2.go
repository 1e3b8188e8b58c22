package awssim

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// ec2 returns the IAM checks of a call to EC2. Describing actions have no resource in IAM, except
// DescribeInstanceAttribute: it is authorized for the instance.
func (q question) ec2() []access {
	r := q.request
	switch {
	case r.action == "DescribeInstanceAttribute":
		return q.named(nil)
	case strings.HasPrefix(r.action, "Describe"), strings.HasPrefix(r.action, "Get"):
		return q.about("*", nil)
	case r.action == "CreateFleet":
		in := &ec2.CreateFleetInput{}
		if _, err := wire.DecodeQuery(wire.EC2, r.form, in); err == nil {
			return q.fleet(in)
		}
	case r.action == "RunInstances":
		in := &ec2.RunInstancesInput{}
		if _, err := wire.DecodeQuery(wire.EC2, r.form, in); err == nil {
			return q.run(in)
		}
	case r.action == "CreateLaunchTemplate":
		in := &ec2.CreateLaunchTemplateInput{}
		if _, err := wire.DecodeQuery(wire.EC2, r.form, in); err == nil {
			return q.created("launch-template", specTags(in.TagSpecifications, "launch-template"))
		}
	case r.action == "CreateTags", r.action == "DeleteTags":
		in := &ec2.CreateTagsInput{}
		if _, err := wire.DecodeQuery(wire.EC2, r.form, in); err == nil {
			return q.named(tagMap(in.Tags))
		}
	}
	return q.named(nil)
}

// ec2ARN returns the ARN of a resource of a kind; images and snapshots belong to no account.
func (a *account) ec2ARN(kind, id string) string {
	if kind == "image" || kind == "snapshot" {
		return "arn:" + partition(a.options.Region) + ":ec2:" + a.options.Region + "::" + kind + "/" + id
	}
	return a.arn("ec2", a.options.Region, kind+"/"+id)
}

// created checks the creation of a resource of a kind, and of its tags.
func (q question) created(kind string, tags map[string]string) []access {
	arn := q.ec2ARN(kind, "*")
	return append([]access{q.ask(q.request.action, arn, nil, tags)}, q.tagged(q.request.action, arn, tags)...)
}

// tagged checks the tags that a resource is created with.
func (q question) tagged(by, arn string, tags map[string]string) []access {
	if len(tags) == 0 {
		return nil
	}
	asked := q.ask("CreateTags", arn, nil, tags)
	asked.Context.Set("ec2:CreateAction", by)
	return []access{asked}
}

// named checks access to each resource whose ID or name is in the call.
func (q question) named(gets map[string]string) []access {
	var all []access
	for _, name := range slices.Sorted(maps.Keys(q.request.form)) {
		value := q.request.form.Get(name)
		if name == "LaunchTemplateName" {
			if t := q.templateNamed(value); t != nil {
				value = t.ID
			}
		}
		for _, k := range q.kinds() {
			if r, ok := k.find(value); ok && strings.HasPrefix(value, k.prefix) {
				all = append(all, q.ask(q.request.action, q.ec2ARN(k.name, r.ID), r.Tags, gets))
			}
		}
	}
	if len(all) == 0 {
		all = q.about("*", nil)
		all[0].missing = true
	}
	return all
}

// fleet returns the checks of CreateFleet, and those of RunInstances, which it implies.
func (q question) fleet(in *ec2.CreateFleetInput) []access {
	all := q.created("fleet", specTags(in.TagSpecifications, "fleet"))
	for _, capacityType := range []string{onDemand, spot} {
		if aws.StringValue(in.TargetCapacitySpecification.DefaultTargetCapacityType) != capacityType {
			continue
		}
		candidates, err := q.candidates(in, capacityType)
		if err != nil {
			continue // the action reports the error
		}
		var specs []launchSpec
		for _, c := range candidates {
			specs = append(specs, c.spec)
		}
		all = append(all, q.launch("CreateFleet", specs)...)
		all = append(all, q.launch("RunInstances", specs)...)
	}
	return all
}

func (q question) run(in *ec2.RunInstancesInput) []access {
	spec, err := q.runSpec(in)
	if err != nil {
		return q.about("*", nil)
	}
	return q.launch("RunInstances", []launchSpec{spec})
}

// launch checks access to everything that instances are created from and with, each once.
func (q question) launch(action string, specs []launchSpec) []access {
	asked := map[string]access{}
	add := func(all ...access) {
		for _, one := range all {
			asked[one.Action+" "+one.Resource] = one
		}
	}
	use := func(kind, id string) {
		for _, k := range q.kinds() {
			if r, ok := k.find(id); ok && k.name == kind {
				add(q.ask(action, q.ec2ARN(kind, id), r.Tags, nil))
			}
		}
	}
	for _, spec := range specs {
		made := []string{"instance", "volume", "network-interface"}
		if spec.capacityType == spot {
			made = append(made, "spot-instances-request")
		}
		for _, kind := range made {
			arn, tags := q.ec2ARN(kind, "*"), spec.tags[kind]
			add(q.ask(action, arn, nil, tags))
			add(q.tagged(action, arn, tags)...)
		}
		if spec.template != nil {
			use("launch-template", spec.template.ID)
		}
		use("image", spec.imageID)
		use("subnet", spec.subnetID)
		for _, group := range spec.groups {
			use("security-group", group)
		}
		if p, ok := q.profiles[spec.profile]; ok && p.role != nil {
			add(q.pass(p.role.arn, "ec2."+domain(q.options.Region)))
		}
	}
	var all []access
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		all = append(all, asked[key])
	}
	return all
}
