package preflight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shell"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// controllerRole checks that Karpenter gets a role, and that it allows what the version calls.
func controllerRole() Check {
	return Check{
		ID: "controller-role",
		Why: "without a permission, or a role that trusts its ServiceAccount, Karpenter launches or terminates no node; " +
			"a newer version needs more permissions, and fails only when it calls them",
		needs: []source{ofAccount, ofControllers, ofClasses, ofGrant, ofAgent, ofNodeRoles, ofSimulation, ofVolumeKeys},
		look:  lookAtControllerRole,
	}
}

func lookAtControllerRole(o Observed) (string, []Finding) {
	if o.Grant.Err != nil && o.Grant.Of.RoleARN == "" {
		return "the role of Karpenter's controller", unread(o.Grant.Err)
	}
	c, _ := o.controller()
	if o.Grant.Of.RoleARN == "" {
		return "ServiceAccount " + c.account(), []Finding{noRole(o, c)}
	}
	looked := fmt.Sprintf("%s of ServiceAccount %s, for Karpenter %s", o.Grant.Of.RoleARN, c.account(), o.Version)
	found := o.trust(c)
	if o.Grant.Err != nil {
		return looked, append(found, unread(o.Grant.Err)...)
	}
	found = append(found, o.missingPermissions(c)...)
	return looked + o.compared(), append(found, o.volumeKeys()...)
}

func (c Controller) account() string { return c.Namespace + "/" + c.ServiceAccount }

// noRole is the finding that no role was found for a ServiceAccount. Pods then use the role of their node, or credentials
// in their environment, which plumbline does not judge.
func noRole(o Observed, c Controller) Finding {
	return Finding{
		Status: Unknown,
		Message: fmt.Sprintf("ServiceAccount %s has neither a Pod Identity association nor the annotation %s: "+
			"Karpenter uses the role of its node, or credentials in its environment, which are not checked", c.account(), cloud.RoleAnnotation),
		Fix: fmt.Sprintf("aws eks create-pod-identity-association --region %s --cluster-name %s "+
			"--namespace %s --service-account %s --role-arn ROLE", o.Region, o.Cluster, c.Namespace, c.ServiceAccount),
	}
}

// trust returns what prevents the ServiceAccount from assuming its role.
func (o Observed) trust(c Controller) []Finding {
	grant := o.Grant.Of
	var found []Finding
	if grant.Association != nil && !o.Agent.Of {
		if o.Agent.Err != nil {
			found = append(found, unread(o.Agent.Err)...)
		} else {
			found = append(found, Finding{
				Status: Problem,
				Message: fmt.Sprintf("ServiceAccount %s has a Pod Identity association, but the cluster has no add-on %s: "+
					"its pods get no credentials", c.account(), cloud.PodIdentityAgent),
				Fix: fmt.Sprintf("aws eks create-addon --region %s --cluster-name %s --addon-name %s", o.Region, o.Cluster, cloud.PodIdentityAgent),
			})
		}
	}
	if grant.Role.Trust == "" || grant.Association != nil && grant.Association.TargetRoleARN != "" {
		return found // it was not read, or EKS assumes it with another role
	}
	if o.EKS.Err != nil {
		return append(found, unread(o.EKS.Err)...)
	}
	assumption := o.assumption(c)
	answer, action, err := iam.Trusts(grant.Role.Trust, assumption)
	switch {
	case err != nil:
		found = append(found, Finding{Status: Unknown, Message: err.Error()})
	case answer.Decision == iam.Unknown:
		message := "the trust policy of " + grant.RoleARN + " was not evaluated: " + answer.Reason
		found = append(found, Finding{Status: Unknown, Message: message})
	case answer.Decision == iam.Denied:
		found = append(found, Finding{
			Status: Problem,
			Message: fmt.Sprintf("the trust policy of %s does not allow %s to %s for ServiceAccount %s",
				grant.RoleARN, action, assumption.Principal, c.account()),
			Fix: "add to its trust policy:\n" + trustStatement(assumption),
		})
	}
	return found
}

// assumption is how the controller's pods assume their role.
func (o Observed) assumption(c Controller) iam.Assumption {
	account := cloud.AccountOf(o.EKS.Of.ARN)
	if o.Grant.Of.Association != nil {
		return iam.PodIdentity(o.EKS.Of.ARN, account, c.Namespace, c.ServiceAccount, o.Cluster)
	}
	return iam.WebIdentity(iam.PartitionOf(o.Region), accountOfRole(o.Grant.Of.RoleARN), o.EKS.Of.Issuer, c.Namespace, c.ServiceAccount)
}

// accountOfRole returns the account of a role, which has the OIDC provider that it trusts.
func accountOfRole(arn string) string { return cloud.AccountOf(arn) }

// trustStatement returns the statement that allows an assumption.
func trustStatement(a iam.Assumption) string {
	statement := map[string]any{"Effect": "Allow", "Principal": map[string]string{a.Kind: a.Principal}, "Action": a.Actions}
	if a.Kind == "Federated" {
		statement["Condition"] = map[string]any{"StringEquals": a.Keys}
	}
	return indented(statement)
}

// indented returns a value as JSON.
func indented(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error() // it has only texts
	}
	return string(text)
}

