package awssim

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
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
		if id, ok := r.path["association"]; ok {
			return q.about(a.arn("eks", a.options.Region, "podidentityassociation/"+r.path["cluster"]+"/"+id), nil)
		}
		if name, ok := r.path["cluster"]; ok {
			return q.about(a.arn("eks", a.options.Region, eksResource(r, name)), nil)
		}
	case "ssm":
		return q.about(a.parameterARN(q.field("Name", "Path")), nil)
	case "sqs":
		name := q.field("QueueName", "QueueUrl")
		return q.about(a.arn("sqs", a.options.Region, name[strings.LastIndex(name, "/")+1:]), nil)
	case "events":
		return q.about(a.arn("events", a.options.Region, "rule/"+q.field("Name", "Rule", "TargetArn")), nil)
	}
	return q.about("*", nil)
}

// eksResource returns the resource of a call about a cluster, or something of it.
func eksResource(r *request, cluster string) string {
	if name, ok := r.path["nodegroup"]; ok {
		return nodeGroupResource(cluster, name)
	}
	for kind, field := range map[string]string{"addon": "addon", "podidentityassociation": "association", "access-entry": "principal"} {
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

// pass checks iam:PassRole for EC2.
func (q question) pass(r *role) access {
	asked := q.ask("", r.arn, r.Tags, nil)
	asked.Action = "iam:PassRole"
	asked.Context.Set("iam:PassedToService", "ec2."+domain(q.options.Region))
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
