package bootstrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// Auth is how pods get the credentials of a role.
type Auth string

// The values of Auth.
const (
	PodIdentity Auth = "pod-identity"
	IRSA        Auth = "irsa"
)

// ServiceAccount is one of the cluster.
type ServiceAccount struct{ Namespace, Name string }

// Spec is what a stack is for.
type Spec struct {
	// Cluster is the EKS cluster, with its account. NodeRoles and Queue are set by New.
	Cluster iam.Cluster
	// Version is that of Karpenter.
	Version string
	Auth    Auth
	// Issuer of the cluster's tokens, without https://; required for IRSA.
	Issuer string
	// AccessEntries reports whether the stack has one for nodes, and AuthMap whether the cluster has none at all: then the
	// ConfigMap aws-auth decides who joins it.
	AccessEntries, AuthMap bool
	// Controller and Plumbline are the ServiceAccounts of Karpenter and of plumbline.
	Controller, Plumbline ServiceAccount
	// Daemon is the policy of plumbline's role.
	Daemon iam.Template
	// Names are those that differ from the default, and Adopted the properties of resources that existed before the stack,
	// by logical ID. These are kept when the stack is deleted.
	Names   Names
	Adopted map[string]map[string]any
}

// The keys of the stack's outputs, by which a later run knows what it is for.
const (
	OutputVersion = "KarpenterVersion"
	OutputAuth    = "Auth"
)

// Tag marks what a bootstrap has created; its value is the name of the stack.
const Tag = "plumbline.dev/bootstrap"

// Resource is one of a template.
type Resource struct {
	Type           string         `json:"Type"`
	Properties     map[string]any `json:"Properties,omitempty"`
	DeletionPolicy string         `json:"DeletionPolicy,omitempty"`
}

// Output is one of a stack.
type Output struct {
	Description string `json:"Description,omitempty"`
	Value       any    `json:"Value"`
}

// Template is one of CloudFormation.
type Template struct {
	Version     string              `json:"AWSTemplateFormatVersion"`
	Description string              `json:"Description,omitempty"`
	Resources   map[string]Resource `json:"Resources"`
	Outputs     map[string]Output   `json:"Outputs,omitempty"`
}

// retain is the DeletionPolicy that keeps a resource.
const retain = "Retain"

// maxTemplate is the largest template in a request, in bytes:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
const maxTemplate = 51200

// nodePolicies are the managed policies of nodes:
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html and Karpenter's getting-started guide.
var nodePolicies = []string{
	"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore",
}