// judged are the findings about the policies of the controller's role. Errors: as Documents, or a version whose
// permissions plumbline does not know.
func (o Observed) judged(c Controller) ([]iam.Finding, error) {
	policies, limits, err := Documents(o.Grant.Of)
	if err != nil {
		return nil, err
	}
	if s := o.Simulation.Of; s != nil {
		simulated := *s
		if o.Grant.Of.Role.Boundary != nil {
			simulated.Limits = limits[:1] // the first one
		}
		return iam.JudgeSimulated(policies, o.Version, o.iamCluster(c), simulated, limits...)
	}
	return iam.Judge(policies, o.Version, o.iamCluster(c), limits...)
}

// Documents returns the policies of a role, and those that limit them: first its permissions boundary, then the policy of a Pod
// Identity association. Error: a policy that plumbline cannot parse, by its name.
func Documents(g cloud.Grant) (policies, limits []iam.Document, err error) {
	var limiting []cloud.RolePolicy
	if g.Role.Boundary != nil {
		limiting = append(limiting, *g.Role.Boundary)
	}
	if a := g.Association; a != nil && a.Policy != "" {
		limiting = append(limiting, cloud.RolePolicy{Name: "of " + a.ARN, Text: a.Policy})
	}
	if policies, err = documents(g.Role.Policies, g.RoleARN); err != nil {
		return nil, nil, err
	}
	limits, err = documents(limiting, g.RoleARN)
	return policies, limits, err
}

func documents(policies []cloud.RolePolicy, role string) ([]iam.Document, error) {
	var all []iam.Document
	for _, p := range policies {
		d, err := iam.Parse([]byte(p.Text))
		if err != nil {
			return nil, fmt.Errorf("policy %s of role %s: %w", p.Name, role, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// iamCluster is the cluster that the policies are about.
func (o Observed) iamCluster(c Controller) iam.Cluster {
	return iam.Cluster{
		Name: o.Cluster, Region: o.Region, Account: accountOfRole(o.Grant.Of.RoleARN), NodeRoles: o.nodeRoles(), Queue: c.queue(),
	}
}

// nodeRoles returns the roles that EC2NodeClasses give to nodes, sorted: ARNs or, if they were not read, names.
func (o Observed) nodeRoles() []string {
	var roles []string
	for _, r := range o.NodeRoles {
		if role := cmp.Or(r.Role.Of.ARN, r.Name); role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// missingPermissions returns what the controller's role does not allow.
func (o Observed) missingPermissions(c Controller) []Finding {
	all, err := o.judged(c)
	if err != nil {
		return []Finding{{Status: Unknown, Message: err.Error()}}
	}
	var found []Finding
	for _, f := range all {
		switch f.Kind {
		case iam.Missing:
			found = append(found, o.missing(c, f))
		case iam.Undecided:
			found = append(found, Finding{Status: Unknown, Message: strings.Join(f.Actions, ", ") + ": " + f.Message})
		case iam.Differs:
			found = append(found, o.differs(f))
		case iam.TooBroad: // controllerReach
		}
	}
	return found
}

func (o Observed) missing(c Controller, f iam.Finding) Finding {
	status, message := Problem, f.Message
	if f.For != "" {
		message += "; needed for " + f.For
	}
	if f.For != "" && f.For != iam.ForQueue && (f.For != iam.ForProfiles || !o.profilesNeeded()) {
		status = Warning
	}
	if len(o.nodeRoles()) == 0 && slices.Contains(f.Actions, "iam:PassRole") {
		status, message = Warning, message+"; no EC2NodeClass names a role yet, so it was checked for "+iam.NodeRolePrefix+o.Cluster
	}
	where, statement := o.tool().Add(*f.Add)
	if where != "" {
		where = " (a role " + where + ")"
	}
	return Finding{
		Status: status, Message: message,
		Fix: fmt.Sprintf("add to a policy of %s%s; all statements: %s:\n%s", o.Grant.Of.RoleARN, where, o.policyCommand(c), statement),
	}
}

// tool returns what has made the controller's role; empty if that is unknown.
func (o Observed) tool() iam.Tool {
	arn := o.Grant.Of.RoleARN
	role := iam.Named{Role: arn[strings.LastIndex(arn, "/")+1:], Tags: o.Grant.Of.Role.Tags, Policies: map[string]iam.Document{}}
	for _, p := range o.Grant.Of.Role.Policies {
		d, err := iam.Parse([]byte(p.Text))
		if err != nil {
			return "" // judged reports it
		}
		role.Policies[p.Name] = d
	}
	return iam.ToolOf(role)
}

// profilesNeeded reports whether an EC2NodeClass names a role, for which Karpenter creates instance profiles. If the
// EC2NodeClasses were not read, it is true.
func (o Observed) profilesNeeded() bool {
	return o.Classes.Err != nil || slices.ContainsFunc(o.Classes.Of, func(c awsv1.EC2NodeClass) bool { return c.Spec.Role != "" })
}

// policyCommand prints the policies that the controller needs.
func (o Observed) policyCommand(c Controller) string {
	cluster := o.iamCluster(c)
	command := fmt.Sprintf("plumbline iam-policy --cluster %s --region %s --account %s --version %s --queue %s",
		o.Cluster, o.Region, cluster.Account, shell.Word(o.Version), shell.Word(cluster.Queue))
	for _, role := range cluster.NodeRoles {
		command += " --node-role " + shell.Word(role)
	}
	return command + " -o json"
}
