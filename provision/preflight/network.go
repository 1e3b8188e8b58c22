package preflight

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// ClassNetwork is what the selectors of an EC2NodeClass resolve to.
type ClassNetwork struct {
	Class string
	// PublicAddress is spec.associatePublicIPAddress; nil if the subnet decides.
	PublicAddress *bool
	// Subnets and Groups are IDs. If nothing matches, the error is a *resolve.EmptyError.
	Subnets, Groups Value[[]string]
}

// network checks the subnets and security groups of nodes.
func network() Check {
	return Check{
		ID: "network",
		Why: "an instance in a subnet without a route, without free addresses, or with a security group that does not reach the " +
			"API server never becomes a node",
		needs: []source{ofAccount, ofClasses, ofNetwork},
		look:  lookAtNetwork,
	}
}

func lookAtNetwork(o Observed) (string, []Finding) {
	const looked = "the subnets, routes, VPC endpoints and security groups of EC2NodeClasses"
	if o.Classes.Err != nil {
		return looked, unread(o.Classes.Err)
	}
	if len(o.Networks) == 0 {
		return "no EC2NodeClass", nil
	}
	var found []Finding
	for _, err := range []error{o.EKS.Err, o.Subnets.Err, o.Groups.Err, o.Endpoints.Err} {
		if err != nil {
			found = append(found, unread(err)...)
		}
	}
	for _, n := range o.Networks {
		for _, err := range []error{n.Subnets.Err, n.Groups.Err} {
			if err != nil {
				found = append(found, unmatched(n.Class, err)...)
			}
		}
		found = append(found, n.subnets(o)...)
		found = append(found, n.groups(o)...)
	}
	return looked, found
}

// unmatched returns why a selector has no result.
func unmatched(class string, err error) []Finding {
	var none *resolve.EmptyError
	if !errors.As(err, &none) {
		return unread(err)
	}
	return []Finding{{
		Status: Problem, Message: fmt.Sprintf("no %s matches %s of EC2NodeClass/%s: it launches no node", none.What, none.Field, class),
		Fix: fmt.Sprintf("correct %s of EC2NodeClass/%s, or tag the %s that it shall match", none.Field, class, none.What),
	}}
}

// fewAddresses are too few for the next nodes: each needs one, and the VPC CNI plugin takes more for its pods.
const fewAddresses = 16