// rules are the events that the interruption queue receives, by logical ID: those of KPA
// website/content/en/v1.14/getting-started/getting-started-with-karpenter/cloudformation.yaml.
var rules = map[string]struct{ source, detail string }{
	"KarpenterScheduledChange":     {"aws.health", "AWS Health Event"},
	"KarpenterSpotInterruption":    {"aws.ec2", "EC2 Spot Instance Interruption Warning"},
	"KarpenterRebalance":           {"aws.ec2", "EC2 Instance Rebalance Recommendation"},
	"KarpenterInstanceState":       {"aws.ec2", "EC2 Instance State-change Notification"},
	"KarpenterCapacityReservation": {"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
}

func isRule(id string) bool {
	_, is := rules[id]
	return is
}

// New returns the template of a cluster's stack. Errors: an invalid cluster, an unknown version, IRSA without an issuer,
// or a template that is larger than CloudFormation accepts.
func New(s Spec) (Template, error) {
	if s.Auth == IRSA && s.Issuer == "" {
		return Template{}, errors.New("the cluster has no OIDC issuer, which IRSA needs: use --auth pod-identity")
	}
	s.Cluster.NodeRoles, s.Cluster.Queue = []string{s.Name(NodeRole)}, s.Name(Queue)
	controller, err := iam.Controller(s.Version, s.Cluster)
	if err != nil {
		return Template{}, err
	}
	daemon, err := iam.Plumbline(s.Cluster, s.Daemon)
	if err != nil {
		return Template{}, err
	}
	t := Template{
		Version:     "2010-09-09",
		Description: "What Karpenter and plumbline need in AWS for the cluster " + s.Cluster.Name + ". Managed by plumbline bootstrap.",
		Resources:   map[string]Resource{},
	}
	s.addNodes(t)
	s.addQueue(t)
	s.addRole(t, ControllerRole, ControllerLink, s.Controller, controller)
	s.addRole(t, PlumblineRole, PlumblineLink, s.Plumbline, daemon)
	for id, properties := range s.Adopted {
		t.Resources[id] = Resource{t.Resources[id].Type, properties, retain}
	}
	t.Outputs = s.outputs()
	if text, err := t.JSON(); err != nil || len(text) > maxTemplate {
		return Template{}, cmp.Or(err, fmt.Errorf("the template has %d bytes, and CloudFormation accepts %d", len(text), maxTemplate))
	}
	return t, nil
}

// Name returns the name of a resource by its logical ID; empty if CloudFormation or EKS names it.
func (s Spec) Name(id string) string { return cmp.Or(s.Names[id], nameOf(id, s.Cluster.Name)) }

func (s Spec) partition() string {
	return cmp.Or(s.Cluster.Partition, iam.PartitionOf(s.Cluster.Region))
}

func (s Spec) arn(service, resource string) string {
	region := s.Cluster.Region
	if service == "iam" {
		region = ""
	}
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", s.partition(), service, region, s.Cluster.Account, resource)
}

// Stack returns the name of the cluster's stack.
func (s Spec) Stack() string { return StackName(s.Cluster.Name) }

// NodeRoleARN returns the ARN of the role of nodes.
func (s Spec) NodeRoleARN() string { return s.arn("iam", "role/"+s.Name(NodeRole)) }

// RoleARN returns the ARN of one of the stack's roles by its logical ID.
func (s Spec) RoleARN(id string) string { return s.arn("iam", "role/"+s.Name(id)) }

// AllNames returns the names of the resources of a template.
func (s Spec) AllNames(t Template) Names {
	names := Names{}
	for id := range t.Resources {
		if name := s.Name(id); name != "" {
			names[id] = name
		}
	}
	return names
}

func ref(id string) map[string]any { return map[string]any{"Ref": id} }

func getARN(id string) map[string]any { return map[string]any{"Fn::GetAtt": []string{id, "Arn"}} }

func document(statements ...map[string]any) map[string]any {
	return map[string]any{"Version": "2012-10-17", "Statement": statements}
}

func (s Spec) addNodes(t Template) {
	var services []string
	for _, by := range iam.EC2(s.partition()) {
		services = append(services, by.Principal)
	}
	var policies []string
	for _, name := range nodePolicies {
		policies = append(policies, fmt.Sprintf("arn:%s:iam::aws:policy/%s", s.partition(), name))
	}
	t.Resources[NodeRole] = Resource{Type: "AWS::IAM::Role", Properties: map[string]any{
		"RoleName":          s.Name(NodeRole),
		"Description":       "Nodes that Karpenter launches in the cluster " + s.Cluster.Name,
		"ManagedPolicyArns": policies,
		"AssumeRolePolicyDocument": document(map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"Service": services}, "Action": "sts:AssumeRole",
		}),
	}}
	t.Resources[NodeProfile] = Resource{Type: "AWS::IAM::InstanceProfile", Properties: map[string]any{
		"InstanceProfileName": s.Name(NodeProfile), "Roles": []any{ref(NodeRole)},
	}}
	if s.AccessEntries {
		t.Resources[NodeAccess] = Resource{Type: "AWS::EKS::AccessEntry", Properties: map[string]any{
			"ClusterName": s.Cluster.Name, "PrincipalArn": getARN(NodeRole), "Type": "EC2_LINUX",
		}}
	}
}

// addQueue adds the interruption queue, the rules that fill it, and its policy: only these rules may send, and only with TLS.
func (s Spec) addQueue(t Template) {
	t.Resources[Queue] = Resource{Type: "AWS::SQS::Queue", Properties: map[string]any{
		"QueueName": s.Name(Queue), "MessageRetentionPeriod": 300, "SqsManagedSseEnabled": true,
	}}
	var sources []string
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[id]
		sources = append(sources, s.arn("events", "rule/"+s.Name(id)))
		t.Resources[id] = Resource{Type: "AWS::Events::Rule", Properties: map[string]any{
			"Name":         s.Name(id),
			"Description":  rule.detail + ", for Karpenter in the cluster " + s.Cluster.Name,
			"EventPattern": map[string]any{"source": []string{rule.source}, "detail-type": []string{rule.detail}},
			"Targets":      []any{map[string]any{"Id": Queue, "Arn": getARN(Queue)}},
		}}
	}
	t.Resources[QueuePolicy] = Resource{Type: "AWS::SQS::QueuePolicy", Properties: map[string]any{
		"Queues": []any{ref(Queue)},
		"PolicyDocument": document(map[string]any{
			"Sid": "ReceiveEvents", "Effect": "Allow", "Principal": map[string]any{"Service": "events.amazonaws.com"},
			"Action": "sqs:SendMessage", "Resource": getARN(Queue),
			"Condition": map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": sources}},
		}, map[string]any{
			"Sid": "RequireTLS", "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": getARN(Queue),
			"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
		}),
	}}
}

