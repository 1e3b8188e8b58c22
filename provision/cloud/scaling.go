package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
)

// AutoScalingGroup is an Auto Scaling group of EC2: a self-managed group of nodes, or that of a managed node group.
type AutoScalingGroup struct {
	Name              string
	Min, Max, Desired int
	Tags              map[string]string
	Instances         []GroupInstance
}

// GroupInstance is an instance of an Auto Scaling group. State is in Auto Scaling's terms: InService, Terminating, …
type GroupInstance struct{ ID, Zone, State string }

// groupNames is how many groups one request names: "By default, 50 … you can specify up to 100".
const groupNames = 50

// AutoScalingGroups returns the Auto Scaling groups that have a tag with one of these keys, and those of these names,
// sorted by name. A name that does not exist is missing in the result.
func (c *Client) AutoScalingGroups(ctx context.Context, tagKeys, names []string) ([]AutoScalingGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]AutoScalingGroup{}
	var queries []*autoscaling.DescribeAutoScalingGroupsInput
	if len(tagKeys) > 0 {
		queries = append(queries, &autoscaling.DescribeAutoScalingGroupsInput{
			Filters: []astypes.Filter{{Name: aws.String("tag-key"), Values: distinct(slices.Clone(tagKeys))}},
		})
	}
	for some := range slices.Chunk(distinct(slices.Clone(names)), groupNames) {
		queries = append(queries, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: some})
	}
	for _, query := range queries {
		pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(c.scaling, query)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, c.named("autoscaling:DescribeAutoScalingGroups", err)
			}
			for i := range page.AutoScalingGroups {
				group := groupOf(&page.AutoScalingGroups[i])
				found[group.Name] = group
			}
		}
	}
	groups := make([]AutoScalingGroup, 0, len(found))
	for _, group := range found {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b AutoScalingGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

func groupOf(g *astypes.AutoScalingGroup) AutoScalingGroup {
	group := AutoScalingGroup{
		Name: aws.ToString(g.AutoScalingGroupName), Tags: map[string]string{},
		Min: int(aws.ToInt32(g.MinSize)), Max: int(aws.ToInt32(g.MaxSize)), Desired: int(aws.ToInt32(g.DesiredCapacity)),
	}
	for _, tag := range g.Tags {
		group.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	for _, i := range g.Instances {
		group.Instances = append(group.Instances, GroupInstance{
			ID: aws.ToString(i.InstanceId), Zone: aws.ToString(i.AvailabilityZone), State: string(i.LifecycleState),
		})
	}
	return group
}

// FargateProfile is a profile of a cluster: the pods that it selects run on Fargate, without nodes of the account.
type FargateProfile struct {
	Name      string
	Selectors []FargateSelector
}

// FargateSelector selects the pods of a namespace that have all of the labels.
type FargateSelector struct {
	Namespace string
	Labels    map[string]string
}

// FargateProfiles returns the Fargate profiles of a cluster, sorted by name. It takes one request, and one for each profile.
func (c *Client) FargateProfiles(ctx context.Context, cluster string) ([]FargateProfile, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var profiles []FargateProfile
	pages := eks.NewListFargateProfilesPaginator(c.eks, &eks.ListFargateProfilesInput{ClusterName: aws.String(cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("eks:ListFargateProfiles", err)
		}
		for _, name := range page.FargateProfileNames {
			out, err := c.eks.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{
				ClusterName: aws.String(cluster), FargateProfileName: aws.String(name),
			})
			var missing *ekstypes.ResourceNotFoundException
			switch {
			case errors.As(err, &missing):
				continue // it was just deleted
			case err != nil:
				return nil, c.named("eks:DescribeFargateProfile", err)
			case out.FargateProfile == nil:
				return nil, fmt.Errorf("describe Fargate profile %s: the answer has none", name)
			}
			profile := FargateProfile{Name: name}
			for _, s := range out.FargateProfile.Selectors {
				profile.Selectors = append(profile.Selectors, FargateSelector{Namespace: aws.ToString(s.Namespace), Labels: s.Labels})
			}
			profiles = append(profiles, profile)
		}
	}
	slices.SortFunc(profiles, func(a, b FargateProfile) int { return strings.Compare(a.Name, b.Name) })
	return profiles, nil
}

// Sizes of a group of nodes.
type Sizes struct{ Min, Max, Desired int }

// EKSUpdate is an update of a node group or an add-on that EKS performs in the background.
type EKSUpdate struct {
	// Status in EKS's terms: InProgress, Successful, Failed, Cancelled. Errors are the reasons of a failure.
	Status string
	Errors []string
}

// Update returns an update of a node group or of an add-on, whichever name is not empty, by its ID.
func (c *Client) Update(ctx context.Context, cluster, nodeGroup, addon, id string) (EKSUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	in := &eks.DescribeUpdateInput{Name: aws.String(cluster), UpdateId: aws.String(id)}
	if nodeGroup != "" {
		in.NodegroupName = aws.String(nodeGroup)
	}
	if addon != "" {
		in.AddonName = aws.String(addon)
	}
	out, err := c.eks.DescribeUpdate(ctx, in)
	switch {
	case err != nil:
		return EKSUpdate{}, c.named("eks:DescribeUpdate", err)
	case out.Update == nil:
		return EKSUpdate{}, fmt.Errorf("describe update %s of cluster %s: the answer has none", id, cluster)
	}
	update := EKSUpdate{Status: string(out.Update.Status)}
	for _, e := range out.Update.Errors {
		update.Errors = append(update.Errors, string(e.ErrorCode)+": "+aws.ToString(e.ErrorMessage))
	}
	return update, nil
}

func updateID(update *ekstypes.Update) string {
	if update == nil {
		return ""
	}
	return aws.ToString(update.Id)
}

// SetNodeGroupSizes changes the sizes of a managed node group, and returns the ID of the update.
func (p *Provisioner) SetNodeGroupSizes(ctx context.Context, cluster, name string, s Sizes) (id string, err error) {
	err = p.request(ctx, "eks:UpdateNodegroupConfig", func(ctx context.Context) error {
		out, err := p.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
			ClusterName: aws.String(cluster), NodegroupName: aws.String(name),
			ScalingConfig: &ekstypes.NodegroupScalingConfig{
				MinSize: aws.Int32(int32(s.Min)), MaxSize: aws.Int32(int32(s.Max)), DesiredSize: aws.Int32(int32(s.Desired)),
			},
		})
		if err == nil {
			id = updateID(out.Update)
		}
		return err
	})
	return id, err
}

