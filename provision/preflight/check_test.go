package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

const (
	account    = "111122223333"
	version    = "1.15.0"
	roleARN    = "arn:aws:iam::" + account + ":role/KarpenterControllerRole-prod"
	nodeRole0  = "KarpenterNodeRole-prod"
	clusterARN = "arn:aws:eks:eu-west-1:" + account + ":cluster/prod"
	issuer     = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"
	trusted    = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"},
		"Action": ["sts:AssumeRole", "sts:TagSession"]}}`
)

const (
	nodeRoleARN = "arn:aws:iam::" + account + ":role/" + nodeRole0
	trustsEC2   = `{"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}`
)

// queuePolicy is the one of Karpenter's getting-started guide.
const (
	queueARN    = "arn:aws:sqs:eu-west-1:" + account + ":prod"
	queuePolicy = `{"Id": "EC2InterruptionPolicy", "Statement": [
		{"Effect": "Allow", "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]}, "Action": "sqs:SendMessage", "Resource": "` + queueARN + `"},
		{"Sid": "DenyHTTP", "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "` + queueARN + `",
			"Condition": {"Bool": {"aws:SecureTransport": false}}}]}`
)

// rules are those of the guide.
func rules() []cloud.Rule {
	var all []cloud.Rule
	for _, e := range events {
		all = append(all, cloud.Rule{
			Name: e.detail, ARN: "arn:aws:events:eu-west-1:" + account + ":rule/one", Enabled: true,
			Pattern: fmt.Sprintf(`{"source": [%q], "detail-type": [%q]}`, e.source, e.detail),
		})
	}
	return all
}

// ofArch are requirements for an architecture.
func ofArch(arch string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}}
}

// pool is a NodePool for architectures, with the EC2NodeClass default.
func pool(name string, architectures ...string) karpv1.NodePool {
	p := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: architectures},
	}
	return p
}

// attached are managed policies of AWS.
func attached(names ...string) []cloud.RolePolicy {
	var all []cloud.RolePolicy
	for _, name := range names {
		all = append(all, cloud.RolePolicy{Name: name, ARN: "arn:aws:iam::aws:policy/" + name})
	}
	return all
}

