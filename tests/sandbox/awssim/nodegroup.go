package awssim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// NodeGroup is a managed node group. Unless it Launches instances, the simulator only describes it.
type NodeGroup struct {
	Name, AMIType, CapacityType string
	InstanceTypes               []string
	DiskSize                    int
	Labels                      map[string]string
	// Taints have EKS's effects: NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE.
	Taints             []NodeGroupTaint
	Min, Max, Desired  int
	LaunchTemplateData *ec2.RequestLaunchTemplateData
	// Launches makes its Auto Scaling group launch instances, which join the cluster.
	Launches bool
	// Autoscaled tags its Auto Scaling group for the discovery of the Cluster Autoscaler, as EKS does.
	Autoscaled bool
}

// NodeGroupTaint is a taint of a node group.
type NodeGroupTaint struct{ Key, Value, Effect string }

// nodeGroup is a node group with its launch template; the template is nil if it has none of its own.
type nodeGroup struct {
	NodeGroup
	template *launchTemplate
	scaling  *scalingGroup
	tags     map[string]string
}

func (a *account) nodeGroupActions() map[string]action {
	return map[string]action{"ListNodegroups": document(a.listNodeGroups), "DescribeNodegroup": document(a.describeNodeGroup), "UpdateNodegroupConfig": document(a.updateNodeGroup)}
}

var nodeGroupRoutes = []route{
	{http.MethodGet, "/clusters/{cluster}/node-groups", "ListNodegroups"},
	{http.MethodGet, "/clusters/{cluster}/node-groups/{nodegroup}", "DescribeNodegroup"},
	{http.MethodPost, "/clusters/{cluster}/node-groups/{nodegroup}/update-config", "UpdateNodegroupConfig"},
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
		made := &nodeGroup{NodeGroup: g, tags: map[string]string{}}
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
		made.scaling = scalingOf(clusterName, g)
		err = a.addScalingGroup(made.scaling)
	})
	return err
}

// nodeEffects are Kubernetes' names of EKS's effects of taints.
var nodeEffects = map[string]string{"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}

// scalingOf returns the Auto Scaling group that EKS creates for a node group, with its tags:
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
func scalingOf(cluster string, g NodeGroup) *scalingGroup {
	s := &scalingGroup{cluster: cluster, nodeGroup: g.Name, launches: g.Launches}
	s.ScalingGroup = ScalingGroup{
		Name: "eks-" + g.Name + "-" + fixedID("", cluster+"/"+g.Name), Min: g.Min, Max: g.Max, Desired: g.Desired,
		Labels: map[string]string{"eks.amazonaws.com/nodegroup": g.Name, "eks.amazonaws.com/capacityType": g.CapacityType}, Taints: map[string]string{},
		Tags: map[string]string{"kubernetes.io/cluster/" + cluster: "owned", "eks:cluster-name": cluster, "eks:nodegroup-name": g.Name},
	}
	if len(g.InstanceTypes) > 0 {
		s.InstanceType = g.InstanceTypes[0]
	}
	if g.Autoscaled {
		s.Tags["k8s.io/cluster-autoscaler/enabled"], s.Tags["k8s.io/cluster-autoscaler/"+cluster] = "true", "owned"
	}
	maps.Copy(s.Labels, g.Labels)
	for _, t := range g.Taints {
		s.Taints[t.Key] = t.Value + ":" + nodeEffects[t.Effect]
	}
	return s
}

// RemoveNodeGroup removes a node group, its launch template, and its instances.
func (s *Simulator) RemoveNodeGroup(clusterName, name string) {
	s.locked(func(a *account) {
		if c, ok := a.clusters[clusterName]; ok && c.nodeGroups[name] != nil {
			if t := c.nodeGroups[name].template; t != nil {
				delete(a.templates, t.ID)
			}
			a.removeScalingGroup(c.nodeGroups[name].scaling.Name)
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
		"nodegroupName": g.Name, "clusterName": c.Name, "nodegroupArn": a.arn("eks", a.options.Region, nodeGroupResource(c.Name, g.Name)), "status": a.statusOf(c, g.Name),
		"version": c.Version, "amiType": g.AMIType, "capacityType": g.CapacityType, "instanceTypes": g.InstanceTypes,
		"labels": g.Labels, "taints": taints, "subnets": c.subnets, "nodeRole": a.arn("iam", "", "role/KarpenterNodeRole-"+c.Name),
		"scalingConfig": object{"minSize": g.scaling.Min, "maxSize": g.scaling.Max, "desiredSize": g.scaling.Desired},
		"health":        object{"issues": []object{}}, "tags": maps.Clone(g.tags),
		"resources": object{"autoScalingGroups": []object{{"name": g.scaling.Name}}},
	}
	if g.template == nil {
		described["diskSize"] = g.DiskSize
	} else {
		described["launchTemplate"] = object{"id": g.template.ID, "name": g.template.name, "version": "1"}
	}
	return &object{"nodegroup": described}, nil
}

// statusOf returns EKS's state of a node group.
func (a *account) statusOf(c *cluster, name string) string {
	if a.updating(c, name) != nil {
		return "UPDATING"
	}
	return "ACTIVE"
}

type updateNodeGroupInput struct {
	ScalingConfig *struct{ MinSize, MaxSize, DesiredSize *int }
}

// updateNodeGroup changes the sizes of a node group.
func (a *account) updateNodeGroup(r *request, in *updateNodeGroupInput) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	g := c.nodeGroups[r.path["nodegroup"]]
	if g == nil {
		return nil, eksNotFound("No node group found for name: %s.", r.path["nodegroup"])
	}
	if err := a.updating(c, g.Name); err != nil {
		return nil, err
	}
	if in.ScalingConfig != nil {
		least, most, desired := g.scaling.Min, g.scaling.Max, g.scaling.Desired
		for value, given := range map[*int]*int{&least: in.ScalingConfig.MinSize, &most: in.ScalingConfig.MaxSize, &desired: in.ScalingConfig.DesiredSize} {
			if given != nil {
				*value = *given
			}
		}
		switch {
		case least > desired:
			return nil, wire.Errorf("InvalidParameterException", "Minimum capacity %d can't be greater than desired size %d", least, desired)
		case desired > most:
			return nil, wire.Errorf("InvalidParameterException", "desired capacity %d can't be greater than max size %d", desired, most)
		case most < 1:
			return nil, wire.Errorf("InvalidParameterException", "Maximum capacity must be at least 1")
		}
		g.scaling.Min, g.scaling.Max, g.scaling.Desired = least, most, desired
		if err := a.fillGroup(g.scaling); err != nil {
			return nil, err
		}
	}
	return a.beginUpdate(c, "ConfigUpdate", g.Name)
}

// nodeGroupResource returns the last part of the ARN of a node group:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
func nodeGroupResource(cluster, name string) string {
	return "nodegroup/" + cluster + "/" + name + "/" + fixedID("", name)
}
