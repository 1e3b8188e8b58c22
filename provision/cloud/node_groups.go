package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// NodeGroup is a managed node group of an EKS cluster.
type NodeGroup struct {
	Name, ARN string
	// Status in EKS's terms: ACTIVE, UPDATING, …
	Status string
	// AMIType in EKS's terms: AL2023_x86_64_STANDARD, BOTTLEROCKET_ARM_64, CUSTOM, …
	AMIType string
	// CapacityType in EKS's terms: ON_DEMAND, SPOT, CAPACITY_BLOCK.
	CapacityType string
	// InstanceTypes are those of the node group, or that of its launch template.
	InstanceTypes []string
	// DiskGiB is the size of its disks in GiB; 0 if its launch template decides.
	DiskGiB int32
	Labels  map[string]string
	Taints  []NodeTaint
	// RoleARN is the IAM role of its nodes.
	RoleARN string
	Subnets []string
	// Min, Max and Desired are how many nodes it has.
	Min, Max, Desired int
	// SSHKey is the key pair for remote access; empty if there is none.
	SSHKey string
	// RemoteGroup is the security group that EKS has created for remote access.
	RemoteGroup string
	Repair      bool
	// AutoScalingGroups are the names of the Auto Scaling groups that launch its nodes.
	AutoScalingGroups []string
	Tags              map[string]string
	// Template is its launch template; nil if it has none of its own.
	Template *LaunchTemplate
}

// NodeTaint is a taint with an effect in Kubernetes' terms: NoSchedule, PreferNoSchedule or NoExecute.
type NodeTaint struct{ Key, Value, Effect string }

// LaunchTemplate is a version of a launch template.
type LaunchTemplate struct {
	ID, Version string
	// ImageID, InstanceType, KeyName and InstanceProfile are empty if it has none.
	ImageID, InstanceType, KeyName, InstanceProfile string
	// UserData is decoded.
	UserData       string
	SecurityGroups []string
	Disks          []Disk
	Metadata       *Metadata
	Monitoring     bool
	PublicAddress  *bool
	// InstanceTags are those that it sets on instances.
	InstanceTags map[string]string
	// ReservationID is the capacity reservation that it targets.
	ReservationID string
	// Other are the fields that it has besides these, in EC2's terms.
	Other []string
}

// Disk is an EBS volume of a launch template. What is not set is 0 or empty.
type Disk struct {
	Device, Type, KMSKey, Snapshot string
	GiB, IOPS, Throughput          int32
	Encrypted, Delete              *bool
}

// Metadata are the settings of the instance metadata service; what is not set is empty or 0.
type Metadata struct {
	Endpoint, IPv6, Tokens string
	HopLimit               int32
}

// NodeGroups returns the managed node groups of a cluster, sorted by name, with their launch templates. It takes one request, one
// for each node group, and one for each launch template.
func (c *Client) NodeGroups(ctx context.Context, cluster string) ([]NodeGroup, error) {
	return c.nodeGroups(ctx, cluster, true)
}

// NodeGroupSizes is like NodeGroups, without what only launch templates have.
func (c *Client) NodeGroupSizes(ctx context.Context, cluster string) ([]NodeGroup, error) {
	return c.nodeGroups(ctx, cluster, false)
}