// needed are the policies that plumbline generates for the controller.
func needed(t *testing.T) []cloud.RolePolicy {
	t.Helper()
	policies, err := iam.Controller(version, iam.Cluster{Name: "prod", Region: "eu-west-1", Account: account, NodeRoles: []string{nodeRole0}, Queue: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	var all []cloud.RolePolicy
	for _, p := range policies {
		all = append(all, cloud.RolePolicy{Name: p.Name, ARN: "arn:aws:iam::" + account + ":policy/" + p.Name, Text: indented(p.Document)})
	}
	return all
}

// healthy is a cluster in which every check is OK.
func healthy(t *testing.T) Observed {
	t.Helper()
	class := awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: awsv1.EC2NodeClassSpec{Role: nodeRole0}}
	return Observed{
		Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Cluster: "prod", Region: "eu-west-1", Version: version,
		Identity: Value[cloud.Identity]{Of: cloud.Identity{Account: account}},
		EKS: Value[cloud.Cluster]{Of: cloud.Cluster{
			Name: "prod", ARN: clusterARN, Version: "1.36", Issuer: issuer, AuthenticationMode: "API",
			VPC: "vpc-1", PrivateEndpoint: true, SecurityGroups: []string{"sg-eks"},
		}},
		Controllers: Value[[]Controller]{Of: []Controller{{
			Namespace: "kube-system", Name: "karpenter", ServiceAccount: "karpenter", Replicas: 2, Version: version,
			Environment: map[string]string{"CLUSTER_NAME": "prod", "INTERRUPTION_QUEUE": "prod"},
		}}},
		Grant: Value[cloud.Grant]{Of: cloud.Grant{
			RoleARN: roleARN, Association: &cloud.Association{ARN: "a-1", RoleARN: roleARN},
			Role: cloud.Role{ARN: roleARN, Trust: trusted, Policies: needed(t)},
		}},
		Queue: Value[cloud.Queue]{Of: cloud.Queue{Name: "prod", ARN: queueARN, Policy: queuePolicy}},
		Rules: Value[[]cloud.Rule]{Of: rules()},
		Networks: []ClassNetwork{{
			Class: "default", Subnets: Value[[]string]{Of: []string{"subnet-a", "subnet-b"}}, Groups: Value[[]string]{Of: []string{"sg-nodes"}},
		}},
		Subnets: Value[map[string]cloud.Subnet]{Of: map[string]cloud.Subnet{
			"subnet-a": {ID: "subnet-a", Zone: "eu-west-1a", VPC: "vpc-1", CIDR: "10.0.0.0/24", Free: 200, DefaultRoute: "nat-1"},
			"subnet-b": {ID: "subnet-b", Zone: "eu-west-1b", VPC: "vpc-1", CIDR: "10.0.1.0/24", Free: 200, DefaultRoute: "nat-1"},
		}},
		Groups: Value[map[string]cloud.SecurityGroup]{Of: map[string]cloud.SecurityGroup{
			"sg-nodes": {ID: "sg-nodes", Name: "nodes", Egress: []cloud.GroupRule{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}}}},
			"sg-eks":   {ID: "sg-eks", Ingress: []cloud.GroupRule{{Protocol: "tcp", From: 443, To: 443, Groups: []string{"sg-nodes"}}}},
		}},
		SystemZones: []string{"eu-west-1a", "eu-west-1b"},
		Workloads: Value[[]Workload]{Of: []Workload{
			{Name: "Karpenter's controller", Object: "kube-system/karpenter", Essential: true, Pods: []Place{
				{Pod: "kube-system/karpenter-1", Node: "a", Zone: "eu-west-1a"}, {Pod: "kube-system/karpenter-2", Node: "b", Zone: "eu-west-1b"},
			}},
			{Name: "CoreDNS", Object: "kube-system/coredns", Pods: []Place{
				{Pod: "kube-system/coredns-1", Node: "a", Zone: "eu-west-1a"}, {Pod: "kube-system/coredns-2", Node: "c", Zone: "eu-west-1b", Pool: "general"},
			}},
		}},
		CRDs: Value[[]CRD]{Of: []CRD{
			{Name: "nodepools.karpenter.sh", Stored: []string{"v1"}, Versions: []string{"v1"}},
			{Name: "nodeoverlays.karpenter.sh", Stored: []string{"v1alpha1"}, Versions: []string{"v1alpha1"}},
		}},
		Pods: Value[[]Pod]{Of: []Pod{{Namespace: "web", Name: "web-1", Node: "c", Labels: map[string]string{"app": "web"}}}},
		Budgets: Value[[]policyv1.PodDisruptionBudget]{Of: []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			// No disruption is allowed while a pod is not healthy, but later.
			Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 2},
		}}},
		Pools:       Value[[]karpv1.NodePool]{Of: []karpv1.NodePool{pool("general", "amd64")}},
		PoolBudgets: []PoolBudgets{{Pool: "general", Nodes: 3, Allowed: map[string]Allowed{"Drifted": {Most: 1}, "Underutilized": {Most: 1}, "Empty": {Most: 3}}}},
		PoolTypes: Value[[]PoolTypes]{Of: []PoolTypes{{
			Pool: "general", Types: 20, Zones: []string{"eu-west-1a", "eu-west-1b"},
			Quotas:   map[string]int64{"L-1216C47A": 2, "L-34B43A08": 2},
			Smallest: amounts("2", "4Gi"), Limits: amounts("100", "200Gi"), Used: amounts("10", "20Gi"),
		}}},
		Quotas: Value[map[string]QuotaInUse]{Of: map[string]QuotaInUse{
			"L-1216C47A": {cloud.Quota{Code: "L-1216C47A", Name: "Running On-Demand Standard instances", VCPUs: 256}, 56},
			"L-34B43A08": {cloud.Quota{Code: "L-34B43A08", Name: "All Standard Spot Instance Requests", VCPUs: 64}, 0},
		}},
		Insights: Value[[]cloud.Insight]{Of: []cloud.Insight{{Name: "Deprecated APIs", Category: "UPGRADE_READINESS", Status: "PASSING"}}},
		Images: []ClassImages{{
			Class: "default", Kubernetes: "1.36", Next: "1.37",
			Now:   Value[[]awsv1.AMI]{Of: []awsv1.AMI{{ID: "ami-1", Name: "al2023", Requirements: ofArch("amd64")}}},
			Later: Value[[]awsv1.AMI]{Of: []awsv1.AMI{{ID: "ami-2", Requirements: ofArch("amd64")}}},
		}},
		DaemonSets: Value[[]NodeDaemonSet]{Of: []NodeDaemonSet{{Name: "DaemonSet kube-system/ebs-csi-node", Tolerates: true}}},
		Addons:     Value[[]cloud.Addon]{Of: []cloud.Addon{{Name: "coredns", Version: "v1", Status: "ACTIVE"}}},
		Agent:      Value[bool]{Of: true},
		Classes:    Value[[]awsv1.EC2NodeClass]{Of: []awsv1.EC2NodeClass{class}},
		NodeRoles: []NodeRole{{
			Name: nodeRole0, Classes: []string{"default"},
			Role: Value[cloud.Role]{Of: cloud.Role{ARN: nodeRoleARN, Trust: trustsEC2, Policies: attached(
				"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore")}},
			Entry: Value[*cloud.AccessEntry]{Of: &cloud.AccessEntry{RoleARN: nodeRoleARN, Type: "EC2_LINUX"}},
		}},
	}
}

