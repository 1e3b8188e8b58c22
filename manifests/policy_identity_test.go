package manifests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
)

// TestThePoliciesOnTheIAMRole: Karpenter's IAM role stays the same, and its ServiceAccount is created without one,
// unless RBAC lets plumbline use the role.
func TestThePoliciesOnTheIAMRole(t *testing.T) {
	p := compile(t)
	const (
		none   = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system}}"
		mine   = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system, annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/karpenter'}}}"
		noted  = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: karpenter, namespace: kube-system, annotations: {meta.helm.sh/release-name: karpenter, eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/karpenter'}}}"
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

// TestThePoliciesOnAnnotations: EKS reads from the annotations of Karpenter's ServiceAccount which token AWS gets, so
// they stay the same, unless the policy's variable allowed lists them. So do those of the Service, which other programs
// read.
func TestThePoliciesOnAnnotations(t *testing.T) {
	p := compile(t)
	const (
		none     = "{}"
		helm     = "{meta.helm.sh/release-name: karpenter, meta.helm.sh/release-namespace: kube-system}"
		regional = "{eks.amazonaws.com/sts-regional-endpoints: 'true'}"
	)
	for name, c := range map[string]struct {
		kind, before, after string
		denied              string
	}{
		"created by Helm":              {"ServiceAccount", "", helm, ""},
		"created with an audience":     {"ServiceAccount", "", "{eks.amazonaws.com/audience: nobody}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"an audience":                  {"ServiceAccount", none, "{eks.amazonaws.com/audience: nobody}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"a global endpoint":            {"ServiceAccount", regional, "{eks.amazonaws.com/sts-regional-endpoints: 'false'}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"a short token":                {"ServiceAccount", none, "{eks.amazonaws.com/token-expiration: '1'}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"another program's":            {"ServiceAccount", none, "{iam.gke.io/gcp-service-account: a}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"another release":              {"ServiceAccount", helm, "{meta.helm.sh/release-name: other, meta.helm.sh/release-namespace: kube-system}", "annotations of Karpenter's ServiceAccount other than Helm's"},
		"what an administrator set":    {"ServiceAccount", regional, "{eks.amazonaws.com/sts-regional-endpoints: 'true', meta.helm.sh/release-name: karpenter}", ""},
		"without what EKS reads":       {"ServiceAccount", regional, none, "must not remove the annotations"},
		"without what nobody reads":    {"ServiceAccount", "{a: b}", none, ""},
		"a Service for Prometheus":     {"Service", none, "{prometheus.io/scrape: 'true'}", ""},
		"a Service with a name in DNS": {"Service", none, "{external-dns.alpha.kubernetes.io/hostname: bank.example.com}", "annotations of Karpenter's Service other than"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			object := func(annotations string) *unstructured.Unstructured {
				spec := ""
				if c.kind == "Service" {
					spec = ", spec: {type: ClusterIP, selector: {app.kubernetes.io/name: karpenter}}"
				}
				return parse(t, "{apiVersion: v1, kind: "+c.kind+", metadata: {name: karpenter, namespace: kube-system, annotations: "+annotations+"}"+spec+"}")
			}
			w := write{operation: admission.Create, resource: resources[c.kind], object: object(c.after)}
			if c.before != "" {
				w.operation, w.old = admission.Update, object(c.before)
			}
			messages := strings.Join(p.denied(w), "; ")
			if (messages != "") != (c.denied != "") || !strings.Contains(messages, c.denied) {
				t.Errorf("denied %q, want %q", messages, c.denied)
			}
		})
	}
}
