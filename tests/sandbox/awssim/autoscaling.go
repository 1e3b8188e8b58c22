package awssim

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/autoscaling"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// ScalingGroup is an Auto Scaling group whose instances join a cluster without a managed node group.
type ScalingGroup struct {
	Name, InstanceType string
	Labels             map[string]string
	// Taints are as in user data: value:NoSchedule, by key.
	Taints            map[string]string
	Tags              map[string]string
	Min, Max, Desired int
}

// scalingGroup is an Auto Scaling group: a self-managed one, or that of a managed node group.
type scalingGroup struct {
	ScalingGroup
	arn, cluster string
	// nodeGroup is the managed node group that it belongs to; empty if it is self-managed.
	nodeGroup string
	// launches is false if it only describes what it would launch.
	launches bool
	// instances are those that are not terminated, the oldest first.
	instances []string
}

// scalingGroupTag is the tag that instances of an Auto Scaling group have.
const scalingGroupTag = "aws:autoscaling:groupName"

func (a *account) autoScalingService() service {
	return service{
		name: "autoscaling", protocol: wire.Query, namespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
		denied: "AccessDenied", throttled: "Throttling", unknown: "InvalidAction",
		actions: map[string]action{
			"DescribeAutoScalingGroups":           query(a, a.describeScalingGroups),
			"UpdateAutoScalingGroup":              query(a, a.updateScalingGroup),
			"TerminateInstanceInAutoScalingGroup": query(a, a.terminateInScalingGroup),
			"CreateOrUpdateTags":                  query(a, a.tagScalingGroups),
			"DeleteTags":                          query(a, a.untagScalingGroups),
		},
	}
}

// AddScalingGroup adds a self-managed Auto Scaling group to a cluster, and launches its instances.
func (s *Simulator) AddScalingGroup(clusterName string, g ScalingGroup) error {
	var err error
	s.locked(func(a *account) {
		if _, err = a.findCluster(clusterName); err == nil && a.scaling[g.Name] != nil {
			err = fmt.Errorf("adding Auto Scaling group %s: there is one of that name", g.Name)
		}
		if err == nil {
			tags := maps.Clone(g.Tags)
			if tags == nil {
				tags = map[string]string{}
			}
			tags["kubernetes.io/cluster/"+clusterName] = "owned"
			g.Tags = tags
			err = a.addScalingGroup(&scalingGroup{ScalingGroup: g, cluster: clusterName, launches: true})
		}
	})
	return err
}

// RemoveScalingGroup terminates the instances of an Auto Scaling group, and removes it.
func (s *Simulator) RemoveScalingGroup(name string) {
	s.locked(func(a *account) { a.removeScalingGroup(name) })
}

func (a *account) removeScalingGroup(name string) {
	g := a.scaling[name]
	if g == nil {
		return
	}
	delete(a.scaling, name)
	for _, id := range g.instances {
		a.terminate(a.instances[id], a.userInitiated())
	}
}

func (a *account) addScalingGroup(g *scalingGroup) error {
	g.arn = a.arn("autoscaling", a.options.Region, "autoScalingGroup:"+fixedID("", g.Name)+":autoScalingGroupName/"+g.Name)
	a.scaling[g.Name] = g
	return a.fillGroup(g)
}

// fillGroup launches the instances that an Auto Scaling group wants, each in the zone with the fewest, and terminates those that it
// does not want, the oldest first.
func (a *account) fillGroup(g *scalingGroup) error {
	if !g.launches {
		return nil
	}
	live := slices.DeleteFunc(slices.Clone(g.instances), func(id string) bool { return a.instances[id].state == stateShuttingDown })
	for ; len(live) > g.Desired; live = live[1:] {
		a.terminate(a.instances[live[0]], "Client.UserInitiatedShutdown: scaled in")
	}
	c, err := a.findCluster(g.cluster)
	if err != nil {
		return err
	}
	for len(live) < g.Desired {
		zones := map[string]int{}
		for _, id := range live {
			zones[a.instances[id].subnet.ID]++
		}
		subnet := slices.MinFunc(c.subnets, func(x, y string) int { return cmp.Compare(zones[x], zones[y]) })
		spec := a.groupSpec(c, g, subnet)
		if err := cmp.Or(a.check(spec), a.capacity(spec)); err != nil {
			return err
		}
		id := a.start(spec, 0).ID
		live, g.instances = append(live, id), append(g.instances, id)
	}
	return nil
}

