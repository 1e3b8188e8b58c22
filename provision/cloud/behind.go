package cloud

import "context"

// behindQuestions is how many pages LeftBehind asks for where each list has one.
const behindQuestions = 8

// LeftBehind asks what a cluster's nodes may have left beside instances and volumes: interfaces, launch templates
// and, where profiles says so, instance profiles, these below the cluster's path only. IAM has no endpoint in a
// private network, and no profile of a cluster whose EC2NodeClasses name theirs. It is for what is only reported,
// and within the budget of selectors: an error says that it is used up.
func (c *Client) LeftBehind(ctx context.Context, cluster string, profiles bool) ([]Answer, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeNetworkInterfaces", behindQuestions); err != nil {
		return nil, err
	}
	q := Query{Cluster: cluster}
	answers := []Answer{c.answer(ctx, KindNetworkInterface, q, c.interfacesLeft), c.answer(ctx, KindLaunchTemplate, q, c.templatesLeft)}
	if profiles {
		answers = append(answers, c.answer(ctx, KindInstanceProfile, q, c.profilesBelow))
	}
	return answers, nil
}
