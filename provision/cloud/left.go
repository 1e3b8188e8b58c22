package cloud

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Kind is a kind of what a cluster's nodes have in AWS.
type Kind string

// The kinds, in the order in which they end.
const (
	KindInstance         Kind = "Instance"
	KindVolume           Kind = "Volume"
	KindNetworkInterface Kind = "NetworkInterface"
	KindLaunchTemplate   Kind = "LaunchTemplate"
	KindInstanceProfile  Kind = "InstanceProfile"
)

// More tags than those by which Karpenter finds its instances.
const (
	// nameTag has the cluster's name since v1 of Karpenter; templateTag had it before, on launch
	// templates (karpenter-provider-aws pkg/apis/v1/labels.go, EKSClusterNameTagKey; v0.37
	// pkg/providers/launchtemplate/launchtemplate.go, karpenterManagedTagKey).
	nameTag, templateTag = "eks:eks-cluster-name", "karpenter.k8s.aws/cluster"
	// nodeClassTag has the EC2NodeClass.
	nodeClassTag = "karpenter.k8s.aws/ec2nodeclass"
	// cniTag has the cluster's name, on interfaces that the VPC CNI plugin has added to a node
	// (amazon-vpc-cni-k8s pkg/awsutils/awsutils.go, eniClusterTagKey).
	cniTag = "cluster.k8s.amazonaws.com/name"
)

// templateNames are the names of Karpenter's launch templates (LaunchTemplateNamePrefix).
const templateNames = "karpenter.k8s.aws/*"

// Resource is one thing that a cluster's nodes have in AWS.
type Resource struct {
	Kind Kind
	// ID as AWS writes it; the name of an instance profile.
	ID string
	// Name of a launch template, path of an instance profile.
	Name string
	// State of an instance, a volume or an interface, as EC2 writes it.
	State string
	// Zone of the same.
	Zone string
	// Instance is the one that a volume or an interface is attached to, Alive that EC2 has not
	// ended it.
	Instance string
	Alive    bool
	// OfService says that a service of AWS keeps an interface, such as a load balancer's or the
	// control plane's.
	OfService bool
	Tags      map[string]string
}

// Answer is what AWS has answered about one kind.
type Answer struct {
	Kind Kind
	// Resources are those that have not ended, in the order of their IDs.
	Resources []Resource
	// Elsewhere are the other regions that a cluster of this name has instance profiles for.
	Elsewhere []string
	// Err says that the answer is incomplete: the absence of a resource says nothing.
	Err error
}

// Left asks EC2 and IAM what there is of a cluster's nodes, a question for each kind: by
// their tags, and of instances by the Query's ProviderIDs too. It asks about all NodePools.
func (c *Client) Left(ctx context.Context, q Query) []Answer {
	var elsewhere []string
	asks := []struct {
		kind Kind
		ask  func(context.Context, Query, map[string]Resource) error
	}{
		{KindInstance, c.instancesLeft},
		{KindVolume, c.volumesLeft},
		{KindNetworkInterface, c.interfacesLeft},
		{KindLaunchTemplate, c.templatesLeft},
		{KindInstanceProfile, func(ctx context.Context, q Query, found map[string]Resource) (err error) {
			elsewhere, err = c.profilesLeft(ctx, q, found)
			return err
		}},
	}
	answers := make([]Answer, 0, len(asks))
	for _, a := range asks {
		answer := c.answer(ctx, a.kind, q, a.ask)
		if a.kind == KindInstanceProfile {
			answer.Elsewhere = elsewhere
		}
		answers = append(answers, answer)
	}
	return answers
}

// answer asks one question.
func (c *Client) answer(ctx context.Context, kind Kind, q Query, ask func(context.Context, Query, map[string]Resource) error) Answer {
	found := map[string]Resource{}
	bounded, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	answer := Answer{Kind: kind, Err: ask(bounded, q, found)}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		answer.Resources = append(answer.Resources, found[id])
	}
	return answer
}

func (c *Client) instancesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	instances, err := c.tagged(ctx, Query{Cluster: q.Cluster, AllPools: true, ProviderIDs: q.ProviderIDs})
	named := map[string]Instance{}
	if err == nil {
		err = c.list(ctx, named, filter("tag:"+nameTag, q.Cluster), filter("tag-key", nodePoolTag, nodeClassTag),
			filter("instance-state-name", living()...))
	}
	for _, i := range slices.Concat(instances, slices.Collect(maps.Values(named))) {
		if !i.Gone() {
			found[i.ID] = Resource{Kind: KindInstance, ID: i.ID, State: i.State, Zone: i.Zone, Tags: i.Tags}
		}
	}
	return err
}

