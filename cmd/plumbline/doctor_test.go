package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/preflight"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// refusingAWS denies every call.
type refusingAWS struct{}

func refuse(action string) error {
	return &cloud.DeniedError{Action: action, Resource: "*", Detail: "no policy allows it"}
}

func (refusingAWS) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{}, refuse("sts:GetCallerIdentity")
}

func (refusingAWS) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{}, refuse("eks:DescribeCluster")
}

func (refusingAWS) Grant(context.Context, string, cloud.ServiceAccount) (cloud.Grant, error) {
	return cloud.Grant{}, refuse("eks:ListPodIdentityAssociations")
}

func (refusingAWS) Simulate(context.Context, string, []cloud.Simulation) ([]cloud.Simulated, error) {
	return nil, refuse("iam:SimulatePrincipalPolicy")
}

func (refusingAWS) Addons(context.Context, string) ([]cloud.Addon, error) {
	return nil, refuse("eks:ListAddons")
}

func (refusingAWS) NodeRole(context.Context, string) (cloud.Role, error) {
	return cloud.Role{}, refuse("iam:GetRole")
}

func (refusingAWS) ProfileRoles(context.Context, string) ([]string, error) {
	return nil, refuse("iam:GetInstanceProfile")
}

func (refusingAWS) AccessEntry(context.Context, string, string) (*cloud.AccessEntry, error) {
	return nil, refuse("eks:DescribeAccessEntry")
}

func (refusingAWS) Queue(context.Context, string) (cloud.Queue, error) {
	return cloud.Queue{}, refuse("sqs:GetQueueUrl")
}

func (refusingAWS) Rules(context.Context, string) ([]cloud.Rule, error) {
	return nil, refuse("events:ListRuleNamesByTarget")
}

func (refusingAWS) Subnets(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, refuse("ec2:DescribeSubnets")
}

func (refusingAWS) SecurityGroups(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, refuse("ec2:DescribeSecurityGroups")
}

func (refusingAWS) SubnetsByID(context.Context, []string) (map[string]cloud.Subnet, error) {
	return nil, refuse("ec2:DescribeSubnets")
}

func (refusingAWS) SecurityGroupsByID(context.Context, []string) (map[string]cloud.SecurityGroup, error) {
	return nil, refuse("ec2:DescribeSecurityGroups")
}

func (refusingAWS) AMIs(context.Context, *awsv1.EC2NodeClass, string) ([]awsv1.AMI, error) {
	return nil, refuse("ec2:DescribeImages")
}

func (refusingAWS) Refused(context.Context, string) (*cloud.Refusal, error) {
	return nil, refuse("sts:DecodeAuthorizationMessage")
}

func (refusingAWS) Catalog(context.Context) (*offers.Catalog, error) {
	return nil, refuse("ec2:DescribeInstanceTypes")
}

func (refusingAWS) Fleet(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return nil, refuse("ec2:DescribeInstances")
}

func (refusingAWS) LeftBehind(context.Context, string, bool) ([]cloud.Answer, error) {
	return nil, refuse("ec2:DescribeNetworkInterfaces")
}

// TestDoctorIsDenied: without any permission, each check is unknown, and the exit code is that of an error.
func TestDoctorIsDenied(t *testing.T) {
	s, kubeconfig := serve(t)
	s.refused["/"] = http.StatusForbidden
	flags := genericclioptions.NewConfigFlags(true)
	cmd := newDoctorCommand(flags, doctor{now: time.Now, dial: func(context.Context, string) (preflight.AWS, error) { return refusingAWS{}, nil }})
	flags.ClusterName = nil // the command defines --cluster
	flags.AddFlags(cmd.PersistentFlags())
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out, errs bytes.Buffer
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--cluster", "prod", "--region", "eu-west-1"})
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if code := exitCode(cmd.ExecuteContext(t.Context()), &errs); code != exitFailed || !strings.Contains(errs.String(), "could not be read") {
		t.Errorf("code %d, says %q", code, errs.String())
	}
	for _, c := range preflight.Checks() {
		if !strings.Contains(out.String(), "\n"+c.ID+"\n  unknown: ") {
			t.Errorf("%s is not unknown:\n%s", c.ID, out.String())
		}
	}
	for _, status := range []preflight.Status{preflight.OK, preflight.Warning, preflight.Problem} {
		if strings.Contains(out.String(), " "+string(status)+" ") || strings.Contains(out.String(), "  "+string(status)+": ") {
			t.Errorf("a check is %s:\n%s", status, out.String())
		}
	}
}

