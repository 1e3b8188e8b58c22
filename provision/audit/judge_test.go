package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

const account, region = "111122223333", "eu-west-1"

// eksctl is a policy as eksctl writes it: no condition.
const eksctl = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": ["ec2:*", "iam:PassRole", "ssm:GetParameter"]}]}`

// cluster is an EKS cluster with a controller that is installed as in the guide.
func cluster(t *testing.T, name string) Cluster {
	t.Helper()
	of := iam.Cluster{Name: name, Region: region, Account: account, Queue: name, NodeRoles: []string{"nodes-" + name}}
	policies, err := iam.Controller("1.15.0", of)
	if err != nil {
		t.Fatal(err)
	}
	role := cloud.Role{ARN: "arn:aws:iam::111122223333:role/karpenter-" + name}
	for _, p := range policies {
		text, err := json.Marshal(p.Document)
		if err != nil {
			t.Fatal(err)
		}
		role.Policies = append(role.Policies, cloud.RolePolicy{Name: p.Name, Text: string(text)})
	}
	return Cluster{
		Account: account, Region: region, Name: name, ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/" + name,
		Endpoint: "https://" + name + ".example.com", VPC: "vpc-" + name, Context: name,
		Controllers: []Controller{{
			Namespace: "kube-system", Name: "karpenter", Version: "1.15.0", Running: true, ClusterName: name, Queue: name,
			RoleARN: role.ARN, Grant: cloud.Grant{RoleARN: role.ARN, Role: role}, Read: true,
		}},
		Classes: []awsv1.EC2NodeClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "default"},
			Spec: awsv1.EC2NodeClassSpec{
				Role:                       "nodes-" + name,
				SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{discoveryTag: name}}},
				SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{discoveryTag: name}}},
			},
		}},
	}
}

// network has a subnet and a security group for each of two clusters.
func network() Network {
	n := Network{Account: account, Region: region}
	for _, name := range []string{"blue", "green"} {
		n.Subnets = append(n.Subnets, cloud.Subnet{ID: "subnet-" + name, VPC: "vpc-" + name, Tags: map[string]string{discoveryTag: name}})
		n.Groups = append(n.Groups, cloud.SecurityGroup{
			ID: "sg-" + name, Name: "nodes-" + name, VPC: "vpc-" + name,
			Tags: map[string]string{discoveryTag: name, "aws:eks:cluster-name": name},
		})
	}
	return n
}

