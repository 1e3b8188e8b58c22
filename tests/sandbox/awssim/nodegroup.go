package awssim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go/service/ec2"
)

// NodeGroup is a managed node group. The simulator only describes it: it launches no instance.
type NodeGroup struct {
	Name, AMIType, CapacityType string
	InstanceTypes               []string
	DiskSize                    int
	Labels                      map[string]string
	// Taints have EKS's effects: NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE.
	Taints             []NodeGroupTaint
	Min, Max, Desired  int
	LaunchTemplateData *ec2.RequestLaunchTemplateData
}

// NodeGroupTaint is a taint of a node group.
type NodeGroupTaint struct{ Key, Value, Effect string }

// nodeGroup is a node group with its launch template; the template is nil if it has none of its own.
type nodeGroup struct {
	NodeGroup
	template *launchTemplate
}

func (a *account) nodeGroupActions() map[string]action {
	return map[string]action{"ListNodegroups": document(a.listNodeGroups), "DescribeNodegroup": document(a.describeNodeGroup)}
}

var nodeGroupRoutes = []route{
	{http.MethodGet, "/clusters/{cluster}/node-groups", "ListNodegroups"},
	{http.MethodGet, "/clusters/{cluster}/node-groups/{nodegroup}", "DescribeNodegroup"},
}

// AddNodeGroup adds a managed node group to a cluster, and its launch template. It has the subnets of the cluster and the role
// of its nodes.
func (s *Simulator) AddNodeGroup(clusterName string, g NodeGroup) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		if !ok || c.nodeGroups[g.Name] != nil {
			err = fmt.Errorf("adding node group %s to cluster %s: there is no cluster of that name, or the group exists", g.Name, clusterName)
			return
		}
		made := &nodeGroup{NodeGroup: g}
		if g.LaunchTemplateData != nil {
			made.template = &launchTemplate{
				resource: a.newResource("lt-", map[string]string{}, 0), name: clusterName + "-" + g.Name, data: g.LaunchTemplateData, created: a.now,
			}
			a.templates[made.template.ID] = made.template
		}
		if c.nodeGroups == nil {
			c.nodeGroups = map[string]*nodeGroup{}
		}
		c.nodeGroups[g.Name] = made
	})
	return err
}

// RemoveNodeGroup removes a node group, and its launch template.
func (s *Simulator) RemoveNodeGroup(clusterName, name string) {
	s.locked(func(a *account) {
		if c, ok := a.clusters[clusterName]; ok && c.nodeGroups[name] != nil {
			if t := c.nodeGroups[name].template; t != nil {
				delete(a.templates, t.ID)
			}
			delete(c.nodeGroups, name)
		}
	})
}

func (a *account) listNodeGroups(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(c.nodeGroups))
	if names == nil {
		names = []string{}
	}
	return &object{"nodegroups": names}, nil
}

func (a *account) describeNodeGroup(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	g := c.nodeGroups[r.path["nodegroup"]]
	if g == nil {
		return nil, eksNotFound("No node group found for name: %s.", r.path["nodegroup"])
	}
	taints := []object{}
	for _, t := range g.Taints {
		taints = append(taints, object{"key": t.Key, "value": t.Value, "effect": t.Effect})
	}
	described := object{
		"nodegroupName": g.Name, "clusterName": c.Name, "nodegroupArn": a.arn("eks", a.options.Region, nodeGroupResource(c.Name, g.Name)), "status": "ACTIVE",
		"version": c.Version, "amiType": g.AMIType, "capacityType": g.CapacityType, "instanceTypes": g.InstanceTypes,
		"labels": g.Labels, "taints": taints, "subnets": c.subnets, "nodeRole": a.arn("iam", "", "role/KarpenterNodeRole-"+c.Name),
		"scalingConfig": object{"minSize": g.Min, "maxSize": g.Max, "desiredSize": g.Desired},
		"health":        object{"issues": []object{}}, "tags": object{},
	}
	if g.template == nil {
		described["diskSize"] = g.DiskSize
	} else {
		described["launchTemplate"] = object{"id": g.template.ID, "name": g.template.name, "version": "1"}
	}
	return &object{"nodegroup": described}, nil
}

// nodeGroupResource returns the last part of the ARN of a node group:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
func nodeGroupResource(cluster, name string) string {
	return "nodegroup/" + cluster + "/" + name + "/" + fixedID("", name)
}