func (c *Client) nodeGroups(ctx context.Context, cluster string, templates bool) ([]NodeGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var groups []NodeGroup
	pages := eks.NewListNodegroupsPaginator(c.eks, &eks.ListNodegroupsInput{ClusterName: aws.String(cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("eks:ListNodegroups", err)
		}
		for _, name := range page.Nodegroups {
			out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: aws.String(name)})
			var missing *ekstypes.ResourceNotFoundException
			switch {
			case errors.As(err, &missing):
				continue // it was just deleted
			case err != nil:
				return nil, c.named("eks:DescribeNodegroup", err)
			case out.Nodegroup == nil:
				return nil, fmt.Errorf("describe node group %s: the answer has none", name)
			}
			group := nodeGroupOf(out.Nodegroup)
			if templates {
				if err := c.addTemplate(ctx, &group, out.Nodegroup.LaunchTemplate); err != nil {
					return nil, err
				}
			}
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

// addTemplate adds what the launch template of a node group has.
func (c *Client) addTemplate(ctx context.Context, group *NodeGroup, of *ekstypes.LaunchTemplateSpecification) (err error) {
	if group.Template, err = c.templateOf(ctx, of); err != nil {
		return err
	}
	if t := group.Template; t != nil && len(group.InstanceTypes) == 0 && t.InstanceType != "" {
		group.InstanceTypes = []string{t.InstanceType}
	}
	return nil
}

// effects are EKS's names of the effects of taints.
var effects = map[ekstypes.TaintEffect]string{
	ekstypes.TaintEffectNoSchedule: "NoSchedule", ekstypes.TaintEffectPreferNoSchedule: "PreferNoSchedule", ekstypes.TaintEffectNoExecute: "NoExecute",
}

func nodeGroupOf(g *ekstypes.Nodegroup) NodeGroup {
	group := NodeGroup{
		Name: aws.ToString(g.NodegroupName), AMIType: string(g.AmiType), CapacityType: string(g.CapacityType),
		InstanceTypes: slices.Clone(g.InstanceTypes), DiskGiB: aws.ToInt32(g.DiskSize), Labels: g.Labels, RoleARN: aws.ToString(g.NodeRole),
		Subnets: slices.Clone(g.Subnets), ARN: aws.ToString(g.NodegroupArn), Status: string(g.Status), Tags: g.Tags,
	}
	for _, t := range g.Taints {
		group.Taints = append(group.Taints, NodeTaint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: effects[t.Effect]})
	}
	if s := g.ScalingConfig; s != nil {
		group.Min, group.Max, group.Desired = int(aws.ToInt32(s.MinSize)), int(aws.ToInt32(s.MaxSize)), int(aws.ToInt32(s.DesiredSize))
	}
	if g.RemoteAccess != nil {
		group.SSHKey = aws.ToString(g.RemoteAccess.Ec2SshKey)
	}
	if g.Resources != nil {
		group.RemoteGroup = aws.ToString(g.Resources.RemoteAccessSecurityGroup)
		for _, one := range g.Resources.AutoScalingGroups {
			group.AutoScalingGroups = append(group.AutoScalingGroups, aws.ToString(one.Name))
		}
	}
	group.Repair = g.NodeRepairConfig != nil && aws.ToBool(g.NodeRepairConfig.Enabled)
	return group
}

// templateOf reads the version of a launch template that a node group uses.
func (c *Client) templateOf(ctx context.Context, of *ekstypes.LaunchTemplateSpecification) (*LaunchTemplate, error) {
	if of == nil {
		return nil, nil
	}
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Default"}}
	if id := aws.ToString(of.Id); id != "" {
		in.LaunchTemplateId = aws.String(id)
	} else {
		in.LaunchTemplateName = of.Name
	}
	if version := aws.ToString(of.Version); version != "" {
		in.Versions = []string{version}
	}
	out, err := c.ec2.DescribeLaunchTemplateVersions(ctx, in)
	if err != nil {
		return nil, c.named("ec2:DescribeLaunchTemplateVersions", err)
	}
	if len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return nil, fmt.Errorf("describe launch template %s%s: the answer has no version", aws.ToString(of.Id), aws.ToString(of.Name))
	}
	found := out.LaunchTemplateVersions[0]
	t, err := templateData(found.LaunchTemplateData)
	if err != nil {
		return nil, fmt.Errorf("read launch template %s: %w", aws.ToString(found.LaunchTemplateId), err)
	}
	t.ID, t.Version = aws.ToString(found.LaunchTemplateId), fmt.Sprint(aws.ToInt64(found.VersionNumber))
	return t, nil
}

// handled are the fields of a launch template that LaunchTemplate has.
var handled = []string{
	"BlockDeviceMappings", "CapacityReservationSpecification", "IamInstanceProfile", "ImageId", "InstanceType", "KeyName",
	"MetadataOptions", "Monitoring", "NetworkInterfaces", "SecurityGroupIds", "TagSpecifications", "UserData",
}