// addRole adds the role of a ServiceAccount with its policies, and the association that gives it the role.
func (s Spec) addRole(t Template, id, link string, account ServiceAccount, policies []iam.Policy) {
	var attached []any
	for _, p := range policies {
		policy := p.ResourceName()
		attached = append(attached, ref(policy))
		t.Resources[policy] = Resource{Type: "AWS::IAM::ManagedPolicy", Properties: map[string]any{
			"ManagedPolicyName": s.Name(policy), "Description": p.Description, "PolicyDocument": p.Document,
		}}
	}
	t.Resources[id] = Resource{Type: "AWS::IAM::Role", Properties: map[string]any{
		"RoleName":                 s.Name(id),
		"Description":              fmt.Sprintf("ServiceAccount %s/%s of the cluster %s", account.Namespace, account.Name, s.Cluster.Name),
		"AssumeRolePolicyDocument": s.trust(account),
		"ManagedPolicyArns":        attached,
	}}
	if s.Auth == IRSA {
		return
	}
	t.Resources[link] = Resource{Type: "AWS::EKS::PodIdentityAssociation", Properties: map[string]any{
		"ClusterName": s.Cluster.Name, "Namespace": account.Namespace, "ServiceAccount": account.Name, "RoleArn": getARN(id),
	}}
}

// trust returns who may assume the role of a ServiceAccount: only that of this cluster.
func (s Spec) trust(account ServiceAccount) map[string]any {
	by := iam.PodIdentity(s.arn("eks", "cluster/"+s.Cluster.Name), s.Cluster.Account, account.Namespace, account.Name, s.Cluster.Name)
	if s.Auth == IRSA {
		by = iam.WebIdentity(s.partition(), s.Cluster.Account, s.Issuer, account.Namespace, account.Name)
	}
	statement := map[string]any{
		"Effect": "Allow", "Principal": map[string]any{by.Kind: by.Principal}, "Action": by.Actions,
		"Condition": map[string]any{"StringEquals": by.Keys},
	}
	if s.Auth == IRSA {
		return document(statement)
	}
	statement["Condition"] = map[string]any{
		"StringEquals": map[string]any{"aws:SourceAccount": by.Keys["aws:SourceAccount"]},
		"ArnEquals":    map[string]any{"aws:SourceArn": by.Keys["aws:SourceArn"]},
	}
	return document(statement)
}

func (s Spec) outputs() map[string]Output {
	return map[string]Output{
		OutputVersion:  {"Version of Karpenter that the policies are for", s.Version},
		OutputAuth:     {"How pods get the credentials of a role", string(s.Auth)},
		NodeRole:       {"spec.role of EC2NodeClasses", ref(NodeRole)},
		NodeProfile:    {"spec.instanceProfile of EC2NodeClasses, where nodes do not reach IAM", ref(NodeProfile)},
		Queue:          {"cluster.interruptionQueue in plumbline.yaml", map[string]any{"Fn::GetAtt": []string{Queue, "QueueName"}}},
		ControllerRole: {"Role of Karpenter's controller", getARN(ControllerRole)},
		PlumblineRole:  {"Role of plumbline", getARN(PlumblineRole)},
	}
}

// JSON returns the template for a request.
func (t Template) JSON() ([]byte, error) { return json.Marshal(t) }

// YAML returns the template for people.
func (t Template) YAML() ([]byte, error) { return yaml.Marshal(t) }

// Parse reads a template of New from JSON or YAML, as GetTemplate returns it.
func Parse(text string) (Template, error) {
	var t Template
	if err := yaml.Unmarshal([]byte(text), &t); err != nil {
		return Template{}, fmt.Errorf("read the stack's template: %w", err)
	}
	return t, nil
}

// Import returns the template that imports the adopted resources, and contains no others: CloudFormation creates nothing
// while it imports. https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources.html
func (t Template) Import() Template {
	imported := Template{Version: t.Version, Description: t.Description, Resources: map[string]Resource{}}
	for id, r := range t.Resources {
		if r.DeletionPolicy == retain {
			imported.Resources[id] = r
		}
	}
	return imported
}

// kindOf returns the type of a resource without its vendor: IAM::Role.
func kindOf(resourceType string) string { return strings.TrimPrefix(resourceType, "AWS::") }
