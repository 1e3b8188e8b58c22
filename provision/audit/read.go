package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/preflight"
)

// AWS is what a Reader queries in a region of an account.
type AWS interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Clusters(ctx context.Context) ([]string, error)
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Grant(ctx context.Context, cluster string, account cloud.ServiceAccount) (cloud.Grant, error)
	Network(ctx context.Context) ([]cloud.Subnet, []cloud.SecurityGroup, error)
	Trail(ctx context.Context, action string, since, until time.Time, requests int) ([]cloud.TrailCall, error)
}

// trailRequests is how many requests are made for each kind of call: 50,000 calls in ten minutes.
const trailRequests = 1000

// Place is a region, read with a profile of the AWS configuration; an empty profile is the default.
type Place struct {
	Profile, Region string
	AWS             AWS
}

func (p Place) label() string {
	if p.Profile == "" {
		return p.Region
	}
	return p.Region + " with profile " + p.Profile
}

// Context is a context of a kubeconfig.
type Context struct {
	Name, Server string
	// Authority is the certificate authority of the API server as PEM.
	Authority []byte
	API       client.Reader
}

// Reader reads accounts and clusters. It only reads.
type Reader struct {
	Places   []Place
	Contexts []Context
	// ControllerLabels are those of Deployments of Karpenter's controller.
	ControllerLabels map[string]string
	// Since is from when on calls are read from CloudTrail, and Now until when; zero if none are.
	Since, Now time.Time
}

// reading is what one Read has found, with the connection of each cluster.
type reading struct {
	Observed
	aws map[string]AWS // by ARN of the cluster
}

// Read reads everything. What fails is in Unread.
func (r *Reader) Read(ctx context.Context) Observed {
	found := &reading{aws: map[string]AWS{}}
	found.WithContexts = len(r.Contexts) > 0
	for _, p := range r.Places {
		found.place(ctx, p, r.Since, r.Now)
	}
	for _, c := range r.Contexts {
		found.context(ctx, c, r.ControllerLabels)
	}
	slices.SortStableFunc(found.Clusters, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Context, b.Context))
	})
	return found.Observed
}

// fail notes what could not be read.
func (f *reading) fail(err error, format string, args ...any) {
	if err != nil {
		f.Unread = append(f.Unread, Unread{What: fmt.Sprintf(format, args...), Err: err})
	}
}

// place reads the EKS clusters, subnets and security groups of a region. Two profiles may be about one account.
func (f *reading) place(ctx context.Context, p Place, since, now time.Time) {
	who, err := p.AWS.Identity(ctx)
	f.fail(err, "the account of %s", p.label())
	names, err := p.AWS.Clusters(ctx)
	f.fail(err, "the EKS clusters in %s", p.label())
	for _, name := range names {
		c, err := p.AWS.Cluster(ctx, name)
		f.fail(err, "EKS cluster %s in %s", name, p.label())
		if _, known := f.aws[c.ARN]; known || err != nil {
			continue
		}
		f.aws[c.ARN] = p.AWS
		f.Clusters = append(f.Clusters, Cluster{
			Account: cloud.AccountOf(c.ARN), Region: p.Region, Name: c.Name, ARN: c.ARN, Endpoint: c.Endpoint, Version: c.Version,
			VPC: c.VPC, Tags: c.Tags, authority: c.CertificateAuthority,
		})
	}
	at := func(n Network) bool { return n.Account == who.Account && n.Region == p.Region }
	if who.Account == "" || len(names) == 0 || slices.ContainsFunc(f.Networks, at) {
		return
	}
	subnets, groups, err := p.AWS.Network(ctx)
	f.fail(err, "the subnets and security groups in %s", p.label())
	f.Networks = append(f.Networks, Network{Account: who.Account, Region: p.Region, Subnets: subnets, Groups: groups})
	if since.IsZero() {
		return
	}
	t := Trail{Account: who.Account, Region: p.Region}
	t.Terminated, err = p.AWS.Trail(ctx, cloud.TerminateInstances, since, now, trailRequests)
	f.fail(err, "the terminations in %s", p.label())
	if err == nil {
		t.Launched, err = p.AWS.Trail(ctx, cloud.RunInstances, since, now, trailRequests)
		f.fail(err, "the launches in %s", p.label())
	}
	f.Trails = append(f.Trails, t)
}

// context reads the controllers and EC2NodeClasses of a cluster, which is the EKS cluster with its certificate authority.
func (f *reading) context(ctx context.Context, k Context, labels map[string]string) {
	at := slices.IndexFunc(f.Clusters, func(c Cluster) bool { return c.isOf(k) })
	switch {
	case at < 0:
		f.Clusters = append(f.Clusters, Cluster{Endpoint: k.Server, authority: k.Authority})
		at = len(f.Clusters) - 1
	case f.Clusters[at].Context != "":
		return // another context has reached it
	}
	c := &f.Clusters[at]
	c.Context = k.Name
	var err error
	c.Classes, err = preflight.Classes(ctx, k.API)
	f.fail(err, "the EC2NodeClasses of context %s", k.Name)
	all, err := preflight.Controllers(ctx, k.API, labels)
	f.fail(err, "Karpenter's controllers of context %s", k.Name)
	for _, one := range all {
		c.Controllers = append(c.Controllers, f.controller(ctx, *c, one))
	}
}

// controller reads the role of a controller.
func (f *reading) controller(ctx context.Context, c Cluster, one preflight.Controller) Controller {
	controller := Controller{
		Namespace: one.Namespace, Name: one.Name, Version: one.Version, Running: one.Replicas > 0, RoleARN: one.RoleARN,
		ClusterName: one.Environment["CLUSTER_NAME"], Queue: one.Environment["INTERRUPTION_QUEUE"],
	}
	aws := f.aws[c.ARN]
	if aws == nil {
		return controller
	}
	account := cloud.ServiceAccount{Namespace: one.Namespace, Name: one.ServiceAccount, RoleARN: one.RoleARN}
	grant, err := aws.Grant(ctx, c.Name, account)
	f.fail(err, "the role of %s of %s", controller.label(), c.label())
	controller.Grant, controller.Read, controller.RoleARN = grant, err == nil, cmp.Or(grant.RoleARN, one.RoleARN)
	return controller
}

// isOf reports whether a context reaches a cluster: by the certificate authority of the API server, or by its address if a
// context has none.
func (c Cluster) isOf(k Context) bool {
	if len(k.Authority) > 0 && len(c.authority) > 0 {
		return cloud.Verify(cloud.Cluster{CertificateAuthority: c.authority}, k.Authority, nil, nil).OK
	}
	return c.Endpoint != "" && strings.EqualFold(strings.TrimSuffix(c.Endpoint, "/"), strings.TrimSuffix(k.Server, "/"))
}
