package bootstrap

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// Wish is what a user requests.
type Wish struct {
	// Region of the cluster.
	Region string
	// Auth and Version are those of the stack if they are empty, or the defaults if there is none: Pod Identity, and the
	// newest version.
	Auth    Auth
	Version string
	// Upgrade allows another version than that of the stack.
	Upgrade bool
	// Controller and Plumbline are the ServiceAccounts, and Daemon the policy of plumbline's role.
	Controller, Plumbline ServiceAccount
	Daemon                iam.Template
}

// Facts are what was read in AWS.
type Facts struct {
	Account string
	Cluster cloud.Cluster
	// Agent reports whether the cluster has the add-on of Pod Identity, and Provider whether IAM trusts the cluster's
	// tokens.
	Agent, Provider bool
	// Stack is nil if it does not exist; Current is its template, and Failure why its last operation failed.
	Stack   *cloud.Stack
	Current Template
	Failure string
	// Found are the resources that have one of the stack's default names and do not belong to it, by logical ID, with the
	// roles among them.
	Found map[string]*cloud.Role
	// Links are the roles that ServiceAccounts have by Pod Identity, by the logical ID of the stack's association.
	Links map[string]string
	// Entry reports whether the role of nodes exists and has an access entry that is not part of the stack.
	Entry bool
}

// Draft returns the Spec of a wish without what exists: its names are the default ones. Errors: the stack is for another
// version.
func (w Wish) Draft(f Facts) (Spec, error) {
	s := Spec{
		Cluster: iam.Cluster{Name: f.Cluster.Name, Region: w.Region, Account: f.Account, Partition: partitionOf(f.Cluster.ARN)},
		Issuer:  f.Cluster.Issuer, AccessEntries: f.Cluster.AuthenticationMode != "CONFIG_MAP" && f.Cluster.AuthenticationMode != "",
		Controller: w.Controller, Plumbline: w.Plumbline, Daemon: w.Daemon,
	}
	s.AuthMap = !s.AccessEntries
	has := map[string]string{}
	if !Empty(f.Stack) {
		has = f.Stack.Outputs
	}
	s.Auth = cmp.Or(w.Auth, Auth(has[OutputAuth]), PodIdentity)
	if is := Auth(has[OutputAuth]); is != "" && is != s.Auth {
		return s, fmt.Errorf("pods get the roles of the stack %s by %s, and running ones would lose them: "+
			"leave --auth out, or delete the stack with --undo and run this command again with --auth %s", s.Stack(), is, s.Auth)
	}
	switch is := has[OutputVersion]; {
	case w.Upgrade && is != "" && olderThan(cmp.Or(w.Version, karpenter.Newest()), is):
		return s, fmt.Errorf("the stack %s is for Karpenter %s: policies for the older %s would take permissions from it",
			s.Stack(), is, cmp.Or(w.Version, karpenter.Newest()))
	case w.Upgrade || is == "":
		s.Version = cmp.Or(w.Version, karpenter.Newest())
	case w.Version != "" && w.Version != is:
		return s, fmt.Errorf("the stack %s is for Karpenter %s: --upgrade shows and applies what %s needs", s.Stack(), is, w.Version)
	default:
		s.Version = is
	}
	return s, nil
}

// olderThan reports whether a version of Karpenter is older than another one.
func olderThan(version, other string) bool {
	a, err := semver.NewVersion(version)
	b, err2 := semver.NewVersion(other)
	return err == nil && err2 == nil && a.LessThan(b)
}

func partitionOf(arn string) string {
	if parts := strings.SplitN(arn, ":", 3); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

// Decide returns what the stack has to be, and what is done about resources that exist. Errors: the cluster is not ready for
// it, or has it from another tool.
func Decide(w Wish, f Facts) (Spec, []Choice, error) {
	s, err := w.Draft(f)
	if err != nil {
		return s, nil, err
	}
	choices := s.Choose(f.Current, f.Found)
	if f.Entry && f.Current.Resources[NodeAccess].Type == "" {
		s.AccessEntries = false
	}
	if err := s.ready(f); err != nil {
		return s, choices, err
	}
	for _, one := range []struct {
		id      string
		account ServiceAccount
	}{{ControllerLink, s.Controller}, {PlumblineLink, s.Plumbline}} {
		has, _ := f.Current.Resources[one.id].Properties["Namespace"].(string) // absent without Pod Identity
		if name, _ := f.Current.Resources[one.id].Properties["ServiceAccount"].(string); has != "" && (has != one.account.Namespace || name != one.account.Name) {
			return s, choices, fmt.Errorf("the stack %s gives its role to ServiceAccount %s/%s, and %s/%s is not that: running pods would lose it; "+
				"give the namespace and the name of the stack", s.Stack(), has, name, one.account.Namespace, one.account.Name)
		}
		if role := f.Links[one.id]; role != "" && f.Current.Resources[one.id].Type == "" {
			return s, choices, fmt.Errorf("ServiceAccount %s/%s has the role %s by a Pod Identity association that is not part of the stack %s: "+
				"another tool has set it up; keep that, or delete the association and run this command again",
				one.account.Namespace, one.account.Name, role, s.Stack())
		}
	}
	return s, choices, nil
}

// ready returns what the cluster needs before pods can get credentials.
func (s Spec) ready(f Facts) error {
	switch f.Cluster.Status {
	case "ACTIVE", "UPDATING", "":
	default:
		return fmt.Errorf("EKS cluster %s is %s: run this command again once it is ACTIVE", s.Cluster.Name, f.Cluster.Status)
	}
	switch {
	case s.Auth == PodIdentity && !f.Agent:
		return fmt.Errorf("EKS cluster %s does not have the add-on %s, which gives pods the credentials of their role: "+
			"aws eks create-addon --region %s --cluster-name %s --addon-name %s; or use --auth irsa",
			s.Cluster.Name, cloud.PodIdentityAgent, s.Cluster.Region, s.Cluster.Name, cloud.PodIdentityAgent)
	case s.Auth == IRSA && s.Issuer != "" && !f.Provider:
		return fmt.Errorf("IAM does not trust the tokens of EKS cluster %s: "+
			"aws iam create-open-id-connect-provider --url https://%s --client-id-list sts.amazonaws.com; or use --auth pod-identity",
			s.Cluster.Name, s.Issuer)
	}
	return nil
}

// ProviderARN returns the ARN of the OIDC provider of the cluster in IAM.
func (s Spec) ProviderARN() string { return s.arn("iam", "oidc-provider/"+s.Issuer) }

// PolicyARN returns the ARN of a managed policy of the account.
func (s Spec) PolicyARN(name string) string { return s.arn("iam", "policy/"+name) }
