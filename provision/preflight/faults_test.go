package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// TestFaults: while AWS does not answer, or not completely, every check that reads AWS is unknown: none is OK, and none finds
// a problem.
func TestFaults(t *testing.T) {
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	karpenter := deploymentOf("kube-system", "karpenter", "public.ecr.aws/karpenter/controller:"+version, labels)
	karpenter.Spec.Template.Spec.ServiceAccountName = "karpenter"
	karpenter.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "prod"}, {Name: "INTERRUPTION_QUEUE", Value: "prod"}}
	class := &awsv1.EC2NodeClass{ObjectMeta: meta("", "default", nil), Spec: awsv1.EC2NodeClassSpec{Role: nodeRole0}}
	general := pool("general", "amd64")
	for name, c := range map[string]struct {
		err       error
		says, fix string
	}{
		"throttled":           {&cloud.ThrottledError{Action: "iam:GetRole"}, "AWS throttles iam:GetRole", ""},
		"slow":                {&cloud.UnreachableError{Action: "iam:GetRole", Detail: "no answer in time"}, "AWS did not respond to iam:GetRole: no answer in time", ""},
		"partial":             {&cloud.PartialError{Action: "ec2:DescribeInstances"}, "more pages than one pass reads", ""},
		"expired credentials": {&cloud.CredentialsError{Action: "iam:GetRole", Code: "ExpiredToken"}, "AWS does not take the credentials for iam:GetRole (ExpiredToken)", "AWS_PROFILE"},
		"clock skew":          {&cloud.CredentialsError{Action: "iam:GetRole", Code: "RequestExpired", Skewed: true}, "the clock of this machine is wrong", "synchronize the clock"},
		"a service control policy": {
			&cloud.DeniedError{Action: "iam:GetRole", Resource: "*", Explicit: true, Detail: "with an explicit deny in a service control policy"},
			"AWS denies iam:GetRole: with an explicit deny in a service control policy", "a policy denies iam:GetRole to the credentials in use explicitly",
		},
		"another error": {&cloud.AnswerError{Action: "iam:GetRole", Code: "ValidationError", Detail: "x"}, "ValidationError", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader(t, karpenter, class, &general, &corev1.ServiceAccount{ObjectMeta: meta("kube-system", "karpenter", nil)},
				&appsv1.DaemonSet{ObjectMeta: meta("kube-system", "x", nil)})
			r.AWS = &account0{err: func(string) error { return c.err }}
			checks := slices.DeleteFunc(Checks(), func(c Check) bool {
				return slices.Contains([]string{"launch-validation", "budgets", "undrainable-pods", "daemonsets", "placement", "other-controllers", "support"}, c.ID)
			})
			o := r.Read(t.Context(), checks, Observed{Now: time.Now(), Cluster: "prod", Region: "eu-west-1"})
			for _, result := range Run(checks, o) {
				if result.Status != Unknown {
					t.Errorf("%s is %s: %+v", result.Check, result.Status, result.Findings)
					continue
				}
				says := slices.ContainsFunc(result.Findings, func(f Finding) bool {
					return strings.Contains(f.Message, c.says) && strings.Contains(f.Fix, c.fix)
				})
				if !says {
					t.Errorf("%s does not say %q, fix %q: %+v", result.Check, c.says, c.fix, result.Findings)
				}
			}
		})
	}
}

// TestPartlyDenied: what a service control policy denies of a role leaves the check unknown, also if the rest was read.
func TestPartlyDenied(t *testing.T) {
	o := healthy(t)
	o.Grant.Err = errors.Join(&cloud.DeniedError{Action: "iam:GetRolePolicy", Resource: "*", Explicit: true}, &cloud.DeniedError{Action: "iam:GetPolicyVersion", Resource: "*", Explicit: true})
	for _, id := range []string{"controller-role", "controller-reach"} {
		r := look(t, id, o)
		var actions []string
		for _, f := range r.Findings {
			actions = append(actions, f.Action)
		}
		if r.Status != Unknown || !slices.Equal(actions, []string{"iam:GetRolePolicy", "iam:GetPolicyVersion"}) {
			t.Errorf("%s is %s: %+v", id, r.Status, r.Findings)
		}
	}
}

