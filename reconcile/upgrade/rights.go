package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/provision/preflight"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// ReadGrant reads from AWS the role that the pods of a ServiceAccount of an EKS cluster get, with its policies.
type ReadGrant func(ctx context.Context, cluster, region string, account cloud.ServiceAccount) (cloud.Grant, error)

// Rights are the AWS permissions that an upgrade of Karpenter adds, and whether the role of its controller has them.
type Rights struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Needs are the permissions that are new in the later version.
	Needs []karpenter.Permission `json:"needs"`
	// Role is the ARN of the role; empty if it is unknown.
	Role string `json:"role,omitempty"`
	// Findings are what the role lacks, and what of its policies is not evaluated.
	Findings []iam.Finding `json:"findings,omitempty"`
	// Unread is why it is unknown what the role allows; empty if it was read.
	Unread string `json:"unread,omitempty"`
	// NotAsked reports that AWS was not queried.
	NotAsked bool `json:"-"`
	// Command generates the policies of the later version.
	Command string `json:"command"`
}

// Lines describes them: a line for each permission, then what to do.
func (r *Rights) Lines() []string {
	if r == nil {
		return nil
	}
	state := "unknown whether the controller's role allows it"
	if r.Unread == "" {
		state = "allowed by role " + r.Role
	}
	lines := make([]string, 0, len(r.Needs))
	for _, p := range r.Needs {
		lines = append(lines, fmt.Sprintf("Karpenter %s needs %s: %s", r.To, p, r.stateOf(p.Action, state)))
	}
	for _, f := range r.Findings {
		if f.Kind == iam.Missing {
			lines = append(lines, fmt.Sprintf("add to a policy of role %s: %s", r.Role, f.Statement()))
		}
	}
	switch {
	case r.Unread != "":
		lines = append(lines, "the permissions were not checked: "+r.Unread)
	case len(r.Findings) > 0:
		lines = append(lines, "all policies of that version: "+r.Command)
	}
	return lines
}

// stateOf returns whether the role allows an action; known is the answer if no finding is about it.
func (r *Rights) stateOf(action, known string) string {
	for _, f := range r.Findings {
		for _, one := range f.Actions {
			if one == action && f.Kind == iam.Missing {
				return "missing in role " + r.Role
			}
			if one == action {
				return f.Message
			}
		}
	}
	return known
}

// readRights is what was last read of the role, for one change.
type readRights struct {
	change gatedChange
	at     time.Time
	rights *Rights
}

// rightsGoodFor is how long an answer about the role is valid, if a person does not request a reconcile: while an upgrade is
// held or refused, its gates are checked at each retry interval.
const rightsGoodFor = 10 * time.Minute

// grantTimeout limits how long AWS may delay a reconcile that starts an upgrade.
const grantTimeout = 15 * time.Second

// Rights returns the permissions that the change of the charts adds, and whether the role has them; nil if it adds none: then
// AWS is not queried. That is so unless the version is raised.
func (s *Step) Rights(ctx context.Context) (*Rights, error) {
	if s.Karpenter.Management == render.External || s.Karpenter.Version == "" || s.karpenterStatus() == nil {
		return nil, nil
	}
	from, err := s.inForce(ctx)
	if err != nil || from == "" || !karpenter.Newer(s.Karpenter.Version, from) {
		return nil, err
	}
	return s.rightsSince(ctx, from)
}

// rightsSince is Rights for an upgrade from a version.
func (s *Step) rightsSince(ctx context.Context, from string) (*Rights, error) {
	needs, err := karpenter.Permissions(from, s.Karpenter.Version)
	if err != nil || len(needs) == 0 || !karpenter.KnowsPermissions(s.Karpenter.Version) {
		return nil, err
	}
	identity, err := s.Identity()
	if err != nil {
		return nil, err
	}
	last, change := &s.Memory.rights, s.changeGated(identity)
	if last.rights != nil && last.change == change && !s.Requested && !finding.Due(s.Now, last.at, rightsGoodFor) {
		return last.rights, nil
	}
	k := s.Karpenter.Cluster
	r := &Rights{From: from, To: s.Karpenter.Version, Needs: needs, Command: fmt.Sprintf(
		"plumbline iam-policy --cluster %s --region %s --version %s -o terraform", k.Name, k.Region, s.Karpenter.Version)}
	s.judge(ctx, r)
	*last = readRights{change: change, at: s.Now, rights: r}
	return r, nil
}

