package preflight

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

func TestNetwork(t *testing.T) {
	subnet := func(change func(*cloud.Subnet)) func(*Observed) {
		return func(o *Observed) {
			s := o.Subnets.Of["subnet-a"]
			change(&s)
			o.Subnets.Of["subnet-a"] = s
		}
	}
	group := func(id string, change func(*cloud.SecurityGroup)) func(*Observed) {
		return func(o *Observed) {
			g := o.Groups.Of[id]
			change(&g)
			o.Groups.Of[id] = g
		}
	}
	ingress := func(r cloud.GroupRule) func(*Observed) {
		return group("sg-eks", func(g *cloud.SecurityGroup) { g.Ingress = []cloud.GroupRule{r} })
	}
	all := []string{"ec2", "ecr.api", "ecr.dkr", "s3", "sts", "eks", "eks-auth", "sqs", "ssm"}
	isolated := func(services ...string) func(*Observed) {
		return func(o *Observed) {
			subnet(func(s *cloud.Subnet) { s.DefaultRoute, s.RouteTable = "", "rtb-1" })(o)
			for _, name := range services {
				o.Endpoints.Of = append(o.Endpoints.Of, cloud.Endpoint{
					ID: "vpce-" + name, VPC: "vpc-1", Service: "com.amazonaws.eu-west-1." + name, Available: true,
					Gateway: name == "s3", RouteTables: []string{"rtb-1"}, PrivateDNS: true,
				})
			}
		}
	}
	run(t, "network", map[string]looked{
		"nothing matches": {func(o *Observed) {
			o.Networks[0].Subnets = Value[[]string]{Err: &resolve.EmptyError{What: "subnet", Field: "spec.subnetSelectorTerms", Class: "default"}}
		}, Problem, "no subnet matches spec.subnetSelectorTerms of EC2NodeClass/default", "correct spec.subnetSelectorTerms", ""},
		"no addresses":  {subnet(func(s *cloud.Subnet) { s.Free = 0 }), Problem, "in eu-west-1a have 0 free addresses", "add a subnet in eu-west-1a", ""},
		"few addresses": {subnet(func(s *cloud.Subnet) { s.Free = 3 }), Warning, "have 3 free addresses", "", ""},
		"no route": {
			isolated(), Problem, "subnet subnet-a (EC2NodeClass/default) has no default route, and vpc-1 no endpoint for ec2, ecr.api, ecr.dkr, s3: instances do not become nodes",
			"aws ec2 create-vpc-endpoint --region eu-west-1 --vpc-id vpc-1 --service-name com.amazonaws.eu-west-1.ec2 --vpc-endpoint-type Interface --private-dns-enabled", "",
		},
		"no route, without S3": {
			isolated("ec2", "ecr.api", "ecr.dkr", "sts", "eks", "eks-auth", "sqs", "ssm"), Problem, "no endpoint for s3",
			"--service-name com.amazonaws.eu-west-1.s3 --vpc-endpoint-type Gateway --route-table-ids rtb-1", "",
		},
		"no route, for nodes only": {isolated("ec2", "ecr.api", "ecr.dkr", "s3"), Warning, "no endpoint for sts, eks, eks-auth, sqs, ssm: Karpenter's controller", "eu-west-1.sqs", ""},
		"no route, all endpoints":  {isolated(all...), OK, "", "", ""},
		"no route, another route table": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[3].RouteTables = []string{"rtb-2"}
		}, Problem, "s3 (vpce-s3 is not in route table rtb-1)", "", ""},
		"no route, without private DNS": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].PrivateDNS = false
		}, Problem, "ec2 (private DNS of vpce-ec2 is off)", "", ""},
		"no route, a group that lets nodes in": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].Groups = []string{"sg-endpoints"}
			o.Groups.Of["sg-endpoints"] = cloud.SecurityGroup{Ingress: []cloud.GroupRule{{Protocol: "tcp", From: 443, To: 443, CIDRs: []string{"10.0.0.0/24"}}}}
		}, OK, "", "", ""},
		"no route, a group that lets other subnets in": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].Groups = []string{"sg-endpoints"}
			o.Groups.Of["sg-endpoints"] = cloud.SecurityGroup{Ingress: []cloud.GroupRule{{Protocol: "tcp", From: 443, To: 443, CIDRs: []string{"10.0.1.0/24"}}}}
		}, Problem, "ec2 (no rule of security groups allows TCP 443 from the nodes to vpce-ec2)", "authorize-security-group-ingress", ""},
		"no route, a group of the endpoint that was not read": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].Groups = []string{"sg-endpoints"}
		}, OK, "", "", ""},
		"no route, groups denied": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].Groups = []string{"sg-endpoints"}
			o.Groups.Err = denied("ec2:DescribeSecurityGroups")
		}, Unknown, "AWS denies", "", "ec2:DescribeSecurityGroups"},
		"no route, not available": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].Available = false
		}, Problem, "ec2 (vpce-ec2 is not available)", "", ""},
		"no route, in another VPC": {func(o *Observed) {
			isolated(all...)(o)
			o.Endpoints.Of[0].VPC = "vpc-2"
		}, Problem, "no endpoint for ec2", "", ""},
		"no route, endpoints denied": {func(o *Observed) {
			isolated()(o)
			o.Endpoints.Err = denied("ec2:DescribeVpcEndpoints")
		}, Unknown, "AWS denies", "", "ec2:DescribeVpcEndpoints"},
		"a route to nowhere": {subnet(func(s *cloud.Subnet) { s.Blackhole = true }), Problem, "leads to nat-1, which does not exist", "aws ec2 replace-route", ""},
		"no public address":  {subnet(func(s *cloud.Subnet) { s.DefaultRoute = "igw-1" }), Problem, "instances get no public address", "associatePublicIPAddress: true", ""},
		"a public address":   {subnet(func(s *cloud.Subnet) { s.DefaultRoute, s.PublicAddress = "igw-1", true }), OK, "", "", ""},
		"a public address of the class": {func(o *Observed) {
			subnet(func(s *cloud.Subnet) { s.DefaultRoute = "igw-1" })(o)
			o.Networks[0].PublicAddress = ptr.To(true)
		}, OK, "", "", ""},
		"of another VPC": {subnet(func(s *cloud.Subnet) { s.VPC = "vpc-2" }), Problem, "subnet-a in vpc-2; the cluster is in vpc-1", "", ""},
		"of another cluster": {
			subnet(func(s *cloud.Subnet) { s.Tags = map[string]string{"kubernetes.io/cluster/other": "owned"} }), Warning,
			"belongs to cluster other", "Key=kubernetes.io/cluster/other,Value=shared", "",
		},
		"shared by clusters": {subnet(func(s *cloud.Subnet) { s.Tags = map[string]string{"kubernetes.io/cluster/other": "shared"} }), OK, "", "", ""},
		"one zone":           {subnet(func(s *cloud.Subnet) { s.Zone = "eu-west-1b" }), Warning, "in one zone only", "", ""},
		"a group of another cluster": {
			group("sg-nodes", func(g *cloud.SecurityGroup) { g.Tags = map[string]string{"aws:eks:cluster-name": "other"} }), Problem,
			"selects security group sg-nodes (nodes), which belongs to cluster other", "aws:eks:cluster-name: prod", "",
		},
		"no way in": {
			ingress(cloud.GroupRule{Protocol: "tcp", From: 22, To: 22, Groups: []string{"sg-nodes"}}), Problem,
			"do not let kubelets reach the API server", "aws ec2 authorize-security-group-ingress --region eu-west-1 --group-id sg-eks --protocol tcp --port 443 --source-group sg-nodes", "",
		},
		"in from the VPC":       {ingress(cloud.GroupRule{Protocol: "-1", CIDRs: []string{"10.0.0.0/16"}}), OK, "", "", ""},
		"in from one subnet":    {ingress(cloud.GroupRule{Protocol: "-1", CIDRs: []string{"10.0.0.0/24"}}), Problem, "do not let kubelets", "", ""},
		"in from a prefix list": {ingress(cloud.GroupRule{Protocol: "-1", PrefixLists: []string{"pl-1"}}), OK, "", "", ""},
		"no way out":            {group("sg-nodes", func(g *cloud.SecurityGroup) { g.Egress = nil }), Problem, "do not let kubelets", "", ""},
		"a public endpoint": {func(o *Observed) {
			group("sg-nodes", func(g *cloud.SecurityGroup) { g.Egress = nil })(o)
			o.EKS.Of.PrivateEndpoint = false
		}, OK, "", "", ""},
		"denied": {func(o *Observed) {
			o.Subnets = Value[map[string]cloud.Subnet]{Err: denied("ec2:DescribeRouteTables")}
		}, Unknown, "AWS denies ec2:DescribeRouteTables", "", "ec2:DescribeRouteTables"},
		"selectors denied": {func(o *Observed) {
			o.Networks[0].Groups = Value[[]string]{Err: denied("ec2:DescribeSecurityGroups")}
		}, Unknown, "AWS denies", "", "ec2:DescribeSecurityGroups"},
	})
}
