package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

const controllerRole = "arn:aws:iam::111122223333:role/karpenter"

// account answers about the role of a ServiceAccount.
type account struct {
	grant cloud.Grant
	err   error
	// asked are the ServiceAccounts so far.
	asked []cloud.ServiceAccount
}

func (a *account) read(_ context.Context, cluster, region string, of cloud.ServiceAccount) (cloud.Grant, error) {
	a.asked = append(a.asked, of)
	if cluster != "prod" || region != "eu-west-1" {
		return cloud.Grant{}, errors.New("another cluster")
	}
	return a.grant, a.err
}

// grantOf returns the role of a controller whose policies are those of a version.
func grantOf(t *testing.T, version string) cloud.Grant {
	t.Helper()
	policies, err := iam.Controller(version, iam.Cluster{Name: "prod", Region: "eu-west-1", Account: "111122223333"})
	if err != nil {
		t.Fatal(err)
	}
	grant := cloud.Grant{RoleARN: controllerRole, Role: cloud.Role{ARN: controllerRole}}
	for _, p := range policies {
		text, err := json.Marshal(p.Document)
		if err != nil {
			t.Fatal(err)
		}
		grant.Role.Policies = append(grant.Role.Policies, cloud.RolePolicy{Name: p.Name, Text: string(text)})
	}
	return grant
}

// upgrading returns the Step of a reconcile in which Git raises the version.
func (b *bed) upgrading(a *account, from, to string) *Step {
	s := b.step()
	s.Karpenter = &render.Karpenter{
		Management: render.Managed, Version: to, Namespace: "kube-system", Cluster: render.Cluster{Name: "prod", Region: "eu-west-1"},
	}
	s.Charts = &charts.Charts{Version: to, CRDDigest: "sha256:c" + to, Digest: "sha256:d" + to}
	s.Sync.Status.Karpenter.Version, s.Grant = from, a.read
	if from != "" {
		s.Sync.Status.Karpenter.Identity, s.Sync.Status.Karpenter.Controller = "before", &v1alpha1.ReleaseStatus{Version: from}
	}
	return s
}

// TestAnUpgradeNeedsARight: an upgrade does not start if the role of Karpenter's controller lacks what the version adds, or
// if that is unknown and plumbline.yaml does not accept it.
func TestAnUpgradeNeedsARight(t *testing.T) {
	denied := errors.Join(&cloud.DeniedError{Action: "iam:ListRolePolicies", Err: errors.New("no")}, &cloud.DeniedError{Action: "iam:GetPolicyVersion", Err: errors.New("no")})
	for name, c := range map[string]struct {
		account  account
		from, to string
		change   func(*Step)
		reason   string
		want     string
	}{
		"it has them":          {account: account{grant: grantOf(t, "1.14.3")}, from: "1.9.0", to: "1.14.3"},
		"it lacks one":         {account: account{grant: grantOf(t, "1.9.0")}, from: "1.9.0", to: "1.14.3", reason: "Forbidden", want: "karpenter 1.14.3 needs ec2:DescribeInstanceStatus, which role " + controllerRole + " does not allow"},
		"it lacks an optional": {account: account{grant: grantOf(t, "1.14.3")}, from: "1.14.3", to: "1.15.0"},
		"it lacks one that a value needs": {account: account{grant: grantOf(t, "1.14.3")}, from: "1.14.3", to: "1.15.0", change: func(s *Step) {
			s.Values.Merged = map[string]any{"settings": map[string]any{"awsFeatureGates": map[string]any{"rebootForRepair": true}}}
		}, reason: "Forbidden", want: "needs ec2:RebootInstances"},
		"denied":                             {account: account{grant: cloud.Grant{RoleARN: controllerRole}, err: denied}, from: "1.9.0", to: "1.14.3", reason: "Held", want: "is unknown: AWS denies iam:ListRolePolicies, iam:GetPolicyVersion; let plumbline read the role, or, if the role allows it, accept this in plumbline.yaml: acceptUnread: iam"},
		"denied, accepted":                   {account: account{err: denied}, from: "1.9.0", to: "1.14.3", change: func(s *Step) { s.Karpenter.AcceptUnread = render.UnreadIAM }},
		"it lacks one, whatever is accepted": {account: account{grant: grantOf(t, "1.9.0")}, from: "1.9.0", to: "1.14.3", change: func(s *Step) { s.Karpenter.AcceptUnread = render.UnreadIAM }, reason: "Forbidden", want: "ec2:DescribeInstanceStatus"},
		"denied, and nothing is new":         {account: account{err: denied}, from: "1.12.0", to: "1.14.3"},
		"denied, and only optional ones":     {account: account{err: denied}, from: "1.14.3", to: "1.15.0"},
		"no role":                            {from: "1.9.0", to: "1.14.3", reason: "Held", want: "ServiceAccount kube-system/karpenter has no role"},
		"a role of another account":          {account: account{grant: cloud.Grant{RoleARN: controllerRole, Role: cloud.Role{ARN: "arn:aws:iam::444455556666:role/karpenter"}}}, from: "1.9.0", to: "1.14.3", reason: "Held", want: "is not in the account"},
		"the same version":                   {account: account{err: denied}, from: "1.14.3", to: "1.14.3"},
		"a lower version":                    {account: account{err: denied}, from: "1.14.3", to: "1.9.0"},
		"a first install":                    {account: account{err: denied}, to: "1.14.3"},
		"AWS is not asked":                   {from: "1.9.0", to: "1.14.3", change: func(s *Step) { s.Grant = nil }},
		"another tool installs":              {account: account{err: denied}, from: "1.9.0", to: "1.14.3", change: func(s *Step) { s.Karpenter.Management = render.External }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).upgrading(&c.account, c.from, c.to)
			if c.change != nil {
				c.change(s)
			}
			err := s.checkRights(t.Context())
			if (err == nil) != (c.want == "") {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if f := fault.Classify(err); err != nil && (f.Class != fault.Terminal || f.Reason != c.reason || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s %s: %v", f.Class, f.Reason, err)
			}
			if !StaysInForce(s.karpenterStatus(), err) && err != nil && c.from != "" {
				t.Error("the installed release does not stay in force")
			}
		})
	}
}

