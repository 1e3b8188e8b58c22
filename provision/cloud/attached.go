package cloud

import (
	"context"
	"maps"
	"slices"
)

// AttachedVolumes are a cluster's EBS volumes that are attached, by the tags of Karpenter and of the
// EBS CSI driver, in the order of their IDs; of each whether EC2 has ended its instance. It is for
// what is only reported, and within the budget of selectors.
func (c *Client) AttachedVolumes(ctx context.Context, cluster string) ([]Resource, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeVolumes", 2*len(ofCluster(cluster))); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Resource{}
	if err := c.volumesLeft(ctx, Query{Cluster: cluster}, found); err != nil {
		return nil, err
	}
	var attached []Resource
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if found[id].Instance != "" {
			attached = append(attached, found[id])
		}
	}
	return attached, nil
}
