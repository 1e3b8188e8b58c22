package cloud

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// PodIdentityAgent is the add-on that gives pods the credentials of their Pod Identity association.
const PodIdentityAgent = "eks-pod-identity-agent"

// Addon is an add-on of an EKS cluster.
type Addon struct {
	Name, Version, ARN string
	// Status in EKS's terms: ACTIVE, DEGRADED, CREATE_FAILED, …
	Status string
	// Issues are what EKS reports about its health.
	Issues []string
	// Configuration are its configuration values in force, as JSON or YAML; empty if there are none.
	Configuration string
	Tags          map[string]string
}

// Addons returns the add-ons of a cluster, sorted by name. It takes one request, and one for each add-on.
func (c *Client) Addons(ctx context.Context, cluster string) ([]Addon, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var addons []Addon
	pages := eks.NewListAddonsPaginator(c.eks, &eks.ListAddonsInput{ClusterName: aws.String(cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("eks:ListAddons", err)
		}
		for _, name := range page.Addons {
			out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String(cluster), AddonName: aws.String(name)})
			var missing *ekstypes.ResourceNotFoundException
			switch {
			case errors.As(err, &missing):
				continue // it was just deleted
			case err != nil:
				return nil, c.named("eks:DescribeAddon", err)
			case out.Addon != nil:
				addons = append(addons, addonOf(out.Addon))
			}
		}
	}
	return addons, nil
}

func addonOf(a *ekstypes.Addon) Addon {
	addon := Addon{
		Name: aws.ToString(a.AddonName), Version: aws.ToString(a.AddonVersion), Status: string(a.Status),
		ARN: aws.ToString(a.AddonArn), Configuration: aws.ToString(a.ConfigurationValues), Tags: a.Tags,
	}
	if a.Health != nil {
		for _, issue := range a.Health.Issues {
			addon.Issues = append(addon.Issues, string(issue.Code)+": "+aws.ToString(issue.Message))
		}
	}
	return addon
}

// AddonSchema returns the JSON schema of the configuration values of an add-on in a version; empty if it has none.
func (c *Client) AddonSchema(ctx context.Context, name, version string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.eks.DescribeAddonConfiguration(ctx, &eks.DescribeAddonConfigurationInput{
		AddonName: aws.String(name), AddonVersion: aws.String(version),
	})
	if err != nil {
		return "", c.named("eks:DescribeAddonConfiguration", err)
	}
	return aws.ToString(out.ConfigurationSchema), nil
}
