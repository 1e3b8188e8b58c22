package awssim

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
)

// accesses returns the IAM checks of a call: one for each resource that it concerns, or one for * if the action has no
// resource type in IAM.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
func (a *account) accesses(r *request) []access {
	q := question{account: a, request: r, base: a.callContext(r)}
	switch r.service.name {
	case "ec2":
		return q.ec2()
	case "iam":
		return q.iam()
	case "sts":
		return q.about(aws.StringValue(formValue(r, "RoleArn")), nil)
	case "eks":
		return q.eks()
	case "autoscaling":
		return q.autoScaling()
	case "cloudformation":
		return q.cloudFormation()
	case "ssm":
		return q.about(a.parameterARN(q.field("Name", "Path")), nil)
	case "sqs":
		name := q.field("QueueName", "QueueUrl")
		return q.withTags(a.arn("sqs", a.options.Region, name[strings.LastIndex(name, "/")+1:]), "CreateQueue", "TagQueue")
	case "kms":
		return q.about(a.keyARN(q.field("KeyId")), nil)
	case "events":
		if arn := q.field("ResourceARN"); arn != "" {
			return q.withTags(arn, "", "")
		}
		return q.withTags(a.arn("events", a.options.Region, "rule/"+q.field("Name", "Rule", "TargetArn")), "PutRule", "TagResource")
	}
	return q.about("*", nil)
}

// eks returns the IAM checks of a call to EKS. To associate a role needs the permission to pass it.
func (q question) eks() []access {
	r := q.request
	name, ok := r.path["cluster"]
	switch {
	case r.path["arn"] != "":
		return q.withTags(r.path["arn"], "", "")
	case !ok:
		return q.about("*", nil)
	}
	all := q.withTags(q.arn("eks", q.options.Region, eksResource(r, name)), "", "")
	if strings.HasSuffix(r.action, "PodIdentityAssociation") && q.field("roleArn") != "" {
		arn := q.field("roleArn")
		reads := q.ask("", arn, nil, nil)
		reads.Action = "iam:GetRole"
		all = append(all, q.pass(arn, PodIdentityAudience), reads)
	}
	return all
}

// withTags checks access to a resource that the call adds tags to. If it is the action that creates the resource, the
// tags need another one, too.
func (q question) withTags(arn, creates, tagging string) []access {
	gets := q.bodyTags()
	all := []access{q.ask(q.request.action, arn, nil, gets)}
	if len(gets) > 0 && q.request.action == creates {
		all = append(all, q.ask(tagging, arn, nil, gets))
	}
	return all
}

// bodyTags returns the tags in a JSON request: an object, or a list of keys and values.
func (q question) bodyTags() map[string]string {
	var body struct{ Tags json.RawMessage }
	if json.Unmarshal(q.request.body, &body) != nil || body.Tags == nil {
		return nil
	}
	tags := map[string]string{}
	var list []ruleTag
	if json.Unmarshal(body.Tags, &list) == nil {
		for _, tag := range list {
			tags[tag.Key] = tag.Value
		}
		return tags
	}
	if json.Unmarshal(body.Tags, &tags) != nil {
		return nil
	}
	return tags
}

// eksResource returns the resource of a call about a cluster, or something of it.
func eksResource(r *request, cluster string) string {
	if name, ok := r.path["nodegroup"]; ok {
		return nodeGroupResource(cluster, name)
	}
	for kind, field := range map[string]string{
		"addon": "addon", "podidentityassociation": "association", "access-entry": "principal", "fargateprofile": "profile",
	} {
		if id, ok := r.path[field]; ok {
			return kind + "/" + cluster + "/" + id
		}
	}
	return "cluster/" + cluster
}

// question builds the IAM checks of one call.
type question struct {
	*account
	request *request
	base    policy.Context
}

func formValue(r *request, name string) *string {
	if !r.form.Has(name) {
		return nil
	}
	return aws.String(r.form.Get(name))
}

// field returns the first of these fields of a JSON request that is not empty.
func (q question) field(names ...string) string {
	var body map[string]any
	if json.Unmarshal(q.request.body, &body) != nil {
		return ""
	}
	for _, name := range names {
		if text, ok := body[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// about checks access to a resource with these tags.
func (q question) about(arn string, tags map[string]string) []access {
	return []access{q.ask(q.request.action, arn, tags, nil)}
}

// ask checks an action of the service on a resource that has tags, and that the call adds tags to.
func (q question) ask(action, arn string, has, gets map[string]string) access {
	c := maps.Clone(q.base)
	service := q.request.service.name
	for key, value := range has {
		c.Set("aws:ResourceTag/"+key, value)
		c.Set(service+":ResourceTag/"+key, value)
	}
	for key, value := range gets {
		c.Set("aws:RequestTag/"+key, value)
	}
	if len(gets) > 0 {
		c.Set("aws:TagKeys", slices.Sorted(maps.Keys(gets))...)
	}
	if arn != "*" {
		c.Set("aws:ResourceAccount", q.options.Account)
	}
	return access{Action: service + ":" + action, Resource: arn, Context: c}
}

// pass checks iam:PassRole for a service.
func (q question) pass(roleARN, service string) access {
	var tags map[string]string
	if r, err := q.roleOf(&roleARN); err == nil {
		tags = r.Tags
	}
	asked := q.ask("", roleARN, tags, nil)
	asked.Action = "iam:PassRole"
	asked.Context.Set("iam:PassedToService", service)
	return asked
}

// callContext returns the condition keys that every call has.
func (a *account) callContext(r *request) policy.Context {
	region := a.options.Region
	if r.service.global {
		region = "us-east-1"
	}
	c := policy.Context{}
	c.Set("aws:RequestedRegion", region)
	c.Set("aws:PrincipalAccount", a.options.Account)
	c.Set("aws:PrincipalType", "AssumedRole")
	c.Set("aws:SecureTransport", "true") // the sandbox's loopback stands for HTTPS
	c.Set("aws:CurrentTime", a.now.UTC().Format(time.RFC3339))
	c.Set("aws:UserAgent", r.principal.UserAgent)
	c.Set("aws:ViaAWSService", strconv.FormatBool(r.via != ""))
	if r.via != "" {
		c.Set("aws:CalledVia", r.via)
		c.Set("aws:CalledViaFirst", r.via)
		c.Set("aws:CalledViaLast", r.via)
	}
	if host, _, err := net.SplitHostPort(r.http.RemoteAddr); err == nil {
		c.Set("aws:SourceIp", host)
	}
	credential := a.credentials[r.principal.AccessKey]
	if role, ok := a.roles[credential.role]; ok {
		c.Set("aws:PrincipalArn", role.arn)
		c.Set("aws:userid", role.ID+":"+credential.session)
		for key, value := range role.Tags {
			c.Set("aws:PrincipalTag/"+key, value)
		}
	}
	for key, value := range credential.tags {
		c.Set("aws:PrincipalTag/"+key, value)
	}
	return c
}