// denied is a call that AWS denies.
func denied(action string) error {
	return &cloud.DeniedError{Action: action, Resource: "*", Detail: "no identity-based policy allows it", Err: errors.New("denied")}
}

// look returns the findings of one check.
func look(t *testing.T, id string, o Observed) Result {
	t.Helper()
	checks, err := Select([]string{id})
	if err != nil {
		t.Fatal(err)
	}
	return Run(checks, o)[0]
}

// looked is a case of a check: what is broken, and what the first finding says.
type looked struct {
	broken func(*Observed)
	status Status
	// says and fix are parts of the first finding.
	says, fix string
	// action is the missing one if the check is Unknown.
	action string
}

// run checks each case, and that the check is OK if nothing is broken.
func run(t *testing.T, id string, cases map[string]looked) {
	t.Helper()
	if r := look(t, id, healthy(t)); r.Status != OK || r.Looked == "" || r.Why == "" {
		t.Errorf("a healthy cluster: %+v", r)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := healthy(t)
			c.broken(&o)
			r := look(t, id, o)
			if r.Status != c.status {
				t.Fatalf("status %s, want %s: %+v", r.Status, c.status, r.Findings)
			}
			if c.status == OK {
				return
			}
			f := r.Findings[0]
			if !strings.Contains(f.Message, c.says) || !strings.Contains(f.Fix, c.fix) || f.Action != c.action {
				t.Errorf("finding %+v, want %q, fix %q, action %q", f, c.says, c.fix, c.action)
			}
			if c.status == Problem && f.Fix == "" {
				t.Errorf("%q has no fix", f.Message)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	if _, err := Select([]string{"controller-role", "nothing"}); err == nil || !strings.Contains(err.Error(), "controller-reach") {
		t.Errorf("an unknown check: %v", err)
	}
	ids := map[string]bool{}
	for _, c := range Checks() {
		if ids[c.ID] || c.ID == "" || c.Why == "" || len(c.needs) == 0 {
			t.Errorf("%+v", c)
		}
		ids[c.ID] = true
	}
}

// TestDocs checks that each check has its section.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../" + Docs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks() {
		if !strings.Contains(string(text), "\n### "+c.ID+"\n") {
			t.Errorf("%s has no section %s", Docs, c.ID)
		}
	}
}

// refusing is an API server and an AWS account that deny everything.
type refusing struct{ client.Reader }

func (refusing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: fmt.Sprintf("%T", list)}, "", errors.New("no"))
}

func (refusing) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, "", errors.New("no"))
}

// TestNothingIsAllowed checks that each check is unknown, and names a missing permission, if everything is denied.
func TestNothingIsAllowed(t *testing.T) {
	r := Reader{
		AWS: &account0{err: denied}, API: refusing{},
		KarpenterCRDs: func(context.Context, string) ([]*apiextensionsv1.CustomResourceDefinition, error) { return nil, nil },
	}
	o := r.Read(t.Context(), Checks(), Observed{Cluster: "prod", Region: "eu-west-1", Version: version, Now: time.Now()})
	for _, result := range Run(Checks(), o) {
		named := slices.ContainsFunc(result.Findings, func(f Finding) bool { return f.Status == Unknown && f.Action != "" })
		if result.Status != Unknown || !named {
			t.Errorf("%s is %s: %+v", result.Check, result.Status, result.Findings)
		}
	}
}

// TestRead checks that the role comes from the ServiceAccount of the Deployment in the cluster.
func TestRead(t *testing.T) {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: map[string]string{"app": "karpenter"}},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "karpenter",
			Containers: []corev1.Container{{Name: "controller", Image: "public.ecr.aws/karpenter/controller:1.15.0@sha256:0", Env: []corev1.EnvVar{
				{Name: "CLUSTER_NAME", Value: "prod"},
			}}},
		}}},
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "karpenter", Annotations: map[string]string{cloud.RoleAnnotation: roleARN},
	}}
	aws := &account0{}
	r := Reader{AWS: aws, API: fake.NewClientBuilder().WithObjects(deployment, sa).Build(), ControllerLabels: map[string]string{"app": "karpenter"}}
	checks, err := Select([]string{"controller-reach"})
	if err != nil {
		t.Fatal(err)
	}
	o := r.Read(t.Context(), checks, Observed{Cluster: "prod", Region: "eu-west-1"})
	c, found := o.controller()
	if !found || c.Version != "1.15.0" || c.Environment["CLUSTER_NAME"] != "prod" || c.Replicas != 1 {
		t.Errorf("controller %+v", c)
	}
	if want := (cloud.ServiceAccount{Namespace: "kube-system", Name: "karpenter", RoleARN: roleARN}); aws.granted != want {
		t.Errorf("asked for the role of %+v, want %+v", aws.granted, want)
	}
	if len(o.Addons.Of) > 0 || o.Agent.Of {
		t.Error("it read what the check does not need")
	}
}

