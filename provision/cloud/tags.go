package cloud

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// taggedTogether is how many resources one request tags:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateTags.html
const taggedTogether = 1000

// TaggedNetwork returns the IDs of the subnets and of the security groups that have a tag with a value, in this order. It takes
// two requests if each list has one page.
func (c *Client) TaggedNetwork(ctx context.Context, key, value string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	with := []ec2types.Filter{filter("tag:"+key, value)}
	subnets, err := c.subnets(ctx, &ec2.DescribeSubnetsInput{Filters: with})
	if err != nil {
		return nil, err
	}
	groups, err := c.groups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: with})
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(subnets)+len(groups))
	for i := range subnets {
		ids = append(ids, subnets[i].ID)
	}
	slices.Sort(ids)
	for i := range groups {
		ids = append(ids, groups[i].ID)
	}
	slices.Sort(ids[len(subnets):])
	return ids, nil
}

// Tag sets tags on resources of EC2. It replaces the values of tags that exist.
func (p *Provisioner) Tag(ctx context.Context, ids []string, tags map[string]string) error {
	for some := range slices.Chunk(ids, taggedTogether) {
		err := p.request(ctx, "ec2:CreateTags", func(ctx context.Context) error {
			_, err := p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: some, Tags: ec2Tags(tags)})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Untag deletes tags from resources of EC2. A tag that has another value stays.
func (p *Provisioner) Untag(ctx context.Context, ids []string, tags map[string]string) error {
	for some := range slices.Chunk(ids, taggedTogether) {
		err := p.request(ctx, "ec2:DeleteTags", func(ctx context.Context) error {
			_, err := p.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: some, Tags: ec2Tags(tags)})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ec2Tags(tags map[string]string) []ec2types.Tag {
	var all []ec2types.Tag
	for key, value := range tags {
		all = append(all, ec2types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	return all
}
