package awssim

import (
	"cmp"
	"crypto/ecdsa"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Cluster is an EKS cluster. The simulator only describes it, but does not run it.
type Cluster struct {
	Name                 string
	Endpoint             string
	CertificateAuthority string // base64 of PEM, as EKS returns it
	Version              string // 1.36
	ServiceIPv4CIDR      string
	// Issuer is the issuer of the API server's tokens; default: one in EKS's format. TokenKey verifies them; without it
	// no token of the cluster is accepted.
	Issuer   string
	TokenKey *ecdsa.PublicKey
	// AuthenticationMode is API, CONFIG_MAP or the default, API_AND_CONFIG_MAP.
	AuthenticationMode string
	// Bare is a cluster in which nothing was prepared for Karpenter: it has a network, the role of one managed node group with
	// its access entry, and the usual add-ons, of which SetAddon removes any.
	Bare bool
}

// AuthenticationConfigMap is the authentication mode of a cluster without access entries.
const AuthenticationConfigMap = "CONFIG_MAP"

type cluster struct {
	Cluster
	arn, vpcID    string
	status        string
	gone          bool // EKS no longer knows it
	subnets       []string
	group         string
	roleARN       string
	created       time.Time
	accessEntries map[string]accessEntry // by principal ARN
	associations  []*association         // of ServiceAccounts with roles
	addons        []string               // names, sorted
	insight       string                 // the status of its insight; empty for PASSING
	nodeGroups    map[string]*nodeGroup  // by name
	values        map[string]*addonValues
	updates       map[string]*eksUpdate // by ID
	fargate       map[string]FargateProfile
}

// The states of a cluster that matter here; there are more.
const (
	clusterActive   = "ACTIVE"
	clusterCreating = "CREATING"
)

// clusterStates are EKS's states: https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
var clusterStates = []string{clusterCreating, clusterActive, "DELETING", "FAILED", "UPDATING", "PENDING"}

// SetClusterStatus sets the status that EKS reports for a cluster. A cluster in CREATING has no endpoint and no
// certificate authority yet.
func (s *Simulator) SetClusterStatus(name, status string) error {
	if !slices.Contains(clusterStates, status) {
		return fmt.Errorf("changing the status of cluster %s: want one of %s, got %q", name, strings.Join(clusterStates, ", "), status)
	}
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[name]
		if !ok {
			err = fmt.Errorf("changing the status of cluster %s: there is none of that name", name)
			return
		}
		c.status = status
	})
	return err
}

// SetClusterGone makes EKS no longer know a cluster, as after its deletion, or know it again. Everything created around
// it is kept.
func (s *Simulator) SetClusterGone(name string, gone bool) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[name]
		if !ok {
			err = fmt.Errorf("deleting cluster %s: there is none of that name", name)
			return
		}
		c.gone = gone
	})
	return err
}

type accessEntry struct {
	principal, kind, username string
	groups                    []string
	tags                      map[string]string
	created                   time.Time
}

// issuer returns the issuer of the cluster's tokens.
func (c *cluster) issuer(region string) string {
	return cmp.Or(c.Issuer, "https://oidc.eks."+region+"."+domain(region)+"/id/"+strings.ToUpper(fixedID("", c.Name)))
}

// SetAuthenticationMode sets how EKS authenticates principals in a cluster: API, CONFIG_MAP or API_AND_CONFIG_MAP.
func (s *Simulator) SetAuthenticationMode(name, mode string) error {
	var err error
	s.locked(func(a *account) {
		var c *cluster
		if c, err = a.findCluster(name); err == nil {
			c.AuthenticationMode = mode
		}
	})
	return err
}