func (c *Client) volumesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, one := range ofCluster(q.Cluster) {
		pages := ec2.NewDescribeVolumesPaginator(c.ec2, &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{one}, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeVolumes", err)
			}
			for i := range page.Volumes {
				v := volumeOf(&page.Volumes[i])
				found[v.ID] = v
			}
		}
	}
	return c.seeAlive(ctx, found)
}

func volumeOf(v *ec2types.Volume) Resource {
	volume := Resource{Kind: KindVolume, ID: aws.ToString(v.VolumeId), State: string(v.State), Zone: aws.ToString(v.AvailabilityZone), Tags: tagsOf(v.Tags)}
	for _, attachment := range v.Attachments {
		volume.Instance = aws.ToString(attachment.InstanceId)
	}
	return volume
}

func (c *Client) interfacesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, one := range append(ofCluster(q.Cluster), filter("tag:"+cniTag, q.Cluster)) {
		pages := ec2.NewDescribeNetworkInterfacesPaginator(c.ec2, &ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{one}, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeNetworkInterfaces", err)
			}
			for i := range page.NetworkInterfaces {
				n := interfaceOf(&page.NetworkInterfaces[i])
				found[n.ID] = n
			}
		}
	}
	return c.seeAlive(ctx, found)
}

func interfaceOf(n *ec2types.NetworkInterface) Resource {
	found := Resource{
		Kind: KindNetworkInterface, ID: aws.ToString(n.NetworkInterfaceId), State: string(n.Status), Zone: aws.ToString(n.AvailabilityZone),
		OfService: aws.ToBool(n.RequesterManaged), Tags: tagsOf(n.TagSet),
	}
	if n.Attachment != nil {
		found.Instance = aws.ToString(n.Attachment.InstanceId)
		// The control plane's interfaces are on instances of EKS' own account.
		owner := aws.ToString(n.Attachment.InstanceOwnerId)
		found.OfService = found.OfService || owner != "" && owner != aws.ToString(n.OwnerId)
	}
	return found
}

// seeAlive asks which instances the resources are attached to that EC2 has not ended.
func (c *Client) seeAlive(ctx context.Context, found map[string]Resource) error {
	var ids []string
	for _, r := range found {
		if r.Instance != "" {
			ids = append(ids, r.Instance)
		}
	}
	instances := map[string]Instance{}
	for some := range slices.Chunk(distinct(ids), filterValues) {
		if err := each(some, func(ids []string) error { return c.list(ctx, instances, filter("instance-id", ids...)) }); err != nil {
			return err
		}
	}
	for id, r := range found {
		i, shown := instances[r.Instance]
		r.Alive = shown && !i.Gone()
		found[id] = r
	}
	return nil
}

// templatesPage is the most that EC2 lists of launch templates in a page.
const templatesPage = 200

func (c *Client) templatesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, filters := range [][]ec2types.Filter{
		{filter("tag:"+nameTag, q.Cluster), filter("launch-template-name", templateNames)},
		{filter("tag:"+templateTag, q.Cluster)},
	} {
		pages := ec2.NewDescribeLaunchTemplatesPaginator(c.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(templatesPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeLaunchTemplates", err)
			}
			for i := range page.LaunchTemplates {
				t := &page.LaunchTemplates[i]
				id := aws.ToString(t.LaunchTemplateId)
				found[id] = Resource{Kind: KindLaunchTemplate, ID: id, Name: aws.ToString(t.LaunchTemplateName), Tags: tagsOf(t.Tags)}
			}
		}
	}
	return nil
}

// ofCluster are filters, each of which finds some of what Karpenter and the EBS CSI driver tag.
func ofCluster(cluster string) []ec2types.Filter {
	return []ec2types.Filter{filter("tag:"+clusterTagPrefix+cluster, clusterTagValue), filter("tag:"+nameTag, cluster)}
}

func tagsOf(list []ec2types.Tag) map[string]string {
	tags := map[string]string{}
	for _, tag := range list {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return tags
}
