package manifests

import (
	"fmt"
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
		"with a long UID":         {by: oidc, spec: "author: ann, uid: " + strings.Repeat("u", 254), want: "spec.uid must not be longer than 253"},
		"in another name":         {by: oidc, spec: "author: ben", want: wrongAuthor},
		"with a UID of another":   {by: oidc, spec: "author: ann, authorUID: '7'", want: wrongUID},
		"with a role of another":  {by: oidc, spec: "author: ann, authorExtra: {canonicalArn: ['" + role + "']}", want: wrongExtra},
		"by IAM":                  {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann]}"},
		"without the UID":         {by: iam, spec: "author: ann, authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann]}", want: wrongUID},
		"without the role":        {by: iam, spec: "author: ann, authorUID: '" + uid + "'", want: wrongExtra},
		"with another session":    {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ben]}", want: wrongExtra},
		"without the session":     {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "']}", want: wrongExtra},
		"with a session more":     {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann, ben]}", want: wrongExtra},
		"with another key":        {by: iam, spec: "author: ann, authorUID: '" + uid + "', authorExtra: {canonicalArn: ['" + role + "'], sessionName: [ann], x: [y]}", want: "no keys other than arn"},
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

// TestAnApprovalHasLittleMetadata: none that keeps it, and only so much that it cannot fill the API server; an update that leaves
// what is there, or takes a finalizer away, passes.
func TestAnApprovalHasLittleMetadata(t *testing.T) {
	p := compile(t)
	approval := func(metadata string) string {
		return "{apiVersion: plumbline.dev/v1alpha1, kind: Approval, metadata: {name: a, namespace: plumbline-system, " + metadata + "}, spec: {nodeSync: prod, author: ann}}"
	}
	many := func(field string, n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf("k%d: v", i)
		}
		return field + ": {" + strings.Join(entries, ", ") + "}"
	}
	annotation := func(n int) string { return "annotations: {k: " + strings.Repeat("x", n) + "}" }
	const finalizers, labels, annotations = "must not have finalizers", "more than 16 labels", "more than 16 annotations, with at most 4096 bytes each"
	owner := "ownerReferences: [{apiVersion: v1, kind: Namespace, name: a, uid: a}]"
	for name, c := range map[string]struct{ before, now, want string }{
		"none":                     {now: ""},
		"a few":                    {now: many("labels", 16) + ", " + many("annotations", 16)},
		"what kubectl apply adds":  {now: annotation(4096)},
		"many labels":              {now: many("labels", 17), want: labels},
		"many annotations":         {now: many("annotations", 17), want: annotations},
		"a long annotation":        {now: annotation(4097), want: annotations},
		"of longer characters":     {now: "annotations: {k: " + strings.Repeat("é", 2049) + "}", want: annotations},
		"an owner":                 {now: owner, want: "must not have owner references"},
		"a finalizer":              {now: "finalizers: [example.com/a]", want: finalizers},
		"a finalizer more":         {before: "finalizers: [example.com/a]", now: "finalizers: [example.com/a, example.com/b]", want: finalizers},
		"an annotation more":       {before: many("annotations", 17), now: many("annotations", 18), want: annotations},
		"what was there":           {before: owner + ", " + many("labels", 17) + ", " + many("annotations", 17), now: owner + ", " + many("labels", 17) + ", " + many("annotations", 17)},
		"a finalizer that goes":    {before: "finalizers: [example.com/a], " + annotation(5000), now: annotation(5000)},
		"annotations that grow up": {before: "uid: a", now: annotation(4097), want: annotations},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			w := write{operation: admission.Create, resource: "approvals", object: parse(t, approval(c.now)), by: &user.DefaultInfo{Name: "ann"}}
			if c.before != "" {
				w.operation, w.old = admission.Update, parse(t, approval(c.before))
			}
			messages := p.denied(w)
			if all := strings.Join(messages, "; "); !strings.Contains(all, c.want) || c.want == "" && all != "" {
				t.Errorf("denied %q, want %q", messages, c.want)
			}
		})
	}
}
