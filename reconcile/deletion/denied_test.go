package deletion_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/deletion"
)

// blue is a ServiceAccount of Karpenter's that the manifests do not list.
const blue = "system:serviceaccount:karpenter:blue"

// TestDeny compares the policy with the ServiceAccount that Karpenter's controller runs under. What cannot be compared is unknown.
func TestDeny(t *testing.T) {
	const denies = "ValidatingAdmissionPolicy/plumbline-guard-finalizers denies " + blue
	list := func(expression string) func(*deletion.Guard) {
		return func(g *deletion.Guard) {
			for i := range g.Policy.Spec.Variables {
				if g.Policy.Spec.Variables[i].Name == "karpenterAccounts" {
					g.Policy.Spec.Variables[i].Expression = expression
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*deletion.Guard)
		account string
		want    string
	}{
		"the account of the chart":  {account: "system:serviceaccount:karpenter:karpenter"},
		"another account":           {account: blue, want: denies},
		"one of the same name":      {account: "system:serviceaccount:payments:karpenter", want: "denies system:serviceaccount:payments:karpenter"},
		"another one that is added": {account: blue, change: list(`["system:serviceaccount:karpenter:karpenter", "` + blue + `"]`)},
		"no policy":                 {account: blue, change: func(g *deletion.Guard) { g.Policy = nil }},
		"no binding":                {account: blue, change: func(g *deletion.Guard) { g.Binding = nil }},
		"it only warns": {account: blue, change: func(g *deletion.Guard) {
			g.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		}},
		"an older policy": {account: blue, change: func(g *deletion.Guard) { g.Policy.Spec.Variables = nil }, want: "is unknown: the policy has no variable karpenterAccounts"},
		"an expression":   {account: blue, change: list("request.userInfo.groups"), want: "is unknown: the policy's variable karpenterAccounts is not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			live := finalizers(t)
			if c.change != nil {
				c.change(&live)
			}
			denial := deletion.Deny(live, []string{c.account})
			if got := denial.Message(); !denial.Looked || !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// TestKarpentersAccountsAreTheClusters: another list of ServiceAccounts is no alteration; anything else in its place is.
func TestKarpentersAccountsAreTheClusters(t *testing.T) {
	for expression, altered := range map[string]bool{
		`["` + blue + `"]`:             false,
		`[]`:                           false,
		`["system:serviceaccounts"]`:   true,
		`["kubernetes-admin"]`:         true,
		`["system:serviceaccount:a"]`:  true,
		`[request.userInfo.username]`:  true,
		`["system:serviceaccount:a:"]`: true,
	} {
		want, live := finalizers(t), finalizers(t)
		for i := range live.Policy.Spec.Variables {
			if live.Policy.Spec.Variables[i].Name == "karpenterAccounts" {
				live.Policy.Spec.Variables[i].Expression = expression
			}
		}
		if words, _ := deletion.Compare(want, live); (words != "") != altered {
			t.Errorf("%s: %q", expression, words)
		}
	}
}

func finalizers(t *testing.T) deletion.Guard {
	t.Helper()
	for _, g := range wanted(t, setup) {
		if g.Policy.Name == deletion.FinalizerPolicy {
			return g
		}
	}
	t.Fatal("there is no policy of finalizers")
	return deletion.Guard{}
}

// TestDenied: what cannot be read is unknown, an API server without such policies denies nothing, and the answer is kept for a moment.
func TestDenied(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, deletion.FinalizerPolicy, errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"read":          {want: "denies " + blue},
		"forbidden":     {err: forbidden, want: "is unknown: "},
		"away":          {err: errors.New("connection refused"), want: "connection refused"},
		"an old server": {err: &meta.NoKindMatchError{}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.refuses = c.err
			got := (&deletion.Asker{}).Denied(t.Context(), cluster, []string{blue}).Message()
			if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
	var nobody *deletion.Asker
	if d := nobody.Denied(t.Context(), nil, nil); d.Looked {
		t.Error("nobody has looked")
	}
	cluster, asker, now := newCluster(t), &deletion.Asker{WithoutGuard: true}, time.Unix(1_000_000, 0)
	asker.DeniedLately(t.Context(), cluster, []string{blue}, now)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: deletion.FinalizerPolicy}, binding); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if d := asker.DeniedLately(t.Context(), cluster, []string{blue}, now.Add(time.Second)); len(d.Accounts) != 1 {
		t.Errorf("it was read again after a second: %+v", d)
	}
	if d := asker.DeniedLately(t.Context(), cluster, []string{blue}, now.Add(time.Minute)); len(d.Accounts) != 0 {
		t.Errorf("it was not read again after a minute: %+v", d)
	}
}
