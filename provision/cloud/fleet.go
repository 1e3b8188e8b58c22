package cloud

import "context"

// Fleet is what EC2 has of a query, with tags, for what is only reported and ends nothing: it is
// asked within the budget of selectors, so that Karpenter is not throttled for it. Its answer is
// as whole as that of Instances.
func (c *Client) Fleet(ctx context.Context, q Query) ([]Instance, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeInstances", 1+len(q.ProviderIDs)/perQuestion); err != nil {
		return nil, err
	}
	return c.tagged(ctx, q)
}
