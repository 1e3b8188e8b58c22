package awssim

import (
	"strconv"
)

// iam returns the IAM checks of a call to IAM, by the role, the instance profile or the policy in it.
func (q question) iam() []access {
	form := q.request.form
	gets := q.iamTags()
	switch {
	case form.Has("InstanceProfileName"):
		return q.aboutProfile(form.Get("InstanceProfileName"), gets)
	case form.Has("RoleName"):
		name := form.Get("RoleName")
		if r, ok := q.roles[name]; ok {
			return []access{q.ask(q.request.action, r.arn, r.Tags, gets)}
		}
		return []access{q.ask(q.request.action, q.iamARN("role/"+name), nil, gets)}
	case form.Has("PolicyArn"):
		return q.about(form.Get("PolicyArn"), nil)
	case form.Has("PolicyName"):
		return []access{q.ask(q.request.action, q.iamARN("policy/"+form.Get("PolicyName")), nil, gets)}
	}
	return q.about("*", nil)
}

// aboutProfile checks access to an instance profile, and iam:PassRole for the role that is added to it.
func (q question) aboutProfile(name string, gets map[string]string) []access {
	arn, has := q.iamARN("instance-profile/"+name), map[string]string(nil)
	if p, ok := q.profiles[name]; ok {
		arn, has = p.arn, p.Tags
	}
	all := []access{q.ask(q.request.action, arn, has, gets)}
	if r, ok := q.roles[q.request.form.Get("RoleName")]; ok && q.request.action == "AddRoleToInstanceProfile" {
		all = append(all, q.pass(r))
	}
	return all
}

// iamTags returns the tags that a call to IAM sets.
func (q question) iamTags() map[string]string {
	tags := map[string]string{}
	for n := 1; ; n++ {
		prefix := "Tags.member." + strconv.Itoa(n) + "."
		if !q.request.form.Has(prefix + "Key") {
			return tags
		}
		tags[q.request.form.Get(prefix+"Key")] = q.request.form.Get(prefix + "Value")
	}
}
