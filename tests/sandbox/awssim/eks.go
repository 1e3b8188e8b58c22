package awssim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) eksService() service {
	return service{
		name: "eks", protocol: wire.REST,
		denied: "AccessDeniedException", throttled: "ThrottlingException", unknown: "UnknownOperationException",
		routes: slices.Concat(podIdentityRoutes, addonRoutes, insightRoutes, nodeGroupRoutes, fargateRoutes, []route{
			{http.MethodGet, "/clusters/{cluster}/updates/{update}", "DescribeUpdate"},
			{http.MethodGet, "/clusters", "ListClusters"},
			{http.MethodGet, "/clusters/{cluster}", "DescribeCluster"},
			{http.MethodGet, "/clusters/{cluster}/access-entries", "ListAccessEntries"},
			{http.MethodGet, "/clusters/{cluster}/access-entries/{principal}", "DescribeAccessEntry"},
			{http.MethodPost, "/clusters/{cluster}/access-entries", "CreateAccessEntry"},
			{http.MethodDelete, "/clusters/{cluster}/access-entries/{principal}", "DeleteAccessEntry"},
			{http.MethodPost, "/clusters/{cluster}/access-entries/{principal}", "UpdateAccessEntry"},
			{http.MethodGet, "/clusters/{cluster}/access-entries/{principal}/access-policies", "ListAssociatedAccessPolicies"},
			{http.MethodPost, "/tags/{arn}", "TagResource"},
			{http.MethodDelete, "/tags/{arn}", "UntagResource"},
			{http.MethodGet, "/tags/{arn}", "ListTagsForResource"},
		}),
		actions: merged(a.podIdentityActions(), a.addonActions(), a.nodeGroupActions(), a.fargateActions(), map[string]action{
			"DescribeUpdate":      document(a.describeUpdate),
			"ListClusters":        document(a.listClusters),
			"ListInsights":        document(a.listInsights),
			"DescribeCluster":     document(a.describeCluster),
			"ListAccessEntries":   document(a.listAccessEntries),
			"DescribeAccessEntry": document(a.describeAccessEntry),
			"CreateAccessEntry":   document(a.createAccessEntry),
			"DeleteAccessEntry":   document(a.deleteAccessEntry),
			"UpdateAccessEntry":   document(a.updateAccessEntry),

			"ListAssociatedAccessPolicies": document(a.listAssociatedAccessPolicies),

			"TagResource":         document(a.tagEKS),
			"UntagResource":       document(a.untagEKS),
			"ListTagsForResource": document(a.listEKSTags),
		}),
	}
}

func eksNotFound(format string, args ...any) error {
	return wire.Errorf("ResourceNotFoundException", format, args...).WithStatus(http.StatusNotFound)
}

// object is a JSON object: EKS's responses are written as literals.
type object = map[string]any

func (a *account) findCluster(name string) (*cluster, error) {
	if c, ok := a.clusters[name]; ok && !c.gone {
		return c, nil
	}
	return nil, eksNotFound("No cluster found for name: %s.", name)
}

func (a *account) listClusters(*request, *struct{}) (*object, error) {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(a.clusters)) {
		if !a.clusters[name].gone {
			names = append(names, name)
		}
	}
	return &object{"clusters": names}, nil
}

func (a *account) describeCluster(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	described := object{
		"name":                 c.Name,
		"arn":                  c.arn,
		"createdAt":            c.created.Unix(),
		"version":              c.Version,
		"platformVersion":      "eks.1",
		"status":               c.status,
		"endpoint":             c.Endpoint,
		"roleArn":              c.roleARN,
		"certificateAuthority": object{"data": c.CertificateAuthority},
		"identity":             object{"oidc": object{"issuer": c.issuer(a.options.Region)}},
		"accessConfig":         object{"authenticationMode": c.AuthenticationMode},
		"kubernetesNetworkConfig": object{
			"serviceIpv4Cidr": c.ServiceIPv4CIDR,
			"ipFamily":        "ipv4",
		},
		"resourcesVpcConfig": object{
			"vpcId":                  c.vpcID,
			"subnetIds":              c.subnets,
			"clusterSecurityGroupId": c.group,
			"endpointPublicAccess":   true,
		},
		"tags": object{},
	}
	if c.status == clusterCreating {
		delete(described, "endpoint")
		delete(described, "certificateAuthority")
	}
	return &object{"cluster": described}, nil
}

func (a *account) listAccessEntries(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	return &object{"accessEntries": slices.Sorted(maps.Keys(c.accessEntries))}, nil
}

func (a *account) findAccessEntry(r *request) (*cluster, accessEntry, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, accessEntry{}, err
	}
	e, ok := c.accessEntries[r.path["principal"]]
	if !ok {
		return nil, accessEntry{}, eksNotFound("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
	}
	return c, e, nil
}

func (a *account) describeAccessEntry(r *request, _ *struct{}) (*object, error) {
	c, e, err := a.findAccessEntry(r)
	if err != nil {
		return nil, err
	}
	return &object{"accessEntry": a.accessEntryDocument(c, e)}, nil
}

type createAccessEntryInput struct {
	PrincipalArn, Type, Username string
	KubernetesGroups             []string
	Tags                         map[string]string
}

