package manifests

import (
	"testing"

	"k8s.io/apiserver/pkg/admission"
)

// TestThePoliciesOnTheIAMRole: Karpenter's IAM role stays as it is, and its ServiceAccount is created without one, unless RBAC
// lets plumbline use the role.
func TestThePoliciesOnTheIAMRole(t *testing.T) {
	p := compile(t)
	const (
		none   = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system}}"
		mine   = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system, annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/karpenter'}}}"
		noted  = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system, annotations: {a: b, eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/karpenter'}}}"
		theirs = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system, annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/admin'}}}"
	)
	for name, c := range map[string]struct {
		before, after, mayUse string
		denied                bool
	}{
		"created with one":           {"", mine, "", true},
		"created with one that is":   {"", mine, "arn:aws:iam::1:role/karpenter", false},
		"created without":            {"", none, "", false},
		"as it was":                  {mine, noted, "", false},
		"without, as it was":         {none, none, "", false},
		"another":                    {mine, theirs, "", true},
		"one where there was none":   {none, theirs, "", true},
		"none where there was one":   {mine, none, "", true},
		"another that may be":        {mine, theirs, "arn:aws:iam::1:role/admin", false},
		"another than what may be":   {mine, theirs, "arn:aws:iam::1:role/karpenter", true},
		"one that may be, from none": {none, mine, "arn:aws:iam::1:role/karpenter", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			w := write{operation: admission.Create, resource: "serviceaccounts", object: parse(t, c.after), mayUse: c.mayUse}
			if c.before != "" {
				w.operation, w.old = admission.Update, parse(t, c.before)
			}
			if messages := p.denied(w); (len(messages) > 0) != c.denied {
				t.Errorf("denied %q", messages)
			}
		})
	}
}