func templateData(d *ec2types.ResponseLaunchTemplateData) (*LaunchTemplate, error) {
	text, err := base64.StdEncoding.DecodeString(aws.ToString(d.UserData))
	if err != nil {
		return nil, fmt.Errorf("its user data is no base64: %w", err)
	}
	t := &LaunchTemplate{
		ImageID: aws.ToString(d.ImageId), InstanceType: string(d.InstanceType), KeyName: aws.ToString(d.KeyName), UserData: string(text),
		SecurityGroups: slices.Clone(d.SecurityGroupIds), Other: otherFields(d),
	}
	if d.IamInstanceProfile != nil {
		t.InstanceProfile = aws.ToString(d.IamInstanceProfile.Name) + aws.ToString(d.IamInstanceProfile.Arn)
	}
	if d.Monitoring != nil {
		t.Monitoring = aws.ToBool(d.Monitoring.Enabled)
	}
	if r := d.CapacityReservationSpecification; r != nil && r.CapacityReservationTarget != nil {
		t.ReservationID = aws.ToString(r.CapacityReservationTarget.CapacityReservationId)
	}
	if m := d.MetadataOptions; m != nil {
		t.Metadata = &Metadata{
			Endpoint: string(m.HttpEndpoint), IPv6: string(m.HttpProtocolIpv6), Tokens: string(m.HttpTokens), HopLimit: aws.ToInt32(m.HttpPutResponseHopLimit),
		}
	}
	for _, tags := range d.TagSpecifications {
		if tags.ResourceType == ec2types.ResourceTypeInstance {
			t.InstanceTags = tagsOf(tags.Tags)
		}
	}
	for _, b := range d.BlockDeviceMappings {
		if e := b.Ebs; e != nil {
			t.Disks = append(t.Disks, Disk{
				Device: aws.ToString(b.DeviceName), Type: string(e.VolumeType), KMSKey: aws.ToString(e.KmsKeyId), Snapshot: aws.ToString(e.SnapshotId),
				GiB: aws.ToInt32(e.VolumeSize), IOPS: aws.ToInt32(e.Iops), Throughput: aws.ToInt32(e.Throughput),
				Encrypted: e.Encrypted, Delete: e.DeleteOnTermination,
			})
		}
	}
	for i, n := range d.NetworkInterfaces {
		if i > 0 {
			t.Other = append(t.Other, "NetworkInterfaces[1:]")
			break
		}
		t.SecurityGroups, t.PublicAddress = append(t.SecurityGroups, n.Groups...), n.AssociatePublicIpAddress
	}
	return t, nil
}

// otherFields returns the fields that are set besides those of LaunchTemplate, in EC2's terms.
func otherFields(d *ec2types.ResponseLaunchTemplateData) (names []string) {
	value := reflect.ValueOf(d).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if field.IsExported() && !value.Field(i).IsZero() && !slices.Contains(handled, field.Name) {
			names = append(names, field.Name)
		}
	}
	return names
}

// Size is what an instance type has.
type Size struct {
	CPU int64
	MiB int64
	// Archs are amd64 or arm64.
	Archs []string
	GPUs  bool
}

// Sizes returns what instance types have, by name. One that the region does not have is missing in the result.
func (c *Client) Sizes(ctx context.Context, types []string) (map[string]Size, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Size{}
	for some := range slices.Chunk(distinct(slices.Clone(types)), filterValues) {
		pages := ec2.NewDescribeInstanceTypesPaginator(c.ec2, &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{filter("instance-type", some...)}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, c.named("ec2:DescribeInstanceTypes", err)
			}
			for i := range page.InstanceTypes {
				if size, ok := sizeOf(&page.InstanceTypes[i]); ok {
					found[string(page.InstanceTypes[i].InstanceType)] = size
				}
			}
		}
	}
	return found, nil
}

func sizeOf(t *ec2types.InstanceTypeInfo) (size Size, ok bool) {
	if t.VCpuInfo == nil || t.MemoryInfo == nil || t.ProcessorInfo == nil {
		return Size{}, false
	}
	size = Size{CPU: int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus)), MiB: aws.ToInt64(t.MemoryInfo.SizeInMiB), GPUs: t.GpuInfo != nil}
	for _, arch := range t.ProcessorInfo.SupportedArchitectures {
		switch arch {
		case ec2types.ArchitectureTypeX8664:
			size.Archs = append(size.Archs, "amd64")
		case ec2types.ArchitectureTypeArm64:
			size.Archs = append(size.Archs, "arm64")
		default:
		}
	}
	return size, true
}
