package awssim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) eksService() service {
	return service{
		name: "eks", protocol: wire.REST,
		denied: "AccessDeniedException", throttled: "ThrottlingException", unknown: "UnknownOperationException",
		routes: slices.Concat(podIdentityRoutes, addonRoutes, nodeGroupRoutes, []route{
			{http.MethodGet, "/clusters", "ListClusters"},
			{http.MethodGet, "/clusters/{cluster}", "DescribeCluster"},
			{http.MethodGet, "/clusters/{cluster}/access-entries", "ListAccessEntries"},
			{http.MethodGet, "/clusters/{cluster}/access-entries/{principal}", "DescribeAccessEntry"},
			{http.MethodPost, "/clusters/{cluster}/access-entries", "CreateAccessEntry"},
			{http.MethodDelete, "/clusters/{cluster}/access-entries/{principal}", "DeleteAccessEntry"},
		}),
		actions: merged(a.podIdentityActions(), a.addonActions(), a.nodeGroupActions(), map[string]action{
			"ListClusters":        document(a.listClusters),
			"DescribeCluster":     document(a.describeCluster),
			"ListAccessEntries":   document(a.listAccessEntries),
			"DescribeAccessEntry": document(a.describeAccessEntry),
			"CreateAccessEntry":   document(a.createAccessEntry),
			"DeleteAccessEntry":   document(a.deleteAccessEntry),
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
		"accessConfig":         object{"authenticationMode": "API_AND_CONFIG_MAP"},
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
}

func (a *account) createAccessEntry(r *request, in *createAccessEntryInput) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	if _, ok := c.accessEntries[in.PrincipalArn]; ok {
		return nil, wire.Errorf("ResourceInUseException", "The specified access entry resource is already in use on this cluster.").WithStatus(http.StatusConflict)
	}
	e := accessEntry{
		principal: in.PrincipalArn, kind: cmp.Or(in.Type, "STANDARD"), username: cmp.Or(in.Username, in.PrincipalArn),
		groups: in.KubernetesGroups, created: a.now,
	}
	if e.kind == "EC2_LINUX" {
		e.username, e.groups = "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}
	}
	c.accessEntries[e.principal] = e
	return &object{"accessEntry": a.accessEntryDocument(c, e)}, nil
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
		"accessEntryArn":   a.arn("eks", a.options.Region, "access-entry/"+c.Name+"/"+fixedID("", e.principal)),
		"type":             e.kind,
		"username":         e.username,
		"kubernetesGroups": groups,
		"createdAt":        e.created.Unix(),
		"modifiedAt":       e.created.Unix(),
		"tags":             object{},
	}
}