// subnets returns what is wrong with the subnets.
func (n ClassNetwork) subnets(o Observed) []Finding {
	var found []Finding
	free := map[string]int{}
	class := "EC2NodeClass/" + n.Class
	for _, id := range n.Subnets.Of {
		s, read := o.Subnets.Of[id]
		if !read {
			continue
		}
		free[s.Zone] += s.Free
		if other := cloud.OwnedBy(s.Tags, o.Cluster); other != "" {
			found = append(found, Finding{
				Status: Warning, Message: fmt.Sprintf("%s selects subnet %s, which belongs to cluster %s by its tags", class, id, other),
				Fix: fmt.Sprintf("select only the cluster's subnets, or tag it as shared: "+
					"aws ec2 create-tags --region %s --resources %s --tags Key=kubernetes.io/cluster/%s,Value=shared", o.Region, id, other),
			})
		}
		if o.EKS.Of.VPC != "" && s.VPC != o.EKS.Of.VPC {
			found = append(found, Finding{
				Status: Problem, Message: fmt.Sprintf("%s selects subnet %s in %s; the cluster is in %s", class, id, s.VPC, o.EKS.Of.VPC),
				Fix: "restrict spec.subnetSelectorTerms of " + class + " to subnets of the cluster's VPC",
			})
		}
		if o.Subnets.Err == nil {
			found = append(found, n.route(o, s)...)
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(free)) {
		f := Finding{
			Message: fmt.Sprintf("the subnets of %s in %s have %d free addresses", class, zone, free[zone]),
			Fix:     "add a subnet in " + zone + " that the selector terms match, or release addresses",
		}
		switch {
		case free[zone] == 0:
			f.Status = Problem
		case free[zone] < fewAddresses:
			f.Status = Warning
		default:
			continue
		}
		found = append(found, f)
	}
	if len(free) == 1 {
		found = append(found, Finding{
			Status: Warning, Message: class + " selects subnets in one zone only: if that has no capacity, no node is launched",
			Fix: "let spec.subnetSelectorTerms of " + class + " match subnets in other zones",
		})
	}
	return found
}

// route returns why instances in a subnet reach nothing outside of the VPC, such as registries and AWS's APIs.
func (n ClassNetwork) route(o Observed, s cloud.Subnet) []Finding {
	public := s.PublicAddress
	if n.PublicAddress != nil {
		public = *n.PublicAddress
	}
	replace := "aws ec2 replace-route --region " + o.Region + " --route-table-id TABLE --destination-cidr-block 0.0.0.0/0 --nat-gateway-id NAT"
	switch {
	case s.Blackhole:
		return []Finding{{
			Status: Problem, Fix: replace,
			Message: fmt.Sprintf("the default route of subnet %s (EC2NodeClass/%s) leads to %s, which does not exist any more",
				s.ID, n.Class, s.DefaultRoute),
		}}
	case s.DefaultRoute == "":
		return n.isolated(o, s)
	case strings.HasPrefix(s.DefaultRoute, "igw-") && !public:
		return []Finding{{
			Status: Problem,
			Message: fmt.Sprintf("subnet %s (EC2NodeClass/%s) leads to the internet gateway %s, but instances get no public address: "+
				"they reach nothing outside", s.ID, n.Class, s.DefaultRoute),
			Fix: "set spec.associatePublicIPAddress: true in EC2NodeClass/" + n.Class + ", or select subnets that lead to a NAT gateway",
		}}
	}
	return nil
}

// httpsPort is the port of an EKS cluster's API server, and of VPC endpoints.
const httpsPort = 443

// groups returns what is wrong with the security groups.
func (n ClassNetwork) groups(o Observed) []Finding {
	class := "EC2NodeClass/" + n.Class
	var found []Finding
	for _, id := range n.Groups.Of {
		g, read := o.Groups.Of[id]
		if other := cloud.OwnedBy(g.Tags, o.Cluster); read && other != "" {
			found = append(found, Finding{
				Status:  Problem,
				Message: fmt.Sprintf("%s selects security group %s (%s), which belongs to cluster %s by its tags", class, id, g.Name, other),
				Fix: "restrict spec.securityGroupSelectorTerms of " + class + " to the cluster's groups, for example by their tag " +
					"aws:eks:cluster-name: " + o.Cluster,
			})
		}
	}
	unknown := n.Groups.Err != nil || n.Subnets.Err != nil || o.Groups.Err != nil || o.Subnets.Err != nil || o.EKS.Err != nil
	if unknown || !o.EKS.Of.PrivateEndpoint || len(n.Groups.Of) == 0 || n.reaches(o) {
		return found
	}
	return append(found, Finding{
		Status: Problem,
		Message: fmt.Sprintf("the security groups of %s (%s) do not let kubelets reach the API server: no rule allows TCP %d from them to %s",
			class, strings.Join(n.Groups.Of, ", "), httpsPort, strings.Join(o.EKS.Of.SecurityGroups, ", ")),
		Fix: o.authorize(o.EKS.Of.SecurityGroups[len(o.EKS.Of.SecurityGroups)-1], n.Groups.Of[0]),
	})
}

// reaches reports whether kubelets reach the API server's interfaces.
func (n ClassNetwork) reaches(o Observed) bool {
	var networks []string
	for _, id := range n.Subnets.Of {
		networks = append(networks, o.Subnets.Of[id].CIDR)
	}
	return n.connects(o, o.EKS.Of.SecurityGroups, networks...)
}

// connects reports whether nodes in some networks reach interfaces with other security groups: rules of one of the nodes'
// groups let requests out, and rules of one of the other groups let them in. Rules with prefix lists, whose networks are not
// read, count.
func (n ClassNetwork) connects(o Observed, to []string, from ...string) bool {
	var networks []netip.Prefix
	for _, cidr := range from {
		if network, err := netip.ParsePrefix(cidr); err == nil {
			networks = append(networks, network)
		}
	}
	out := slices.ContainsFunc(n.Groups.Of, func(id string) bool {
		return slices.ContainsFunc(o.Groups.Of[id].Egress, func(r cloud.GroupRule) bool {
			return r.Allows(httpsPort) && (len(r.CIDRs)+len(r.PrefixLists) > 0 || sharesOne(r.Groups, to))
		})
	})
	in := slices.ContainsFunc(to, func(id string) bool {
		return slices.ContainsFunc(o.Groups.Of[id].Ingress, func(r cloud.GroupRule) bool {
			return r.Allows(httpsPort) && (len(r.PrefixLists) > 0 || sharesOne(r.Groups, n.Groups.Of) || covers(r.CIDRs, networks))
		})
	})
	return out && in
}

// knowsGroups reports whether the nodes' security groups and others were read, and exist.
func (n ClassNetwork) knowsGroups(o Observed, others []string) bool {
	return n.Groups.Err == nil && o.Groups.Err == nil && len(n.Groups.Of) > 0 && len(others) > 0 &&
		!slices.ContainsFunc(slices.Concat(n.Groups.Of, others), func(id string) bool { _, read := o.Groups.Of[id]; return !read })
}

func sharesOne(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// covers reports whether every network is in one of the CIDRs.
func covers(cidrs []string, networks []netip.Prefix) bool {
	return len(networks) > 0 && !slices.ContainsFunc(networks, func(network netip.Prefix) bool {
		return !slices.ContainsFunc(cidrs, func(cidr string) bool {
			wide, err := netip.ParsePrefix(cidr)
			return err == nil && wide.Bits() <= network.Bits() && wide.Contains(network.Addr())
		})
	})
}
