package deploy

import (
	"context"
	"errors"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Account is what is read of an AWS account before a stack is planned.
type Account interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Addons(ctx context.Context, cluster string) ([]cloud.Addon, error)
	Association(ctx context.Context, cluster, namespace, serviceAccount string) (*cloud.Association, error)
	AccessEntry(ctx context.Context, cluster, roleARN string) (*cloud.AccessEntry, error)
	NodeRole(ctx context.Context, name string) (cloud.Role, error)
	ProfileRoles(ctx context.Context, name string) ([]string, error)
	Queue(ctx context.Context, name string) (cloud.Queue, error)
	HasPolicy(ctx context.Context, arn string) (bool, error)
	HasOIDCProvider(ctx context.Context, arn string) (bool, error)
}

// Read reads what a bootstrap decides by. What exists with the stack's names is read only for resources that the stack does not
// have: its template has the names of the others. Errors: those of cloud.
func (d *Deployer) Read(ctx context.Context, account Account, cluster string, w bootstrap.Wish) (f bootstrap.Facts, err error) {
	who, err := account.Identity(ctx)
	if err != nil {
		return f, err
	}
	f.Account = who.Account
	if f.Cluster, err = account.Cluster(ctx, cluster); err != nil {
		return f, err
	}
	if f.Stack, f.Current, err = d.Current(ctx); err != nil {
		return f, err
	}
	if f.Failure, err = d.Failure(ctx, f.Stack); err != nil {
		return f, err
	}
	s, err := w.Draft(f)
	if err != nil {
		return f, err
	}
	if err := readAccess(ctx, account, s, &f); err != nil {
		return f, err
	}
	if err := readFound(ctx, account, s, &f); err != nil {
		return f, err
	}
	return f, readEntry(ctx, account, s, &f)
}

// readEntry reads whether a role of nodes that is not new has an access entry already.
func readEntry(ctx context.Context, account Account, s bootstrap.Spec, f *bootstrap.Facts) error {
	name := f.Current.NamesIn()[bootstrap.NodeRole]
	if f.Found[bootstrap.NodeRole] != nil {
		name = s.Name(bootstrap.NodeRole)
	}
	if name == "" || !s.AccessEntries || f.Current.Resources[bootstrap.NodeAccess].Type != "" {
		return nil
	}
	entry, err := account.AccessEntry(ctx, s.Cluster.Name, bootstrap.RoleARN(f.Cluster.ARN, name))
	f.Entry = entry != nil
	return err
}

// readAccess reads how pods get credentials.
func readAccess(ctx context.Context, account Account, s bootstrap.Spec, f *bootstrap.Facts) (err error) {
	if s.Auth == bootstrap.IRSA {
		if s.Issuer != "" {
			f.Provider, err = account.HasOIDCProvider(ctx, s.ProviderARN())
		}
		return err
	}
	addons, err := account.Addons(ctx, s.Cluster.Name)
	if err != nil {
		return err
	}
	f.Agent = slices.ContainsFunc(addons, func(a cloud.Addon) bool { return a.Name == cloud.PodIdentityAgent })
	f.Links = map[string]string{}
	for id, of := range map[string]bootstrap.ServiceAccount{bootstrap.ControllerLink: s.Controller, bootstrap.PlumblineLink: s.Plumbline} {
		if f.Current.Resources[id].Type != "" {
			continue // it is the stack's
		}
		link, err := account.Association(ctx, s.Cluster.Name, of.Namespace, of.Name)
		if err != nil {
			return err
		}
		if link != nil {
			f.Links[id] = link.RoleARN
		}
	}
	return nil
}

// readFound reads the resources that have the stack's default names and do not belong to it.
func readFound(ctx context.Context, account Account, s bootstrap.Spec, f *bootstrap.Facts) error {
	template, err := bootstrap.New(s)
	if err != nil {
		return err
	}
	f.Found = map[string]*cloud.Role{}
	for id, name := range s.AllNames(template) {
		if f.Current.Resources[id].Type != "" {
			continue
		}
		var role *cloud.Role
		found, err := false, error(nil)
		switch template.Resources[id].Type {
		case "AWS::IAM::Role":
			role = new(cloud.Role)
			*role, err = account.NodeRole(ctx, name)
			found = err == nil
		case "AWS::IAM::InstanceProfile":
			_, err = account.ProfileRoles(ctx, name)
			found = err == nil
		case "AWS::SQS::Queue":
			_, err = account.Queue(ctx, name)
			found = err == nil
		case "AWS::IAM::ManagedPolicy":
			found, err = account.HasPolicy(ctx, s.PolicyARN(name))
		}
		var missing *cloud.NotFoundError
		if err != nil && !errors.As(err, &missing) {
			return err
		}
		if found {
			f.Found[id] = role
		}
	}
	return nil
}
