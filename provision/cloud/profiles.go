package cloud

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// profilesPage is the most that IAM lists in a page.
const profilesPage = 1000

// profilesLeft lists the instance profiles of the account, of which the cluster's are those below
// /karpenter/<region>/<cluster>/ (karpenter-provider-aws pkg/providers/instanceprofile,
// FormatPath) and, of older releases, those called <cluster>_<number> whose tags say so
// (LegacyInstanceProfileName): IAM knows no regions, and a cluster of this name in another
// region has such a profile too: these regions are elsewhere. A list has no tags.
func (c *Client) profilesLeft(ctx context.Context, q Query, found map[string]Resource) (elsewhere []string, err error) {
	path := c.profilePath(q.Cluster)
	legacy := regexp.MustCompile("^" + regexp.QuoteMeta(q.Cluster) + `_\d+$`)
	pages := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{MaxItems: aws.Int32(profilesPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("iam:ListInstanceProfiles", err)
		}
		for i := range page.InstanceProfiles {
			p := &page.InstanceProfiles[i]
			name := aws.ToString(p.InstanceProfileName)
			profile := Resource{Kind: KindInstanceProfile, ID: name, Name: aws.ToString(p.Path)}
			if strings.HasPrefix(profile.Name, path) {
				found[name] = profile
				continue
			}
			if region := regionOf(profile.Name, q.Cluster); region != "" {
				elsewhere = append(elsewhere, region)
			}
			if strings.HasPrefix(profile.Name, "/karpenter/") || !legacy.MatchString(name) {
				continue
			}
			whole, err := c.profile(ctx, name)
			if err != nil {
				return nil, err
			}
			profile.Tags = profileTags(whole)
			if ofRegion(profile.Tags, q.Cluster, c.region) {
				found[name] = profile
			}
		}
	}
	return distinct(elsewhere), nil
}

// profilePath is where Karpenter has the instance profiles of a cluster; below it are folders by the UID of their EC2NodeClass.
func (c *Client) profilePath(cluster string) string {
	return "/karpenter/" + c.region + "/" + cluster + "/"
}

// profilesBelow are those of the cluster by their path, without those of older releases.
func (c *Client) profilesBelow(ctx context.Context, q Query, found map[string]Resource) error {
	pages := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(c.profilePath(q.Cluster)), MaxItems: aws.Int32(profilesPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return c.named("iam:ListInstanceProfiles", err)
		}
		for i := range page.InstanceProfiles {
			name := aws.ToString(page.InstanceProfiles[i].InstanceProfileName)
			found[name] = Resource{Kind: KindInstanceProfile, ID: name, Name: aws.ToString(page.InstanceProfiles[i].Path)}
		}
	}
	return nil
}

// regionOf is the region in the path of a cluster's instance profile; empty where it is not this cluster's.
func regionOf(path, cluster string) string {
	parts := strings.Split(path, "/")
	if len(parts) < 5 || parts[1] != "karpenter" || parts[3] != cluster {
		return ""
	}
	return parts[2]
}

// profile is an instance profile with its tags and roles; nil where it is gone meanwhile.
func (c *Client) profile(ctx context.Context, name string) (*iamtypes.InstanceProfile, error) {
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	var missing *iamtypes.NoSuchEntityException
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, c.named("iam:GetInstanceProfile", err)
	}
	return out.InstanceProfile, nil
}

// profileTags are those of an instance profile; none of one that is gone.
func profileTags(profile *iamtypes.InstanceProfile) map[string]string {
	tags := map[string]string{}
	if profile != nil {
		for _, tag := range profile.Tags {
			tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
	}
	return tags
}

// regionTag has the region, on instance profiles.
const regionTag = "topology.kubernetes.io/region"

// ofRegion says whether Karpenter of a cluster in a region has given these tags
// (EC2NodeClass.InstanceProfileTags).
func ofRegion(tags map[string]string, cluster, region string) bool {
	at, has := tags[regionTag]
	return tags[clusterTagPrefix+cluster] == clusterTagValue && (!has || at == region)
}
