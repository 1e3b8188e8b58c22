package cloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// Insight is what EKS has checked about a cluster.
type Insight struct {
	ID, Name string
	// Category in EKS's terms: UPGRADE_READINESS or MISCONFIGURATION.
	Category string
	// Status in EKS's terms: PASSING, WARNING, ERROR or UNKNOWN; Reason explains it.
	Status, Reason string
	// Kubernetes is the version that it is about, such as 1.37; empty if it is about none.
	Kubernetes string
}

// Insights returns those of a cluster. It takes one request for each 100 of them.
func (c *Client) Insights(ctx context.Context, cluster string) ([]Insight, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var found []Insight
	pages := eks.NewListInsightsPaginator(c.eks, &eks.ListInsightsInput{ClusterName: aws.String(cluster), MaxResults: aws.Int32(100)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("eks:ListInsights", err)
		}
		for _, i := range page.Insights {
			one := Insight{
				ID: aws.ToString(i.Id), Name: aws.ToString(i.Name), Category: string(i.Category), Kubernetes: aws.ToString(i.KubernetesVersion),
			}
			if i.InsightStatus != nil {
				one.Status, one.Reason = string(i.InsightStatus.Status), aws.ToString(i.InsightStatus.Reason)
			}
			found = append(found, one)
		}
	}
	return found, nil
}
