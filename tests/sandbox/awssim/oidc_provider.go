package awssim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"
)

// oidcProvider is an identity provider of IAM, by which roles can trust the tokens of a cluster.
type oidcProvider struct {
	url         string // without https://
	clients     []string
	thumbprints []string
	tags        map[string]string
	created     time.Time
}

func (a *account) oidcActions() map[string]action {
	return map[string]action{
		"CreateOpenIDConnectProvider": query(a, a.createOpenIDConnectProvider),
		"GetOpenIDConnectProvider":    query(a, a.getOpenIDConnectProvider),
		"ListOpenIDConnectProviders":  query(a, a.listOpenIDConnectProviders),
		"DeleteOpenIDConnectProvider": query(a, a.deleteOpenIDConnectProvider),
	}
}

// providerARN returns the ARN of the provider of an issuer.
func (a *account) providerARN(issuer string) string {
	return a.iamARN("oidc-provider/" + strings.TrimPrefix(issuer, "https://"))
}

func (a *account) createOpenIDConnectProvider(_ *request,
	in *iam.CreateOpenIDConnectProviderInput,
) (*iam.CreateOpenIDConnectProviderOutput, error) {
	url := aws.StringValue(in.Url)
	arn := a.providerARN(url)
	if _, ok := a.providers[arn]; ok {
		return nil, entityExists("Provider with url %s already exists.", url)
	}
	a.providers[arn] = &oidcProvider{
		url: strings.TrimPrefix(url, "https://"), clients: aws.StringValueSlice(in.ClientIDList),
		thumbprints: aws.StringValueSlice(in.ThumbprintList),
		tags:        iamTagMap(in.Tags), created: a.now,
	}
	return &iam.CreateOpenIDConnectProviderOutput{OpenIDConnectProviderArn: aws.String(arn), Tags: in.Tags}, nil
}

func (a *account) findProvider(arn *string) (*oidcProvider, error) {
	if p, ok := a.providers[aws.StringValue(arn)]; ok {
		return p, nil
	}
	return nil, noSuchEntity("OpenIDConnect Provider not found for arn %s", aws.StringValue(arn))
}

func (a *account) getOpenIDConnectProvider(_ *request, in *iam.GetOpenIDConnectProviderInput) (*iam.GetOpenIDConnectProviderOutput, error) {
	p, err := a.findProvider(in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	return &iam.GetOpenIDConnectProviderOutput{
		Url: aws.String(p.url), ClientIDList: aws.StringSlice(p.clients), ThumbprintList: aws.StringSlice(p.thumbprints),
		CreateDate: aws.Time(p.created), Tags: iamTags(p.tags),
	}, nil
}

func (a *account) listOpenIDConnectProviders(*request, *iam.ListOpenIDConnectProvidersInput) (*iam.ListOpenIDConnectProvidersOutput,
	error,
) {
	out := &iam.ListOpenIDConnectProvidersOutput{OpenIDConnectProviderList: []*iam.OpenIDConnectProviderListEntry{}}
	for _, arn := range slices.Sorted(maps.Keys(a.providers)) {
		out.OpenIDConnectProviderList = append(out.OpenIDConnectProviderList, &iam.OpenIDConnectProviderListEntry{Arn: aws.String(arn)})
	}
	return out, nil
}

func (a *account) deleteOpenIDConnectProvider(_ *request,
	in *iam.DeleteOpenIDConnectProviderInput,
) (*iam.DeleteOpenIDConnectProviderOutput, error) {
	if _, err := a.findProvider(in.OpenIDConnectProviderArn); err != nil {
		return nil, err
	}
	delete(a.providers, *in.OpenIDConnectProviderArn)
	return &iam.DeleteOpenIDConnectProviderOutput{}, nil
}
