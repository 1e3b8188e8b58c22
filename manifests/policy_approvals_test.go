package manifests

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestAnApprovalRecordsItsAuthor: it records the user, their UID and what EKS knows of an IAM principal, and nothing
// else.
func TestAnApprovalRecordsItsAuthor(t *testing.T) {
	p := compile(t)
	approval := func(fields string) string {
		return "{apiVersion: plumbline.dev/v1alpha1, kind: Approval, metadata: {name: a, namespace: plumbline-system}, spec: {nodeSync: prod, " + fields + "}}"
	}
	const role, uid = "arn:aws:iam::111122223333:role/ops", "aws-iam-authenticator:111122223333:AROA"
	extra := map[string][]string{"canonicalArn": {role}, "sessionName": {"ann"}, "authentication.kubernetes.io/credential-id": {"x"}}
	oidc, iam := &user.DefaultInfo{Name: "ann"}, &user.DefaultInfo{Name: "ann", UID: uid, Extra: extra}
	const wrongAuthor, wrongUID, wrongExtra = "spec.author must be your user name", "spec.authorUID must be your UID", "spec.authorExtra must be"
	for name, c := range map[string]struct {
		by   user.Info
		spec string
		want string
	}{
		"by OIDC":                 {by: oidc, spec: "author: ann"},
		"in another name":         {by: oidc, spec: "author: ben", want: wrongAuthor},
		"with a UID of another":   {by: oidc, spec: "author: ann, authorUID: '7'", want: wrongUID},
		"with a role of another":  {by: oidc, spec: "author: ann, authorExtra: {canonicalArn: ['" + role + "']}", want: wrongExtra},
		"by IAM":                  {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann]}"},
		"without the UID":         {by: iam, spec: "author: ann, authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann]}", want: wrongUID},
		"without the role":        {by: iam, spec: "author: ann, authorUID: '" + uid + "'", want: wrongExtra},
		"with another session":    {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ben]}", want: wrongExtra},
		"without the session":     {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "']}", want: wrongExtra},
		"with a session more":     {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann, ben]}", want: wrongExtra},
		"with an access key more": {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann], accessKeyId: [x]}", want: wrongExtra},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			messages := p.denied(write{operation: admission.Create, resource: "approvals", object: parse(t, approval(c.spec)), by: c.by})
			if all := strings.Join(messages, "; "); !strings.Contains(all, c.want) || c.want == "" && all != "" {
				t.Errorf("denied %q, want %q", messages, c.want)
			}
		})
	}
}
