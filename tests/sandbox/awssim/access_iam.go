package awssim

import (
	"cmp"
	"strconv"
)

// iam returns the IAM checks of a call to IAM, by the role, the instance profile or the policy in it.
func (q question) iam() []access {
	form := q.request.form
	gets := q.formTags()
	switch {
	case form.Has("InstanceProfileName"):
		return q.aboutProfile(form.Get("InstanceProfileName"), gets)
	case form.Has("RoleName"):
		name := form.Get("RoleName")
		if r, ok := q.roles[name]; ok {
			return []access{q.ofPolicy(q.ask(q.request.action, r.arn, r.Tags, gets))}
		}
		return q.aboutNewRole(q.iamARN("role"+cmp.Or(form.Get("Path"), "/")+name), gets)
	case form.Has("PolicyArn"):
		return q.about(form.Get("PolicyArn"), nil)
	case form.Has("PolicySourceArn"):
		return q.about(form.Get("PolicySourceArn"), nil)
	case form.Has("PolicyName"):
		return []access{q.ask(q.request.action, q.iamARN("policy"+cmp.Or(form.Get("Path"), "/")+form.Get("PolicyName")), nil, gets)}
	case form.Has("AWSServiceName"):
		service := form.Get("AWSServiceName")
		asked := q.ask(q.request.action, q.iamARN("role/aws-service-role/"+service+"/"+serviceLinked[service]), nil, nil)
		asked.Context.Set("iam:AWSServiceName", service)
		return []access{asked}
	case form.Has("OpenIDConnectProviderArn"):
		return q.about(form.Get("OpenIDConnectProviderArn"), nil)
	case form.Has("Url"):
		return q.about(q.providerARN(form.Get("Url")), nil)
	}
	return q.about("*", nil)
}

// aboutNewRole checks access to a role that does not exist. To create one with tags needs the permission to tag it.
func (q question) aboutNewRole(arn string, gets map[string]string) []access {
	all := []access{q.ask(q.request.action, arn, nil, gets)}
	if q.request.action == "CreateRole" && len(gets) > 0 {
		all = append(all, q.ask("TagRole", arn, nil, gets))
	}
	return all
}

// ofPolicy adds the policy that a call attaches to a role, or detaches.
func (q question) ofPolicy(asked access) access {
	if q.request.form.Has("PolicyArn") {
		asked.Context.Set("iam:PolicyARN", q.request.form.Get("PolicyArn"))
	}
	return asked
}

// aboutProfile checks access to an instance profile, and iam:PassRole for the role that is added to it.
func (q question) aboutProfile(name string, gets map[string]string) []access {
	arn, has := q.iamARN("instance-profile"+cmp.Or(q.request.form.Get("Path"), "/")+name), map[string]string(nil)
	if p, ok := q.profiles[name]; ok {
		arn, has = p.arn, p.Tags
	}
	all := []access{q.ask(q.request.action, arn, has, gets)}
	if r, ok := q.roles[q.request.form.Get("RoleName")]; ok && q.request.action == "AddRoleToInstanceProfile" {
		all = append(all, q.pass(r.arn, "ec2."+domain(q.options.Region)))
	}
	return all
}

// formTags returns the tags that a call of the query protocol sets.
func (q question) formTags() map[string]string {
	tags := map[string]string{}
	for n := 1; ; n++ {
		prefix := "Tags.member." + strconv.Itoa(n) + "."
		if !q.request.form.Has(prefix + "Key") {
			return tags
		}
		tags[q.request.form.Get(prefix+"Key")] = q.request.form.Get(prefix + "Value")
	}
}