// account0 is an AWS account without anything; err returns the error of each action.
type account0 struct {
	err     func(action string) error
	granted cloud.ServiceAccount
}

func (a *account0) fail(action string) error {
	if a.err == nil {
		return nil
	}
	return a.err(action)
}

func (a *account0) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{}, a.fail("sts:GetCallerIdentity")
}

func (a *account0) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{}, a.fail("eks:DescribeCluster")
}

func (a *account0) Grant(_ context.Context, _ string, of cloud.ServiceAccount) (cloud.Grant, error) {
	a.granted = of
	return cloud.Grant{}, a.fail("eks:ListPodIdentityAssociations")
}

func (a *account0) Simulate(_ context.Context, _ string, questions []cloud.Simulation) ([]cloud.Simulated, error) {
	return make([]cloud.Simulated, len(questions)), a.fail("iam:SimulatePrincipalPolicy")
}

func (a *account0) Addons(context.Context, string) ([]cloud.Addon, error) {
	return nil, a.fail("eks:ListAddons")
}

func (a *account0) NodeRole(context.Context, string) (cloud.Role, error) {
	return cloud.Role{}, a.fail("iam:GetRole")
}

func (a *account0) ProfileRoles(context.Context, string) ([]string, error) {
	return nil, a.fail("iam:GetInstanceProfile")
}

func (a *account0) AccessEntry(context.Context, string, string) (*cloud.AccessEntry, error) {
	return nil, a.fail("eks:DescribeAccessEntry")
}

func (a *account0) Queue(context.Context, string) (cloud.Queue, error) {
	return cloud.Queue{}, a.fail("sqs:GetQueueUrl")
}

func (a *account0) Rules(context.Context, string) ([]cloud.Rule, error) {
	return nil, a.fail("events:ListRuleNamesByTarget")
}

func (a *account0) Subnets(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, a.fail("ec2:DescribeSubnets")
}

func (a *account0) SecurityGroups(context.Context, *awsv1.EC2NodeClass) ([]string, error) {
	return nil, a.fail("ec2:DescribeSecurityGroups")
}

func (a *account0) SubnetsByID(context.Context, []string) (map[string]cloud.Subnet, error) {
	return nil, a.fail("ec2:DescribeSubnets")
}

func (a *account0) SecurityGroupsByID(context.Context, []string) (map[string]cloud.SecurityGroup, error) {
	return nil, a.fail("ec2:DescribeSecurityGroups")
}

func (a *account0) AMIs(context.Context, *awsv1.EC2NodeClass, string) ([]awsv1.AMI, error) {
	return nil, a.fail("ec2:DescribeImages")
}

func (a *account0) Refused(context.Context, string) (*cloud.Refusal, error) {
	return nil, a.fail("sts:DecodeAuthorizationMessage")
}

func (a *account0) Fleet(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return nil, a.fail("ec2:DescribeInstances")
}

func (a *account0) LeftBehind(context.Context, string, bool) ([]cloud.Answer, error) {
	return nil, a.fail("ec2:DescribeNetworkInterfaces")
}

func (a *account0) Catalog(context.Context) (*offers.Catalog, error) {
	return nil, a.fail("ec2:DescribeInstanceTypes")
}

func (a *account0) Volumes(context.Context, string) cloud.Answer {
	return cloud.Answer{Err: a.fail("ec2:DescribeVolumes")}
}

func (a *account0) Endpoints(context.Context, []string) ([]cloud.Endpoint, error) {
	return nil, a.fail("ec2:DescribeVpcEndpoints")
}

func (a *account0) Key(context.Context, string) (cloud.Key, error) {
	return cloud.Key{}, a.fail("kms:DescribeKey")
}

func (a *account0) Quotas(context.Context) (map[string]cloud.Quota, error) {
	return nil, a.fail("servicequotas:ListServiceQuotas")
}

func (a *account0) TypesInUse(context.Context) (map[cloud.TypeInUse]int, error) {
	return nil, a.fail("ec2:DescribeInstances")
}

func (a *account0) Insights(context.Context, string) ([]cloud.Insight, error) {
	return nil, a.fail("eks:ListInsights")
}
