package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// endpoint is an AWS service that must have an endpoint in a VPC without a route to the internet. Karpenter's guide lists
// them (KPA website/content/en/docs/getting-started/getting-started-with-karpenter/_index.md, Private Clusters), and EKS
// requires eks-auth for Pod Identity (https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html).
type endpoint struct {
	name string
	// ofNodes reports whether each node needs it; the others are needed where certain pods run.
	ofNodes bool
}

var endpoints = []endpoint{
	{"ec2", true},
	{"ecr.api", true},
	{"ecr.dkr", true},
	{"s3", true},
	{"sts", false},
	{"eks", false},
	{"eks-auth", false},
	{"sqs", false},
	{"ssm", false},
}

// endpoints reads the endpoints of the VPCs of subnets without a default route.
func (r *Reader) endpoints(ctx context.Context, o *Observed) {
	var vpcs []string
	for _, s := range o.Subnets.Of {
		if s.DefaultRoute == "" && s.VPC != "" {
			vpcs = append(vpcs, s.VPC)
		}
	}
	if len(vpcs) == 0 || o.Subnets.Err != nil {
		return
	}
	o.Endpoints.Of, o.Endpoints.Err = r.AWS.Endpoints(ctx, unique(vpcs))
	var groups []string
	for _, e := range o.Endpoints.Of {
		groups = append(groups, e.Groups...)
	}
	groups = slices.DeleteFunc(unique(groups), func(id string) bool { _, read := o.Groups.Of[id]; return read })
	if len(groups) == 0 || o.Groups.Err != nil {
		return
	}
	found, err := r.AWS.SecurityGroupsByID(ctx, groups)
	o.Groups.Err = err
	if o.Groups.Of == nil {
		o.Groups.Of = map[string]cloud.SecurityGroup{}
	}
	maps.Copy(o.Groups.Of, found)
}

// reachable reports whether the nodes of a class reach a service in a subnet without a default route. hint is why an endpoint
// that exists does not help, and fix what corrects that; empty if another endpoint does.
func (n ClassNetwork) reachable(o Observed, service string, s cloud.Subnet) (reaches bool, hint, fix string) {
	for _, e := range o.Endpoints.Of {
		if e.VPC != s.VPC || !strings.HasSuffix(e.Service, "."+o.Region+"."+service) { // in China the prefixes differ
			continue
		}
		switch {
		case !e.Available:
			hint = e.ID + " is not available"
		case e.Gateway && !slices.Contains(e.RouteTables, s.RouteTable):
			hint = e.ID + " is not in route table " + s.RouteTable
		case !e.Gateway && !e.PrivateDNS && service != "s3":
			hint = "private DNS of " + e.ID + " is off"
		case !e.Gateway && n.knowsGroups(o, e.Groups) && !n.connects(o, e.Groups, s.CIDR):
			hint = fmt.Sprintf("no rule of security groups allows TCP %d from the nodes to %s", httpsPort, e.ID)
			fix = o.authorize(e.Groups[0], n.Groups.Of[0])
		default:
			return true, "", ""
		}
	}
	return false, hint, fix
}

// isolated returns which endpoints a subnet without a default route does not have.
func (n ClassNetwork) isolated(o Observed, s cloud.Subnet) []Finding {
	if o.Endpoints.Err != nil {
		return nil // lookAtNetwork reports it
	}
	var found []Finding
	for _, ofNodes := range []bool{true, false} {
		var missing, words, fixes []string
		for _, one := range endpoints {
			if one.ofNodes != ofNodes {
				continue
			}
			reaches, hint, fix := n.reachable(o, one.name, s)
			switch {
			case reaches:
				continue
			case fix != "":
				fixes = append(fixes, fix)
			default:
				missing = append(missing, one.name)
			}
			words = append(words, strings.TrimSuffix(one.name+" ("+hint+")", " ()"))
		}
		if len(words) == 0 {
			continue
		}
		f := Finding{
			Status: Problem, Fix: strings.Join(append(o.createEndpoints(missing, s), unique(fixes)...), "\n"),
			Message: fmt.Sprintf("subnet %s (EC2NodeClass/%s) has no default route, and %s no endpoint for %s: instances do not become nodes",
				s.ID, n.Class, s.VPC, strings.Join(words, ", ")),
		}
		if !ofNodes {
			f.Status = Warning
			f.Message = fmt.Sprintf("subnet %s (EC2NodeClass/%s) has no default route, and %s no endpoint for %s: Karpenter's controller, "+
				"and pods with a role of their own, do not work there", s.ID, n.Class, s.VPC, strings.Join(words, ", "))
		}
		found = append(found, f)
	}
	return found
}

// createEndpoints returns the commands that create endpoints; that of S3 belongs to route tables.
func (o Observed) createEndpoints(services []string, s cloud.Subnet) []string {
	prefix := "com.amazonaws."
	if strings.HasPrefix(o.Region, "cn-") {
		prefix = "cn." + prefix
	}
	var commands []string
	for _, service := range services {
		command := fmt.Sprintf("aws ec2 create-vpc-endpoint --region %s --vpc-id %s --service-name %s%s.%s",
			o.Region, s.VPC, prefix, o.Region, service)
		if service == "s3" {
			command = strings.Replace(command, "cn.com", "com", 1) + " --vpc-endpoint-type Gateway --route-table-ids " + s.RouteTable
		} else {
			command += " --vpc-endpoint-type Interface --private-dns-enabled --subnet-ids " + s.ID + " --security-group-ids GROUP"
		}
		commands = append(commands, command)
	}
	return commands
}

// authorize returns the command that lets members of a security group reach those of another one by TLS.
func (o Observed) authorize(group, source string) string {
	return fmt.Sprintf("aws ec2 authorize-security-group-ingress --region %s --group-id %s --protocol tcp --port %d --source-group %s",
		o.Region, group, httpsPort, source)
}
