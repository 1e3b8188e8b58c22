package cloud

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The tags by which Karpenter knows its instances
// (karpenter-provider-aws pkg/utils/utils.go, GetTags).
const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	clusterTagValue  = "owned"
	nodePoolTag      = "karpenter.sh/nodepool"
)

// filterValues is how many values one filter may have (EC2 API reference,
// "Filter").
const filterValues = 200

// Query says which instances are asked for: those of a cluster's NodePools by
// tag, and those of the provider IDs. An instance that is both comes once.
type Query struct {
	// Cluster is the name by which Karpenter tags instances.
	Cluster string
	// Pools are NodePools of that cluster.
	Pools []string
	// ProviderIDs are instances asked for by name, whatever their tags say.
	ProviderIDs []string
}

// Instance is one instance as EC2 has it. A terminated one is listed for about
// an hour and is absent from then on.
type Instance struct {
	ID   string
	Zone string
	// State as EC2 writes it: pending, running, shutting-down, terminated,
	// stopping, stopped.
	State string
	// Pool is the NodePool in its tags.
	Pool string
}

// Gone says that EC2 has ended the instance.
func (i Instance) Gone() bool { return i.State == string(ec2types.InstanceStateNameTerminated) }

// ProviderID returns the instance as a NodeClaim writes it.
func (i Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

// Instances returns what EC2 has of a query, in the order of their IDs. One
// DescribeInstances answers it unless an instance has lost its tags or there
// are very many. Instances are asked for by filter, never by parameter: an ID
// that EC2 does not know is then absent from the answer and not an error that
// hides the others.
func (c *Client) Instances(ctx context.Context, q Query) ([]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Instance{}
	for pools := range slices.Chunk(distinct(q.Pools), filterValues) {
		err := c.describe(ctx, found,
			filter("tag:"+clusterTagPrefix+q.Cluster, clusterTagValue),
			filter("tag:"+nodePoolTag, pools...))
		if err != nil {
			return nil, err
		}
	}
	var missing []string
	for _, providerID := range q.ProviderIDs {
		_, id, err := ParseProviderID(providerID)
		if err != nil {
			return nil, err
		}
		if _, known := found[id]; !known {
			missing = append(missing, id)
		}
	}
	for ids := range slices.Chunk(distinct(missing), filterValues) {
		if err := c.describe(ctx, found, filter("instance-id", ids...)); err != nil {
			return nil, err
		}
	}
	instances := make([]Instance, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		instances = append(instances, found[id])
	}
	return instances, nil
}

func (c *Client) describe(ctx context.Context, into map[string]Instance, filters ...ec2types.Filter) error {
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{
		Filters:    filters,
		MaxResults: aws.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return c.named("ec2:DescribeInstances", err)
		}
		for _, reservation := range page.Reservations {
			for i := range reservation.Instances {
				instance := instanceOf(&reservation.Instances[i])
				into[instance.ID] = instance
			}
		}
	}
	return nil
}

func instanceOf(i *ec2types.Instance) Instance {
	instance := Instance{ID: aws.ToString(i.InstanceId)}
	if i.State != nil {
		instance.State = string(i.State.Name)
	}
	if i.Placement != nil {
		instance.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	for _, tag := range i.Tags {
		if aws.ToString(tag.Key) == nodePoolTag {
			instance.Pool = aws.ToString(tag.Value)
		}
	}
	return instance
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

func distinct(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}