// AddCluster creates an EKS cluster with a VPC, a subnet in each zone and a security group. Unless it is bare, it also
// creates what Karpenter's getting-started guide does: the tag karpenter.sh/discovery on subnets and group, the roles
// KarpenterNodeRole-<name> (with an access entry) and KarpenterControllerRole-<name>, and an SQS queue of its name with the
// rules that send events to it.
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
	c.AuthenticationMode = cmp.Or(c.AuthenticationMode, "API_AND_CONFIG_MAP")
	clusterRole, err := a.newRole(c.Name+"-cluster", "/", Trusted("eks.amazonaws.com"), nil, a.managedPolicy("AmazonEKSClusterPolicy"))
	if err != nil {
		return err
	}
	made := &cluster{
		Cluster: c, status: clusterActive, arn: a.arn("eks", a.options.Region, "cluster/"+c.Name), roleARN: clusterRole.arn,
		created: a.now, accessEntries: map[string]accessEntry{}, addons: slices.Clone(addons),
	}
	a.addNetwork(made)
	prepare := a.addKarpenter
	if c.Bare {
		prepare = a.addNodeGroup
	}
	if err := prepare(made); err != nil {
		return err
	}
	a.clusters[c.Name] = made
	return nil
}

// nodePolicies are AWS's policies for nodes: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
var nodePolicies = []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"}

// addNodeRole creates a role for nodes of a cluster, and its access entry.
func (a *account) addNodeRole(c *cluster, name string, tags map[string]string) error {
	var policies []string
	for _, policy := range nodePolicies {
		policies = append(policies, a.managedPolicy(policy))
	}
	r, err := a.newRole(name, "/", Trusted("ec2."+domain(a.options.Region)), tags, policies...)
	if err == nil {
		c.accessEntries[r.arn] = a.nodeEntry(r)
	}
	return err
}

// addNodeGroup creates what a cluster has in IAM for a managed node group.
func (a *account) addNodeGroup(c *cluster) error { return a.addNodeRole(c, c.Name+"-nodegroup", nil) }

// addKarpenter creates what Karpenter's getting-started guide creates around a cluster. The account can launch spot
// instances, and trusts the cluster's tokens.
func (a *account) addKarpenter(c *cluster) error {
	if _, ok := a.roles[spotRole]; !ok {
		if _, err := a.addServiceLinkedRole("spot.amazonaws.com"); err != nil {
			return err
		}
	}
	issuer := c.issuer(a.options.Region)
	a.providers[a.providerARN(issuer)] = &oidcProvider{
		url: strings.TrimPrefix(issuer, "https://"), clients: []string{"sts.amazonaws.com"}, tags: map[string]string{}, created: a.now,
	}
	tags := map[string]string{"karpenter.sh/discovery": c.Name}
	if err := a.addNodeRole(c, "KarpenterNodeRole-"+c.Name, tags); err != nil {
		return err
	}
	policies, err := a.karpenterPolicies(c)
	if err != nil {
		return err
	}
	err = a.addRole(Role{Name: "KarpenterControllerRole-" + c.Name, Trust: Trusted(PodIdentityAudience), Policies: policies, Tags: tags})
	if err != nil {
		return err
	}
	a.addInterruptions(c.Name)
	return nil
}

// nodeEntry is the access entry of a role of nodes.
func (a *account) nodeEntry(r *role) accessEntry {
	return accessEntry{
		principal: r.arn, kind: "EC2_LINUX", username: "system:node:{{EC2PrivateDNSName}}", groups: []string{"system:nodes"}, tags: map[string]string{}, created: a.now,
	}
}

// addNetwork creates a separate VPC for c: 10.<n>.0.0/16 with a /19 in each zone.
func (a *account) addNetwork(c *cluster) {
	shared := map[string]string{"kubernetes.io/cluster/" + c.Name: "shared", "Name": c.Name}
	discovery := maps.Clone(shared)
	if !c.Bare {
		discovery["karpenter.sh/discovery"] = c.Name
	}

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
	// AWS creates a group of this name in each VPC.
	unused := &securityGroup{resource: resource{ID: fixedID("sg-", c.Name+"/default"), Tags: map[string]string{}}, vpcID: v.ID, name: "default"}
	a.groups[unused.ID] = unused
}