func (a *account) createAccessEntry(r *request, in *createAccessEntryInput) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	if err := c.hasAccessEntries(); err != nil {
		return nil, err
	}
	if _, err := a.roleOf(&in.PrincipalArn); err != nil && strings.HasPrefix(in.PrincipalArn, a.iamARN("role/")) {
		return nil, wire.Errorf("InvalidParameterException", "The specified principalArn is invalid: invalid principal.")
	}
	if _, ok := c.accessEntries[in.PrincipalArn]; ok {
		return nil, wire.Errorf("ResourceInUseException", "The specified access entry resource is already in use on this cluster.").WithStatus(http.StatusConflict)
	}
	e := accessEntry{
		principal: in.PrincipalArn, kind: cmp.Or(in.Type, "STANDARD"), username: cmp.Or(in.Username, in.PrincipalArn),
		groups: in.KubernetesGroups, created: a.now, tags: map[string]string{},
	}
	maps.Copy(e.tags, in.Tags)
	if e.kind == "EC2_LINUX" {
		e.username, e.groups = "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}
	}
	c.accessEntries[e.principal] = e
	return &object{"accessEntry": a.accessEntryDocument(c, e)}, nil
}

// hasAccessEntries returns EKS's error if the cluster's authentication mode has no access entries.
func (c *cluster) hasAccessEntries() error {
	if c.AuthenticationMode == AuthenticationConfigMap {
		return wire.Errorf("InvalidRequestException", "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
	}
	return nil
}

func (a *account) updateAccessEntry(r *request, in *createAccessEntryInput) (*object, error) {
	c, e, err := a.findAccessEntry(r)
	if err != nil {
		return nil, err
	}
	if e.kind != "STANDARD" && (in.Username != "" || in.KubernetesGroups != nil) {
		return nil, wire.Errorf("InvalidRequestException", "The type of the access entry allows neither another username nor other groups.")
	}
	if in.Username != "" {
		e.username = in.Username
	}
	if in.KubernetesGroups != nil {
		e.groups = in.KubernetesGroups
	}
	c.accessEntries[e.principal] = e
	return &object{"accessEntry": a.accessEntryDocument(c, e)}, nil
}

// listAssociatedAccessPolicies returns none: the simulator knows no access policies.
func (a *account) listAssociatedAccessPolicies(r *request, _ *struct{}) (*object, error) {
	c, e, err := a.findAccessEntry(r)
	if err != nil {
		return nil, err
	}
	return &object{"clusterName": c.Name, "principalArn": e.principal, "associatedAccessPolicies": []object{}}, nil
}

// tagsOf returns the tags of an access entry, an association, a node group or an add-on.
func (a *account) tagsOf(arn string) (map[string]string, error) {
	for _, c := range a.clusters {
		for _, e := range c.accessEntries {
			if a.accessEntryARN(c, e) == arn {
				return e.tags, nil
			}
		}
		for _, one := range c.associations {
			if one.arn == arn {
				return one.tags, nil
			}
		}
		for name, g := range c.nodeGroups {
			if a.arn("eks", a.options.Region, nodeGroupResource(c.Name, name)) == arn {
				return g.tags, nil
			}
		}
		for _, name := range c.addons {
			if a.addonARN(c, name) == arn {
				return c.valuesOf(name).tags, nil
			}
		}
	}
	return nil, wire.Errorf("NotFoundException", "No resource found for ARN %s", arn).WithStatus(http.StatusNotFound)
}

func (a *account) tagEKS(r *request, in *struct{ Tags map[string]string }) (*object, error) {
	tags, err := a.tagsOf(r.path["arn"])
	if err != nil {
		return nil, err
	}
	maps.Copy(tags, in.Tags)
	return &object{}, nil
}

func (a *account) untagEKS(r *request, _ *struct{}) (*object, error) {
	tags, err := a.tagsOf(r.path["arn"])
	if err != nil {
		return nil, err
	}
	for _, key := range r.http.URL.Query()["tagKeys"] {
		delete(tags, key)
	}
	return &object{}, nil
}

func (a *account) listEKSTags(r *request, _ *struct{}) (*object, error) {
	tags, err := a.tagsOf(r.path["arn"])
	if err != nil {
		return nil, err
	}
	return &object{"tags": maps.Clone(tags)}, nil
}

func (a *account) deleteAccessEntry(r *request, _ *struct{}) (*object, error) {
	c, e, err := a.findAccessEntry(r)
	if err != nil {
		return nil, err
	}
	delete(c.accessEntries, e.principal)
	return &object{}, nil
}

func (a *account) accessEntryDocument(c *cluster, e accessEntry) object {
	groups := e.groups
	if groups == nil {
		groups = []string{}
	}
	return object{
		"clusterName":      c.Name,
		"principalArn":     e.principal,
		"accessEntryArn":   a.accessEntryARN(c, e),
		"type":             e.kind,
		"username":         e.username,
		"kubernetesGroups": groups,
		"createdAt":        e.created.Unix(),
		"modifiedAt":       e.created.Unix(),
		"tags":             maps.Clone(e.tags),
	}
}

func (a *account) accessEntryARN(c *cluster, e accessEntry) string {
	return a.arn("eks", a.options.Region, "access-entry/"+c.Name+"/"+fixedID("", e.principal))
}
