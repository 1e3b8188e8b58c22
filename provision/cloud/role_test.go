package cloud

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// roles implements the needed parts of IAM and EKS: the role karpenter with a policy of its own and an attached one.
type roles struct {
	// associated reports whether kube-system/karpenter has a Pod Identity association; target is its second role.
	associated bool
	target     string
	// denies are the actions that are denied, in IAM's format.
	denies []string
	// asked are the actions so far.
	asked []string
}

const (
	trustText    = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	ownText      = `{"Statement":[{"Effect":"Allow","Action":"ec2:DescribeSubnets","Resource":"*"}]}`
	attachedText = `{"Statement":[{"Effect":"Allow","Action":"pricing:GetProducts","Resource":"*"}]}`
	controllerID = "arn:aws:iam::111122223333:role/team/karpenter"
)

func (r *roles) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if strings.HasPrefix(request.URL.Path, "/clusters/") {
		r.eks(w, request)
		return
	}
	form, ok := formOf(w, request)
	if !ok {
		return
	}
	action := form.Get("Action")
	r.asked = append(r.asked, action)
	switch {
	case slices.Contains(r.denies, "iam:"+action):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>User: x is not authorized to perform: iam:%s on resource: role karpenter because no identity-based policy allows the action</Message></Error></ErrorResponse>`, action)
		return
	case form.Has("RoleName") && form.Get("RoleName") != "karpenter":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>The role cannot be found.</Message></Error></ErrorResponse>`)
		return
	}
	result := map[string]string{
		"GetCallerIdentity":        `<Account>111122223333</Account>`,
		"GetRole":                  `<Role><Arn>` + controllerID + `</Arn><AssumeRolePolicyDocument>` + encoded(trustText) + `</AssumeRolePolicyDocument><PermissionsBoundary><PermissionsBoundaryArn>arn:aws:iam::111122223333:policy/limit</PermissionsBoundaryArn></PermissionsBoundary><Tags><member><Key>team</Key><Value>nodes</Value></member></Tags></Role>`,
		"ListRolePolicies":         `<PolicyNames><member>own</member></PolicyNames><IsTruncated>false</IsTruncated>`,
		"GetRolePolicy":            `<PolicyDocument>` + encoded(ownText) + `</PolicyDocument>`,
		"ListAttachedRolePolicies": `<AttachedPolicies><member><PolicyName>prices</PolicyName><PolicyArn>arn:aws:iam::111122223333:policy/prices</PolicyArn></member></AttachedPolicies><IsTruncated>false</IsTruncated>`,
		"GetPolicy":                `<Policy><DefaultVersionId>v3</DefaultVersionId></Policy>`,
		"GetPolicyVersion":         `<PolicyVersion><Document>` + encoded(attachedText) + `</Document></PolicyVersion>`,
	}[action]
	if action == "GetPolicyVersion" && form.Get("VersionId") != "v3" {
		result = "not the default version"
	}
	fmt.Fprintf(w, `<%sResponse><%sResult>%s</%sResult></%sResponse>`, action, action, result, action, action)
}

// encoded percent-encodes a policy like IAM.
func encoded(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(url.PathEscape(text))) // a strings.Builder returns no error
	return b.String()
}