// in moves a cluster to another region, with the ARNs of its partition.
func in(t *testing.T, region string) Observed {
	t.Helper()
	o := healthy(t)
	partition := iam.PartitionOf(region)
	moved := func(text string) string {
		return strings.NewReplacer("arn:aws:", "arn:"+partition+":", "eu-west-1", region).Replace(text)
	}
	o.Region, o.EKS.Of.ARN, o.EKS.Of.Issuer = region, moved(o.EKS.Of.ARN), moved(o.EKS.Of.Issuer)
	grant := &o.Grant.Of
	grant.RoleARN, grant.Role.ARN, grant.Association.RoleARN = moved(grant.RoleARN), moved(grant.Role.ARN), moved(grant.Association.RoleARN)
	policies, err := iam.Controller(version, iam.Cluster{Name: "prod", Region: region, Account: account, NodeRoles: []string{nodeRole0}, Queue: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	grant.Role.Policies = nil
	for _, p := range policies {
		grant.Role.Policies = append(grant.Role.Policies, cloud.RolePolicy{Name: p.Name, Text: indented(p.Document)})
	}
	o.Queue.Of.ARN, o.Queue.Of.Policy = moved(o.Queue.Of.ARN), moved(o.Queue.Of.Policy)
	for i := range o.Rules.Of {
		o.Rules.Of[i].ARN = moved(o.Rules.Of[i].ARN)
	}
	node := &o.NodeRoles[0]
	node.Role.Of.ARN, node.Entry.Of.RoleARN = moved(node.Role.Of.ARN), moved(node.Entry.Of.RoleARN)
	for i := range node.Role.Of.Policies {
		node.Role.Of.Policies[i].ARN = moved(node.Role.Of.Policies[i].ARN)
	}
	return o
}

// TestPartitions: the checks of AWS are OK in another region and in AWS's other partitions, and find the same problems there,
// with ARNs and service names of the partition in the fixes.
func TestPartitions(t *testing.T) {
	for region, service := range map[string]string{
		"us-east-2": "com.amazonaws.us-east-2.ec2", "cn-north-1": "cn.com.amazonaws.cn-north-1.ec2", "us-gov-west-1": "com.amazonaws.us-gov-west-1.ec2",
	} {
		t.Run(region, func(t *testing.T) {
			for _, id := range []string{"controller-role", "controller-reach", "node-role", "interruption-queue", "network"} {
				if r := look(t, id, in(t, region)); r.Status != OK {
					t.Errorf("%s: %+v", id, r)
				}
			}
			o := in(t, region)
			o.Grant.Of.Role.Policies = []cloud.RolePolicy{{Name: "all", Text: eksctlPolicy}}
			reach := look(t, "controller-reach", o)
			arn := fmt.Sprintf("arn:%s:ec2:%s:*:instance/*", iam.PartitionOf(region), region)
			if reach.Status != Problem || !strings.Contains(reach.Findings[0].Fix, arn) {
				t.Errorf("a policy that is too broad: %+v, want %s in the fix", reach.Findings, arn)
			}
			o = in(t, region)
			subnet := o.Subnets.Of["subnet-a"]
			subnet.DefaultRoute = ""
			o.Subnets.Of["subnet-a"] = subnet
			if r := look(t, "network", o); r.Status != Problem || !strings.Contains(r.Findings[0].Fix, "--service-name "+service+" ") {
				t.Errorf("an isolated subnet: %+v, want an endpoint for %s", r.Findings, service)
			}
		})
	}
}

// TestTwoRegions: a role for the cluster of the same name in another region does not allow this one's instances and queue.
func TestTwoRegions(t *testing.T) {
	o := in(t, "us-east-2")
	o.Region = "eu-west-1"
	if r := look(t, "controller-role", o); r.Status != Problem || !strings.Contains(r.Findings[0].Message, "do not allow") {
		t.Errorf("%+v", r)
	}
}
