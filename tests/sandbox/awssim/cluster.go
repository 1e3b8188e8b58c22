package awssim

import (
	"fmt"
	"maps"
	"net/netip"
	"time"
)

// Cluster is an EKS cluster, which the simulator does not run but only describes.
type Cluster struct {
	Name                 string
	Endpoint             string
	CertificateAuthority string // base64 of PEM, as EKS gives it
	Version              string // 1.36
	ServiceIPv4CIDR      string
}

type cluster struct {
	Cluster
	arn, vpcID    string
	subnets       []string
	group         string
	roleARN       string
	created       time.Time
	accessEntries map[string]accessEntry // by principal ARN
}

type accessEntry struct {
	principal, kind, username string
	groups                    []string
	created                   time.Time
}

// AddCluster makes an EKS cluster with what Karpenter's getting-started guide
// makes around one: a VPC with a subnet in each zone and a security group, tagged
// karpenter.sh/discovery, the roles KarpenterNodeRole-<name> (with an access
// entry) and KarpenterControllerRole-<name>, and an SQS queue of its name.
func (s *Simulator) AddCluster(c Cluster) error {
	var err error
	s.locked(func(a *account) { err = a.addCluster(c) })
	return err
}

func (a *account) addCluster(c Cluster) error {
	if c.Name == "" {
		return fmt.Errorf("adding a cluster: it has no name")
	}
	if _, ok := a.clusters[c.Name]; ok {
		return fmt.Errorf("adding cluster %s: region %s of this account has one of that name", c.Name, a.options.Region)
	}
	clusterRole := a.newRole(c.Name+"-cluster", "/", trusted("eks.amazonaws.com"), nil, "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
	made := &cluster{
		Cluster: c, arn: a.arn("eks", a.options.Region, "cluster/"+c.Name), roleARN: clusterRole.arn,
		created: a.now, accessEntries: map[string]accessEntry{},
	}
	a.addNetwork(made)
	tags := map[string]string{"karpenter.sh/discovery": c.Name}
	node := a.newRole("KarpenterNodeRole-"+c.Name, "/", trusted("ec2.amazonaws.com"), tags,
		"arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
		"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
		"arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
		"arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
	a.newRole("KarpenterControllerRole-"+c.Name, "/", trusted("pods.eks.amazonaws.com"), tags)
	made.accessEntries[node.arn] = accessEntry{
		principal: node.arn, kind: "EC2_LINUX", username: "system:node:{{EC2PrivateDNSName}}",
		groups: []string{"system:nodes"}, created: a.now,
	}
	a.newQueue(c.Name)
	a.clusters[c.Name] = made
	return nil
}

// addNetwork makes a VPC of its own for c: 10.<n>.0.0/16 with a /19 in each zone.
func (a *account) addNetwork(c *cluster) {
	shared := map[string]string{"kubernetes.io/cluster/" + c.Name: "shared", "Name": c.Name}
	discovery := maps.Clone(shared)
	discovery["karpenter.sh/discovery"] = c.Name

	octet := byte(len(a.vpcs))
	v := &vpc{
		resource: resource{ID: fixedID("vpc-", c.Name), Tags: maps.Clone(shared)},
		cidr:     netip.PrefixFrom(netip.AddrFrom4([4]byte{10, octet, 0, 0}), 16),
	}
	a.vpcs[v.ID], c.vpcID = v, v.ID
	for n, zone := range a.options.Zones {
		s := &subnet{
			resource: resource{ID: fixedID("subnet-", c.Name+"/"+zone), Tags: maps.Clone(discovery)},
			vpcID:    v.ID, zone: zone, used: map[netip.Addr]bool{},
			cidr: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, octet, byte(32 * n), 0}), 19),
		}
		s.Tags["Name"] = c.Name + "-" + zone
		s.Tags["kubernetes.io/role/internal-elb"] = "1"
		a.subnets[s.ID] = s
		c.subnets = append(c.subnets, s.ID)
	}
	g := &securityGroup{
		resource: resource{ID: fixedID("sg-", c.Name), Tags: maps.Clone(discovery)},
		vpcID:    v.ID, name: "eks-cluster-sg-" + c.Name,
	}
	g.Tags["aws:eks:cluster-name"] = c.Name
	a.groups[g.ID], c.group = g, g.ID
}