// TestJudge: two clusters that share nothing have no finding; each mistake has one.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Observed)
		want   []string
	}{
		"nothing is shared": {func(*Observed) {}, nil},
		"a copied name": {func(o *Observed) {
			o.Clusters[1].Controllers[0].ClusterName = "blue"
		}, []string{"same-name: Deployment kube-system/karpenter of EKS cluster blue (https://blue.example.com) and Deployment kube-system/karpenter of EKS cluster green"}},
		"a copied name in another region": {func(o *Observed) {
			o.Clusters[1].Region = "us-east-1"
			o.Clusters[1].Controllers[0].ClusterName = "blue"
		}, []string{"other-name: Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) uses the name blue, which EKS"}},
		"a copied name of a cluster that no context reaches": {func(o *Observed) {
			o.Clusters[0].Context, o.Clusters[0].Controllers = "", nil
			o.Clusters[1].Controllers[0].ClusterName = "blue"
		}, []string{"other-name: Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) uses the name of EKS cluster blue", "unknown: no context reaches EKS cluster blue"}},
		"two controllers in one cluster": {func(o *Observed) {
			second := o.Clusters[0].Controllers[0]
			second.Namespace = "karpenter"
			o.Clusters[0].Controllers = append(o.Clusters[0].Controllers, second)
		}, []string{"same-name: Deployment kube-system/karpenter of EKS cluster blue (https://blue.example.com) and Deployment karpenter/karpenter of EKS cluster blue"}},
		"the second of them is scaled to 0": {func(o *Observed) {
			second := o.Clusters[0].Controllers[0]
			second.Namespace, second.Running = "karpenter", false
			o.Clusters[0].Controllers = append(o.Clusters[0].Controllers, second)
		}, nil},
		"the same name in a cluster of an unknown account": {func(o *Observed) {
			o.Clusters[1].Account, o.Clusters[1].Region, o.Clusters[1].Name, o.Clusters[1].ARN = "", "", "", ""
			o.Clusters[1].Controllers[0].ClusterName = "blue"
		}, []string{
			"unknown: Deployment kube-system/karpenter of the cluster of context green (https://green.example.com) and Deployment kube-system/karpenter of EKS cluster blue (https://blue.example.com) use the name blue; the account",
			"unknown: the cluster of context green (https://green.example.com) is none of the EKS clusters that were read",
		}},
		"no plain name": {func(o *Observed) {
			o.Clusters[1].Controllers[0].ClusterName = ""
		}, []string{"unknown: Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) does not have CLUSTER_NAME"}},
		"a copied queue": {func(o *Observed) {
			o.Clusters[1].Controllers[0].Queue = "blue"
		}, []string{"shared-queue: Deployment kube-system/karpenter of EKS cluster blue (https://blue.example.com) and Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) read queue blue"}},
		"one role for both controllers": {func(o *Observed) {
			o.Clusters[1].Controllers[0].RoleARN = o.Clusters[0].Controllers[0].RoleARN
			o.Clusters[1].Controllers[0].Read = false
		}, []string{"shared-role: Deployment kube-system/karpenter of EKS cluster blue (https://blue.example.com) and Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) have the role arn:aws:iam::111122223333:role/karpenter-blue"}},
		"one role for all nodes": {func(o *Observed) {
			o.Clusters[1].Classes[0].Spec.Role = "nodes-blue"
		}, []string{"shared-role: EC2NodeClass/default of EKS cluster blue (https://blue.example.com) and EC2NodeClass/default of EKS cluster green (https://green.example.com) give nodes the role nodes-blue"}},
		"a policy without a condition": {func(o *Observed) {
			o.Clusters[1].Controllers[0].Grant.Role.Policies = []cloud.RolePolicy{{Name: "eksctl", Text: eksctl}}
		}, []string{"broad-policy: role arn:aws:iam::111122223333:role/karpenter-green of EKS cluster green (https://green.example.com) is not restricted to its cluster: it may terminate any instances of the account"}},
		"no role": {func(o *Observed) {
			o.Clusters[1].Controllers[0].RoleARN, o.Clusters[1].Controllers[0].Grant = "", cloud.Grant{}
		}, []string{"unknown: Deployment kube-system/karpenter of EKS cluster green (https://green.example.com) has no role of its own"}},
		"a policy that is not evaluated": {func(o *Observed) {
			o.Clusters[1].Controllers[0].Grant.Role.Policies = []cloud.RolePolicy{{Name: "mine", Text: "{"}}
		}, []string{"unknown: role arn:aws:iam::111122223333:role/karpenter-green of EKS cluster green (https://green.example.com): policy mine of role"}},
		"a discovery tag on what belongs to another cluster": {func(o *Observed) {
			o.Networks[0].Groups[1].Tags[discoveryTag] = "blue"
			o.Clusters[1].Classes = nil
		}, []string{"discovery: the tag karpenter.sh/discovery=blue matches security group sg-blue of cluster blue and security group sg-green of cluster green"}},
		"a security group that both select": {func(o *Observed) {
			o.Clusters[1].Classes[0].Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nodes-*"}}
		}, []string{"discovery: security group sg-blue is selected by EC2NodeClass/default of EKS cluster blue (https://blue.example.com) and EC2NodeClass/default of EKS cluster green"}},
		"a subnet that both select": {func(o *Observed) {
			o.Clusters[1].Classes[0].Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-blue"}}
		}, []string{"discovery: subnet subnet-blue is selected by"}},
		"a subnet that they declare as shared": {func(o *Observed) {
			o.Clusters[1].Classes[0].Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{discoveryTag: "*", "tier": ""}}}
			for i, tags := range []map[string]string{o.Networks[0].Subnets[0].Tags, o.Networks[0].Subnets[1].Tags} {
				tags["tier"] = fmt.Sprint(i)
				tags[sharedTag+"blue"], tags[sharedTag+"green"] = "shared", "shared"
			}
		}, nil},
		"terminations by the role of another cluster": {func(o *Observed) {
			role := func(name string) string { return "arn:aws:iam::111122223333:role/karpenter-" + name }
			at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
			o.Trails = []Trail{{
				Account: account, Region: region,
				Launched: []cloud.TrailCall{{At: at, Principal: role("blue"), Instances: []string{"i-1", "i-2", "i-3"}}},
				Terminated: []cloud.TrailCall{
					{At: at.Add(time.Hour), Principal: role("green"), Instances: []string{"i-2", "i-1"}},
					{At: at, Principal: role("green"), Instances: []string{"i-1"}}, // again
					{At: at, Principal: role("blue"), Instances: []string{"i-3"}},  // its own
					{At: at, Principal: "arn:aws:iam::111122223333:user/ann", Instances: []string{"i-3"}},
					{At: at, Principal: role("green"), Instances: []string{"i-4"}}, // launched earlier
				},
			}}
		}, []string{"termination: arn:aws:iam::111122223333:role/karpenter-green, the role of EKS cluster green (https://green.example.com), has terminated 2 instances of EKS cluster blue (https://blue.example.com), the last at 2026-12-01T10:00:00Z, such as i-1"}},
		"names outside of the pattern": {func(o *Observed) {
			o.NamePattern = regexp.MustCompile("gr|gree|green|b")
			o.NamePattern.Longest()
		}, []string{"name-pattern: the name blue of EKS cluster blue (https://blue.example.com) does not match"}},
		"a denied call": {func(o *Observed) {
			err := &cloud.DeniedError{Action: "eks:ListClusters", Resource: "*", Detail: "no policy allows it"}
			o.Unread = []Unread{{What: "the EKS clusters in eu-west-1", Err: errors.Join(err)}}
		}, []string{"unknown: the EKS clusters in eu-west-1: AWS denies eks:ListClusters"}},
		"no context reaches a cluster": {func(o *Observed) {
			o.Clusters[1].Context, o.Clusters[1].Controllers, o.Clusters[1].Classes = "", nil, nil
		}, []string{"unknown: no context reaches EKS cluster green"}},
		"no contexts are given": {func(o *Observed) {
			o.WithContexts = false
			for i := range o.Clusters {
				o.Clusters[i].Context, o.Clusters[i].Controllers, o.Clusters[i].Classes = "", nil, nil
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observed{Clusters: []Cluster{cluster(t, "blue"), cluster(t, "green")}, Networks: []Network{network()}, WithContexts: true}
			c.change(&o)
			got := Judge(o)
			for i, f := range got {
				line := string(f.Kind) + ": " + f.Message
				if i >= len(c.want) || !strings.HasPrefix(line, c.want[i]) {
					t.Errorf("finding %d is %q", i, line)
				}
				if f.Kind != NamePattern && f.Fix == "" && !strings.Contains(f.Message, "policy mine") {
					t.Errorf("%s has no fix", line)
				}
			}
			if len(got) < len(c.want) {
				t.Errorf("%d findings, want %q", len(got), c.want)
			}
			found := slices.ContainsFunc(c.want, func(line string) bool { return !strings.HasPrefix(line, "unknown") })
			if Found(got) != found || Incomplete(got) != (len(c.want) > 0 && strings.HasPrefix(c.want[len(c.want)-1], "unknown")) {
				t.Errorf("found %v, incomplete %v", Found(got), Incomplete(got))
			}
		})
	}
}