// TestTheRoleIsReadOnce: the role is read only for an upgrade that adds permissions, and again only after a while, for
// another commit, or if a person requests it.
func TestTheRoleIsReadOnce(t *testing.T) {
	a := &account{grant: grantOf(t, "1.9.0")}
	b := newBed(t)
	check := func(from, to string, change func(*Step), want int) {
		t.Helper()
		s := b.upgrading(a, from, to)
		if change != nil {
			change(s)
		}
		_ = s.checkRights(t.Context()) // what it says is tested above
		if len(a.asked) != want {
			t.Errorf("%s to %s: the role was read %d times, want %d", from, to, len(a.asked), want)
		}
	}
	check("1.14.3", "1.14.3", nil, 0)
	check("1.12.0", "1.14.3", nil, 0)
	check("1.9.0", "1.14.3", nil, 1)
	b.now = b.now.Add(rightsGoodFor / 2)
	check("1.9.0", "1.14.3", nil, 1)
	check("1.9.0", "1.14.3", func(s *Step) { s.Requested = true }, 2)
	check("1.9.0", "1.14.3", func(s *Step) { s.Revision = "main@sha1:2" }, 3)
	b.now = b.now.Add(rightsGoodFor)
	check("1.9.0", "1.14.3", func(s *Step) { s.Revision = "main@sha1:2" }, 4)
}

// TestTheControllersAccount is the one of Git, with the role in the cluster only if Git has none.
func TestTheControllersAccount(t *testing.T) {
	live := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "karpenter", Annotations: map[string]string{cloud.RoleAnnotation: "arn:live"},
	}}
	annotated := map[string]any{"annotations": map[string]any{cloud.RoleAnnotation: "arn:git"}}
	for name, c := range map[string]struct {
		values map[string]any
		role   string
		want   cloud.ServiceAccount
	}{
		"of the cluster":    {nil, "", cloud.ServiceAccount{Namespace: "kube-system", Name: "karpenter", RoleARN: "arn:live"}},
		"of the values":     {map[string]any{"serviceAccount": annotated}, "", cloud.ServiceAccount{Namespace: "kube-system", Name: "karpenter", RoleARN: "arn:git"}},
		"of plumbline.yaml": {nil, "arn:yaml", cloud.ServiceAccount{Namespace: "kube-system", Name: "karpenter", RoleARN: "arn:yaml"}},
		"of another name":   {map[string]any{"serviceAccount": map[string]any{"name": "k"}}, "", cloud.ServiceAccount{Namespace: "kube-system", Name: "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t, live).step()
			s.Values.Merged, s.Karpenter.Cluster.ControllerRole = c.values, c.role
			if diff := cmp.Diff(c.want, s.ControllerAccount(t.Context())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRightsLines: the plan names each new permission, whether the role has it, and the statement to add.
func TestRightsLines(t *testing.T) {
	lines := func(a *account, from, to string, change func(*Step)) string {
		t.Helper()
		s := newBed(t).upgrading(a, from, to)
		if change != nil {
			change(s)
		}
		r, err := s.Rights(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(r.Lines(), "\n")
	}
	if got := lines(&account{}, "1.12.0", "1.14.3", nil); got != "" {
		t.Errorf("nothing is new: %q", got)
	}
	got := lines(&account{grant: grantOf(t, "1.9.0")}, "1.9.0", "1.12.0", nil)
	for _, want := range []string{
		"Karpenter 1.12.0 needs ec2:DescribeInstanceStatus: missing in role " + controllerRole,
		`add to a policy of role ` + controllerRole + `: {"Sid":"ReadEC2","Effect":"Allow","Action":"ec2:DescribeInstanceStatus"`,
		"all policies of that version: plumbline iam-policy --cluster prod --region eu-west-1 --version 1.12.0 -o terraform",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := lines(&account{grant: grantOf(t, "1.12.0")}, "1.11.0", "1.12.0", nil); !strings.Contains(got, "needs ec2:DescribeInstanceStatus: allowed by role "+controllerRole) {
		t.Error(got)
	}
	if got := lines(nil, "1.11.0", "1.12.0", func(s *Step) { s.Grant = nil }); !strings.Contains(got, "the permissions were not checked: AWS was not queried") {
		t.Error(got)
	}
}