func (r *roles) eks(w http.ResponseWriter, request *http.Request) {
	action := "ListPodIdentityAssociations"
	answer := `{"associations":[]}`
	switch _, id, described := strings.Cut(request.URL.Path, "/pod-identity-associations/"); {
	case described:
		action = "DescribePodIdentityAssociation"
		answer = fmt.Sprintf(`{"association":{"associationArn":%q,"roleArn":%q,"targetRoleArn":%q}}`, id, controllerID, r.target)
	case r.associated && request.URL.Query().Get("serviceAccount") == "karpenter" && request.URL.Query().Get("namespace") == "kube-system":
		answer = `{"associations":[{"associationId":"a-1"}]}`
	}
	r.asked = append(r.asked, action)
	if slices.Contains(r.denies, "eks:"+action) {
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"message":"User: x is not authorized to perform: eks:%s on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo"}`, action)
		return
	}
	fmt.Fprint(w, answer)
}

func TestGrant(t *testing.T) {
	policies := []RolePolicy{
		{Name: "own", Text: ownText},
		{Name: "prices", ARN: "arn:aws:iam::111122223333:policy/prices", Text: attachedText},
	}
	whole := Role{ARN: controllerID, Tags: map[string]string{"team": "nodes"}, Trust: trustText, Boundary: &RolePolicy{Name: "limit", ARN: "arn:aws:iam::111122223333:policy/limit", Text: attachedText}, Policies: policies}
	by := &Association{ARN: "a-1", RoleARN: controllerID}
	const other = "arn:aws:iam::444455556666:role/other"
	for name, c := range map[string]struct {
		account   roles
		annotated string
		want      Grant
		denied    []string
		missing   string
	}{
		"an annotation":           {annotated: controllerID, want: Grant{RoleARN: controllerID, Role: whole}},
		"an association":          {account: roles{associated: true}, want: Grant{RoleARN: controllerID, Role: whole, Association: by}},
		"both":                    {account: roles{associated: true}, annotated: other, want: Grant{RoleARN: controllerID, Role: whole, Association: by}},
		"neither":                 {},
		"a role that is not here": {annotated: other, want: Grant{RoleARN: other, Role: Role{ARN: other}}, missing: "IAM role other"},
		"a second role": {
			account: roles{associated: true, target: other},
			want:    Grant{RoleARN: other, Role: Role{ARN: other}, Association: &Association{ARN: "a-1", RoleARN: controllerID, TargetRoleARN: other}},
			missing: "IAM role other",
		},
		"lists that are denied": {
			account: roles{denies: []string{"iam:ListRolePolicies", "iam:GetPolicyVersion"}}, annotated: controllerID,
			want: Grant{RoleARN: controllerID, Role: Role{
				ARN: controllerID, Tags: whole.Tags, Trust: trustText, Boundary: &RolePolicy{Name: "limit", ARN: "arn:aws:iam::111122223333:policy/limit"},
			}},
			denied: []string{"iam:GetPolicyVersion", "iam:ListRolePolicies", "iam:GetPolicyVersion"},
		},
		"associations that are denied": {
			account: roles{denies: []string{"eks:ListPodIdentityAssociations"}}, annotated: controllerID,
			denied: []string{"eks:ListPodIdentityAssociations"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, &c.account, Options{Attempts: 1})
			got, err := client.Grant(t.Context(), "demo", ServiceAccount{Namespace: "kube-system", Name: "karpenter", RoleARN: c.annotated})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("grant (-want +got):\n%s", diff)
			}
			var denied []string
			for _, one := range DeniedCalls(err) {
				denied = append(denied, one.Action)
			}
			if diff := cmp.Diff(c.denied, denied); diff != "" {
				t.Errorf("denied calls (-want +got):\n%s", diff)
			}
			var missing *NotFoundError
			if errors.As(err, &missing) != (c.missing != "") || missing != nil && missing.What != c.missing {
				t.Errorf("error is %v, want one about %q", err, c.missing)
			}
			if err != nil && c.denied == nil && c.missing == "" {
				t.Error(err)
			}
		})
	}
}

// TestGrantRequests: one lookup takes four requests, one more for an association and for each policy in the role, and two for
// each attached policy and for a boundary: docs/explanation/cost-and-footprint.md.
func TestGrantRequests(t *testing.T) {
	account := &roles{associated: true}
	if _, err := connect(t, account, Options{Attempts: 1}).Grant(t.Context(), "demo", ServiceAccount{Namespace: "kube-system", Name: "karpenter"}); err != nil {
		t.Fatal(err)
	}
	if want := 4 + 1 + 1 + 2 + 2; len(account.asked) != want {
		t.Errorf("%d requests, want %d: %q", len(account.asked), want, account.asked)
	}
}