// groupSpec returns the instances of a group: they join the cluster with its labels and taints.
func (a *account) groupSpec(c *cluster, g *scalingGroup, subnet string) launchSpec {
	arch := a.types[g.InstanceType].Arch
	images := slices.DeleteFunc(catalog.Images(), func(i catalog.Image) bool { return a.images[i.ID].arch != arch })
	var settings strings.Builder
	fmt.Fprintf(&settings, "[settings.kubernetes]\ncluster-name = %q\napi-server = %q\n", c.Name, c.Endpoint)
	settings.WriteString("[settings.kubernetes.node-labels]\n")
	for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
		fmt.Fprintf(&settings, "%q = %q\n", key, g.Labels[key])
	}
	if len(g.Taints) > 0 {
		settings.WriteString("[settings.kubernetes.node-taints]\n")
	}
	for _, key := range slices.Sorted(maps.Keys(g.Taints)) {
		fmt.Fprintf(&settings, "%q = [%q]\n", key, g.Taints[key])
	}
	tags := map[string]string{"kubernetes.io/cluster/" + c.Name: "owned", scalingGroupTag: g.Name}
	if g.nodeGroup != "" {
		tags["eks:cluster-name"], tags["eks:nodegroup-name"] = c.Name, g.nodeGroup
	}
	var image string
	if len(images) > 0 {
		image = images[0].ID
	}
	return launchSpec{
		imageID: image, instanceType: g.InstanceType, subnetID: subnet, capacityType: onDemand, groups: []string{c.group},
		userData: base64.StdEncoding.EncodeToString([]byte(settings.String())), tags: map[string]map[string]string{"instance": tags},
	}
}

// replaced removes a terminated instance from its group, which launches another one if it wants it.
func (a *account) replaced(i *instance) {
	for _, g := range a.scaling {
		if n := slices.Index(g.instances, i.ID); n >= 0 {
			g.instances = slices.Delete(g.instances, n, n+1)
			_ = a.fillGroup(g) // without capacity, a group has fewer instances than it wants
		}
	}
}

// invalidScaling is Auto Scaling's error for everything that is wrong with a request.
func invalidScaling(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

func (a *account) findScalingGroup(name *string) (*scalingGroup, error) {
	if g := a.scaling[aws.StringValue(name)]; g != nil {
		return g, nil
	}
	return nil, invalidScaling("AutoScalingGroup name not found - AutoScalingGroup %s not found", aws.StringValue(name))
}

func (a *account) describeScalingGroups(_ *request, in *autoscaling.DescribeAutoScalingGroupsInput) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	out := &autoscaling.DescribeAutoScalingGroupsOutput{}
	for _, name := range slices.Sorted(maps.Keys(a.scaling)) {
		g := a.scaling[name]
		if named := aws.StringValueSlice(in.AutoScalingGroupNames); len(named) > 0 && !slices.Contains(named, name) {
			continue
		}
		matches, err := g.match(in.Filters)
		if err != nil {
			return nil, err
		}
		if matches {
			out.AutoScalingGroups = append(out.AutoScalingGroups, a.scalingDocument(g))
		}
	}
	return out, nil
}