// UpdateAddon replaces the configuration values of an add-on, and returns the ID of the update. What others have changed in
// its objects, and the values do not set, stays.
func (p *Provisioner) UpdateAddon(ctx context.Context, cluster, name, values string) (id string, err error) {
	err = p.request(ctx, "eks:UpdateAddon", func(ctx context.Context) error {
		out, err := p.eks.UpdateAddon(ctx, &eks.UpdateAddonInput{
			ClusterName: aws.String(cluster), AddonName: aws.String(name), ConfigurationValues: aws.String(values),
			ResolveConflicts: ekstypes.ResolveConflictsPreserve,
		})
		if err == nil {
			id = updateID(out.Update)
		}
		return err
	})
	return id, err
}

// TagEKS sets a tag of a resource of EKS. An empty value removes it.
func (p *Provisioner) TagEKS(ctx context.Context, arn, key, value string) error {
	if value == "" {
		return p.request(ctx, "eks:UntagResource", func(ctx context.Context) error {
			_, err := p.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: aws.String(arn), TagKeys: []string{key}})
			return err
		})
	}
	return p.request(ctx, "eks:TagResource", func(ctx context.Context) error {
		_, err := p.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: aws.String(arn), Tags: map[string]string{key: value}})
		return err
	})
}

// SetGroupSizes changes the sizes of an Auto Scaling group.
func (p *Provisioner) SetGroupSizes(ctx context.Context, name string, s Sizes) error {
	return p.request(ctx, "autoscaling:UpdateAutoScalingGroup", func(ctx context.Context) error {
		_, err := p.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String(name),
			MinSize:              aws.Int32(int32(s.Min)), MaxSize: aws.Int32(int32(s.Max)), DesiredCapacity: aws.Int32(int32(s.Desired)),
		})
		return err
	})
}

// TagGroup sets a tag of an Auto Scaling group, which its instances do not get. An empty value removes it.
func (p *Provisioner) TagGroup(ctx context.Context, name, key, value string) error {
	tag := astypes.Tag{
		ResourceId: aws.String(name), ResourceType: aws.String("auto-scaling-group"), Key: aws.String(key), PropagateAtLaunch: aws.Bool(false),
	}
	if value == "" {
		return p.request(ctx, "autoscaling:DeleteTags", func(ctx context.Context) error {
			_, err := p.scaling.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: []astypes.Tag{tag}})
			return err
		})
	}
	tag.Value = aws.String(value)
	return p.request(ctx, "autoscaling:CreateOrUpdateTags", func(ctx context.Context) error {
		_, err := p.scaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{tag}})
		return err
	})
}

// TerminateInGroup terminates an instance of an Auto Scaling group, and lowers the group's desired size by one in the same
// request, so that the group does not replace it. An instance that is terminating, or is no longer in a group, is no error:
// its group was lowered by the request that terminated it.
func (p *Provisioner) TerminateInGroup(ctx context.Context, instance string) error {
	err := p.request(ctx, "autoscaling:TerminateInstanceInAutoScalingGroup", func(ctx context.Context) error {
		_, err := p.scaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: aws.String(instance), ShouldDecrementDesiredCapacity: aws.Bool(true),
		})
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorCode() == "ValidationError" && strings.Contains(api.ErrorMessage(), "Instance Id not found") {
			return nil
		}
		return err
	})
	return err
}