// TestDoctorNamesProtectedInstances: instances that plumbline protects from termination, according to the NodeSync, are named with
// the command that ends it, also if AWS answers nothing.
func TestDoctorNamesProtectedInstances(t *testing.T) {
	over := func(n *v1alpha1.NodeSync) {
		inConflict(n)
		n.Status.IdentityConflict.Since = metav1.Time{}
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeSync)
		says   string
		code   int
	}{
		"open": {inConflict, "warning: plumbline protects instance i-1 from termination", exitFailed},
		"over": {over, "problem: instance i-1 is still protected from termination", exitChanges},
	} {
		t.Run(name, func(t *testing.T) {
			_, kubeconfig := serve(t, nodeSync("prod", c.change))
			flags := genericclioptions.NewConfigFlags(true)
			cmd := newDoctorCommand(flags, doctor{now: time.Now, dial: func(context.Context, string) (preflight.AWS, error) { return refusingAWS{}, nil }})
			flags.ClusterName = nil // the command defines --cluster
			flags.AddFlags(cmd.PersistentFlags())
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			var out, errs bytes.Buffer
			cmd.SetArgs([]string{"prod", "--only", "leftovers", "--kubeconfig", kubeconfig, "--namespace", "fleet"})
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			code := exitCode(cmd.ExecuteContext(t.Context()), &errs)
			if code != c.code || !strings.Contains(out.String(), c.says) || !strings.Contains(out.String(), "--instance-id i-1 --no-disable-api-termination") {
				t.Errorf("code %d, want %d, says %q:\n%s", code, c.code, errs.String(), out.String())
			}
		})
	}
}

func TestDoctorPrints(t *testing.T) {
	of := func(status preflight.Status) preflight.Report {
		r := preflight.Result{Check: "network", Status: status, Looked: "subnets", Why: "nodes need one", Docs: "docs/how-to/doctor.md#network"}
		if status != preflight.OK {
			r.Findings = []preflight.Finding{{Status: status, Message: "subnet-1 has a | in it", Fix: "do this\nand that"}}
		}
		return preflight.Report{Cluster: "prod", Region: "eu-west-1", Version: "1.15.0", Results: []preflight.Result{r}}
	}
	for name, c := range map[string]struct {
		status preflight.Status
		output format
		code   int
		prints []string
	}{
		"ok":       {preflight.OK, formatTable, exitDone, []string{"cluster prod in eu-west-1, Karpenter 1.15.0", "network"}},
		"warning":  {preflight.Warning, formatTable, exitDone, []string{"network\n  warning: subnet-1", "    fix: do this\n    and that", "why: nodes need one (docs/"}},
		"unknown":  {preflight.Unknown, formatJSON, exitFailed, []string{`"status": "unknown"`, `"docs": "docs/how-to/doctor.md#network"`}},
		"problem":  {preflight.Problem, formatTable, exitChanges, []string{"problem: subnet-1"}},
		"JUnit":    {preflight.Problem, formatJUnit, exitChanges, []string{`tests="1" failures="1" errors="0"`, `<failure message="subnet-1 has a | in it">`}},
		"an error": {preflight.Unknown, formatJUnit, exitFailed, []string{`failures="0" errors="1"`}},
		"markdown": {preflight.Problem, formatMarkdown, exitChanges, []string{"| network | problem | subnets |", `- problem: subnet-1 has a \| in it`, "  do this\n  and that"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if err := writeDoctor(&out, c.output, of(c.status)); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(exitOfDoctor(of(c.status)), &errs); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			for _, text := range c.prints {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is missing in:\n%s", text, out.String())
				}
			}
		})
	}
}

func (refusingAWS) Volumes(context.Context, string) cloud.Answer {
	return cloud.Answer{Err: refuse("ec2:DescribeVolumes")}
}

func (refusingAWS) Endpoints(context.Context, []string) ([]cloud.Endpoint, error) {
	return nil, refuse("ec2:DescribeVpcEndpoints")
}

func (refusingAWS) Key(context.Context, string) (cloud.Key, error) {
	return cloud.Key{}, refuse("kms:DescribeKey")
}

func (refusingAWS) Quotas(context.Context) (map[string]cloud.Quota, error) {
	return nil, refuse("servicequotas:ListServiceQuotas")
}

func (refusingAWS) TypesInUse(context.Context) (map[cloud.TypeInUse]int, error) {
	return nil, refuse("ec2:DescribeInstances")
}

func (refusingAWS) Insights(context.Context, string) ([]cloud.Insight, error) {
	return nil, refuse("eks:ListInsights")
}