// match reports whether a group matches all filters: tag-key, tag-value and tag:KEY.
func (g *scalingGroup) match(filters []*autoscaling.Filter) (bool, error) {
	for _, f := range filters {
		name, values := aws.StringValue(f.Name), aws.StringValueSlice(f.Values)
		found := false
		for key, value := range g.Tags {
			switch {
			case name == "tag-key":
				found = found || slices.Contains(values, key)
			case name == "tag-value":
				found = found || slices.Contains(values, value)
			case strings.HasPrefix(name, "tag:"):
				found = found || "tag:"+key == name && slices.Contains(values, value)
			default:
				return false, invalidScaling("Filter type %s is not correct. Allowed Filter types are: [tag-key, tag-value, tag:<key>]", name)
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// lifecycles are Auto Scaling's states of instances:
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-lifecycle.html
var lifecycles = map[string]string{statePending: "Pending", stateRunning: "InService", stateShuttingDown: "Terminating"}

func (a *account) scalingDocument(g *scalingGroup) *autoscaling.Group {
	document := &autoscaling.Group{
		AutoScalingGroupName: aws.String(g.Name), AutoScalingGroupARN: aws.String(g.arn), HealthCheckType: aws.String("EC2"),
		MinSize: aws.Int64(int64(g.Min)), MaxSize: aws.Int64(int64(g.Max)), DesiredCapacity: aws.Int64(int64(g.Desired)),
		DefaultCooldown: aws.Int64(300), CreatedTime: aws.Time(a.now), AvailabilityZones: aws.StringSlice(a.options.Zones),
	}
	for _, id := range g.instances {
		i := a.instances[id]
		document.Instances = append(document.Instances, &autoscaling.Instance{
			InstanceId: aws.String(id), AvailabilityZone: aws.String(i.subnet.zone), LifecycleState: aws.String(cmp.Or(lifecycles[i.state], "InService")),
			HealthStatus: aws.String("Healthy"), InstanceType: aws.String(g.InstanceType), ProtectedFromScaleIn: aws.Bool(false),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		document.Tags = append(document.Tags, &autoscaling.TagDescription{
			Key: aws.String(key), Value: aws.String(g.Tags[key]), ResourceId: aws.String(g.Name), ResourceType: aws.String("auto-scaling-group"),
			PropagateAtLaunch: aws.Bool(false),
		})
	}
	return document
}

func (a *account) updateScalingGroup(_ *request, in *autoscaling.UpdateAutoScalingGroupInput) (*autoscaling.UpdateAutoScalingGroupOutput, error) {
	g, err := a.findScalingGroup(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	least, most, desired := int64(g.Min), int64(g.Max), int64(g.Desired)
	for value, given := range map[*int64]*int64{&least: in.MinSize, &most: in.MaxSize, &desired: in.DesiredCapacity} {
		if given != nil {
			*value = *given
		}
	}
	switch {
	case least > most:
		return nil, invalidScaling("Max bound, %d, must be greater than or equal to min bound, %d", most, least)
	case in.DesiredCapacity == nil:
		desired = min(max(desired, least), most)
	case desired < least || desired > most:
		return nil, invalidScaling("Desired capacity:%d must be between the specified min size:%d and max size:%d", desired, least, most)
	}
	g.Min, g.Max, g.Desired = int(least), int(most), int(desired)
	return &autoscaling.UpdateAutoScalingGroupOutput{}, a.fillGroup(g)
}

func (a *account) terminateInScalingGroup(
	_ *request, in *autoscaling.TerminateInstanceInAutoScalingGroupInput,
) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	id := aws.StringValue(in.InstanceId)
	for _, g := range a.scaling {
		if !slices.Contains(g.instances, id) || a.instances[id].state == stateShuttingDown {
			continue
		}
		if aws.BoolValue(in.ShouldDecrementDesiredCapacity) {
			if g.Desired <= g.Min {
				return nil, invalidScaling("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. "+
					"Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
			}
			g.Desired--
		}
		a.terminate(a.instances[id], "Server.ScheduledStop: terminated by Auto Scaling")
		return &autoscaling.TerminateInstanceInAutoScalingGroupOutput{Activity: &autoscaling.Activity{
			ActivityId: aws.String(newRequestID()), AutoScalingGroupName: aws.String(g.Name), StartTime: aws.Time(a.now),
			Cause: aws.String("a user request"), StatusCode: aws.String("InProgress"),
		}}, nil
	}
	return nil, invalidScaling("Instance Id not found - No managed instance found for instance ID: %s", id)
}

func (a *account) tagScalingGroups(_ *request, in *autoscaling.CreateOrUpdateTagsInput) (*autoscaling.CreateOrUpdateTagsOutput, error) {
	for _, tag := range in.Tags {
		g, err := a.findScalingGroup(tag.ResourceId)
		if err != nil {
			return nil, err
		}
		g.Tags[aws.StringValue(tag.Key)] = aws.StringValue(tag.Value)
	}
	return &autoscaling.CreateOrUpdateTagsOutput{}, nil
}

func (a *account) untagScalingGroups(_ *request, in *autoscaling.DeleteTagsInput) (*autoscaling.DeleteTagsOutput, error) {
	for _, tag := range in.Tags {
		g, err := a.findScalingGroup(tag.ResourceId)
		if err != nil {
			return nil, err
		}
		delete(g.Tags, aws.StringValue(tag.Key))
	}
	return &autoscaling.DeleteTagsOutput{}, nil
}

// autoScaling returns the IAM checks of a call to Auto Scaling, by the group in it. Describing actions have no resource.
func (q question) autoScaling() []access {
	form := q.request.form
	if strings.HasPrefix(q.request.action, "Describe") {
		return q.about("*", nil)
	}
	name := cmp.Or(form.Get("AutoScalingGroupName"), form.Get("Tags.member.1.ResourceId"))
	g := q.scaling[name]
	for _, one := range q.scaling {
		if id := form.Get("InstanceId"); id != "" && slices.Contains(one.instances, id) {
			g = one
		}
	}
	if g == nil {
		asked := q.about("*", nil)
		asked[0].missing = true
		return asked
	}
	gets := map[string]string{}
	if key := form.Get("Tags.member.1.Key"); key != "" {
		gets[key] = form.Get("Tags.member.1.Value")
	}
	return []access{q.ask(q.request.action, g.arn, g.Tags, gets)}
}