// judge reads the role, and compares its policies with what the upgrade adds.
func (s *Step) judge(ctx context.Context, r *Rights) {
	if s.Grant == nil {
		r.NotAsked, r.Unread = true, "AWS was not queried"
		return
	}
	at := s.Karpenter.Cluster
	account := s.ControllerAccount(ctx)
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	grant, err := s.Grant(ctx, at.Name, at.Region, account)
	if r.Role = grant.RoleARN; err != nil {
		r.Unread = unreadWords(err)
		return
	}
	if r.Role == "" {
		r.Unread = fmt.Sprintf("ServiceAccount %s/%s has no role, neither by EKS Pod Identity nor by cluster.controllerRole or its annotation",
			account.Namespace, account.Name)
		return
	}
	if grant.Role.ARN != r.Role {
		r.Unread = fmt.Sprintf("role %s is not in the account of plumbline's credentials, which has %s", r.Role, grant.Role.ARN)
		return
	}
	policies, limits, err := preflight.Documents(grant)
	if err != nil {
		r.Unread = err.Error()
		return
	}
	cluster := iam.Cluster{Name: at.Name, Region: at.Region, Account: accountOf(r.Role), Queue: at.InterruptionQueue}
	if r.Findings, err = iam.JudgeUpgrade(policies, r.From, r.To, cluster, limits...); err != nil {
		r.Unread = err.Error()
	}
}

// unreadWords names the calls that AWS denied, or the error.
func unreadWords(err error) string {
	denied := cloud.DeniedCalls(err)
	if len(denied) == 0 {
		return err.Error()
	}
	actions := make([]string, 0, len(denied))
	for _, one := range denied {
		actions = append(actions, one.Action)
	}
	return "AWS denies " + strings.Join(actions, ", ")
}

// accountOf returns the account in an ARN.
func accountOf(arn string) string {
	const account = 4
	if parts := strings.Split(arn, ":"); len(parts) > account {
		return parts[account]
	}
	return ""
}

// ControllerAccount returns the ServiceAccount of Karpenter's controller: as Git defines it, and with the role in its
// annotation in the cluster if Git has none. Its name is that of the chart's templates/_helpers.tpl.
func (s *Step) ControllerAccount(ctx context.Context) cloud.ServiceAccount {
	of := func(path ...string) string {
		text, _, _ := unstructured.NestedString(s.Values.Merged, path...)
		return text
	}
	account := cloud.ServiceAccount{
		Namespace: s.Karpenter.Namespace, Name: cmp.Or(of("serviceAccount", "name"), of("fullnameOverride"), charts.ControllerChart),
		RoleARN: cmp.Or(s.Karpenter.Cluster.ControllerRole, of("serviceAccount", "annotations", cloud.RoleAnnotation)),
	}
	if account.RoleARN == "" {
		live := &corev1.ServiceAccount{}
		if err := s.View.Uncached.Get(ctx, client.ObjectKey{Namespace: account.Namespace, Name: account.Name}, live); err == nil {
			account.RoleARN = live.Annotations[cloud.RoleAnnotation]
		} // otherwise an association counts
	}
	return account
}

// checkRights refuses an upgrade if the role of Karpenter's controller does not allow what the version needs, and holds it if
// that is unknown and plumbline.yaml does not accept this.
func (s *Step) checkRights(ctx context.Context) error {
	r, err := s.Rights(ctx)
	if err != nil || r == nil || r.NotAsked {
		return err
	}
	var missing []iam.Finding
	var unknown []string
	for _, f := range r.Findings {
		switch {
		case !f.Needed(s.Values.Merged):
		case f.Kind == iam.Missing:
			missing = append(missing, f)
		default:
			unknown = append(unknown, f.Message)
		}
	}
	if len(missing) > 0 {
		return &iam.MissingError{Version: r.To, Role: r.Role, Findings: missing}
	}
	reason, actions := cmp.Or(r.Unread, strings.Join(unknown, "; ")), s.neededActions(r.Needs)
	if reason == "" || len(actions) == 0 || s.Karpenter.AcceptUnread == render.UnreadIAM {
		return nil
	}
	return &iam.UnreadError{Version: r.To, Actions: actions, Reason: reason}
}

// neededActions returns the permissions that this installation needs, given the values of Karpenter's chart.
func (s *Step) neededActions(all []karpenter.Permission) []string {
	var actions []string
	for _, p := range all {
		if p.Needed(s.Values.Merged) {
			actions = append(actions, p.Action)
		}
	}
	return actions
}
