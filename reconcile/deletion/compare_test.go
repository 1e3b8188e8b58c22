package deletion_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/deletion"
)

var setup = deletion.Setup{Namespace: "nodes", Karpenter: "karpenter", Charts: true}

// wanted returns the policies of a cluster as an API server stores them, with its defaults.
func wanted(t *testing.T, s deletion.Setup) []deletion.Guard {
	t.Helper()
	all, err := deletion.Wanted(s)
	if err != nil {
		t.Fatal(err)
	}
	equivalent, scope := admissionv1.Equivalent, admissionv1.AllScopes
	for i := range all {
		p := all[i].Policy
		p.UID, all[i].Binding.UID = "a", "b"
		m := p.Spec.MatchConstraints
		m.MatchPolicy, m.NamespaceSelector = &equivalent, &metav1.LabelSelector{}
		if m.ObjectSelector == nil {
			m.ObjectSelector = &metav1.LabelSelector{}
		}
		for j := range m.ResourceRules {
			m.ResourceRules[j].Scope = &scope
		}
		p.Labels, p.Annotations = map[string]string{"helm.sh/chart": "plumbline"}, map[string]string{"by": "helm"}
	}
	return all
}

// TestWanted checks that Wanted returns all policies of the guard, each with its binding, for the namespaces of the
// cluster.
func TestWanted(t *testing.T) {
	for charts, want := range map[bool]string{
		true: "plumbline-guard-crds plumbline-guard-definitions plumbline-guard-finalizers plumbline-guard-namespaces plumbline-guard-ownership plumbline-guard-charts plumbline-guard-releases " +
			"plumbline-charts-pods plumbline-charts-metadata plumbline-charts-roles plumbline-charts-bindings plumbline-charts-objects plumbline-charts-identity plumbline-charts-crds plumbline-charts-secrets plumbline-charts-handed-on plumbline-guard-nodesyncs",
		false: "plumbline-guard-crds plumbline-guard-definitions plumbline-guard-finalizers plumbline-guard-namespaces plumbline-guard-ownership plumbline-guard-charts plumbline-guard-nodesyncs",
	} {
		s := setup
		s.Charts = charts
		var names []string
		for _, g := range wanted(t, s) {
			if g.Binding == nil || g.Binding.Spec.PolicyName != g.Policy.Name {
				t.Fatalf("%s has the binding %+v", g.Policy.Name, g.Binding)
			}
			names = append(names, g.Policy.Name)
			if g.Policy.Name == "plumbline-guard-namespaces" && !slices.Equal(g.Policy.Spec.MatchConstraints.ResourceRules[0].ResourceNames, []string{"karpenter", "nodes"}) {
				t.Errorf("guarded are %v", g.Policy.Spec.MatchConstraints.ResourceRules)
			}
			if g.Policy.Name == "plumbline-guard-definitions" && !strings.Contains(g.Policy.Spec.MatchConditions[0].Expression, "'system:serviceaccount:nodes:plumbline'") {
				t.Errorf("excepted is %v", g.Policy.Spec.MatchConditions)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("charts %t: %s", charts, got)
		}
	}
}

// TestCompare checks that the API server's defaults, other break-glass groups and more namespaces are no alteration,
// but everything that permits a deletion is.
func TestCompare(t *testing.T) {
	const policy, binding = "the ValidatingAdmissionPolicy plumbline-guard-definitions was altered: ", "the ValidatingAdmissionPolicyBinding plumbline-guard-definitions was altered: "
	ignore, exact := admissionv1.Ignore, admissionv1.Exact
	for name, c := range map[string]struct {
		change func(*deletion.Guard)
		says   string
	}{
		"as it is":                {change: func(*deletion.Guard) {}},
		"other groups":            {change: func(g *deletion.Guard) { g.Policy.Spec.Variables[0].Expression = `["sre", "oncall"]` }},
		"no groups":               {change: func(g *deletion.Guard) { g.Policy.Spec.Variables[0].Expression = `[]` }},
		"everybody":               {change: func(g *deletion.Guard) { g.Policy.Spec.Variables[0].Expression = `["system:authenticated"]` }, says: policy + "spec.variables"},
		"groups by an expression": {change: func(g *deletion.Guard) { g.Policy.Spec.Variables[0].Expression = "request.userInfo.groups" }, says: policy + "spec.variables"},
		"it is audited, too": {change: func(g *deletion.Guard) {
			g.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny}
		}},
		"it is only audited": {change: func(g *deletion.Guard) {
			g.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}, says: binding + "spec.validationActions is [Audit]"},
		"the policy is missing":    {change: func(g *deletion.Guard) { g.Policy = nil }, says: "the ValidatingAdmissionPolicy plumbline-guard-definitions is missing"},
		"the binding is missing":   {change: func(g *deletion.Guard) { g.Binding = nil }, says: "the ValidatingAdmissionPolicyBinding plumbline-guard-definitions is missing"},
		"it fails open":            {change: func(g *deletion.Guard) { g.Policy.Spec.FailurePolicy = &ignore }, says: policy + "spec.failurePolicy is Ignore"},
		"nothing is said of that":  {change: func(g *deletion.Guard) { g.Policy.Spec.FailurePolicy = nil }},
		"it validates less":        {change: func(g *deletion.Guard) { g.Policy.Spec.Validations = nil }, says: policy + "spec.validations"},
		"it validates all as fine": {change: func(g *deletion.Guard) { g.Policy.Spec.Validations[0].Expression = "true" }, says: policy + "spec.validations"},
		"it says it otherwise":     {change: func(g *deletion.Guard) { g.Policy.Spec.Validations[0].Message = "ask the platform team" }},
		"somebody is excepted": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConditions = append(g.Policy.Spec.MatchConditions, admissionv1.MatchCondition{Name: "not-me", Expression: "request.userInfo.username != 'me'"})
		}, says: policy + "spec.matchConditions"},
		"another ServiceAccount": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConditions[0].Expression = strings.ReplaceAll(g.Policy.Spec.MatchConditions[0].Expression, "nodes", "other")
		}, says: policy + "spec.matchConditions"},
		"fewer kinds": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConstraints.ResourceRules = g.Policy.Spec.MatchConstraints.ResourceRules[1:]
		}, says: policy + "spec.matchConstraints"},
		"other operations": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Create}
		}, says: policy + "spec.matchConstraints"},
		"objects of one name": {change: func(g *deletion.Guard) { g.Policy.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a"} }, says: policy + "spec.matchConstraints"},
		"a namespace is left out": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, says: policy + "spec.matchConstraints"},
		"other objects":         {change: func(g *deletion.Guard) { g.Policy.Spec.MatchConstraints.ObjectSelector = nil }, says: policy + "spec.matchConstraints"},
		"one version of a kind": {change: func(g *deletion.Guard) { g.Policy.Spec.MatchConstraints.MatchPolicy = &exact }, says: policy + "spec.matchConstraints"},
		"a rule leaves some out": {change: func(g *deletion.Guard) {
			g.Policy.Spec.MatchConstraints.ExcludeResourceRules = g.Policy.Spec.MatchConstraints.ResourceRules
		}, says: policy + "spec.matchConstraints"},
		"it has parameters":       {change: func(g *deletion.Guard) { g.Policy.Spec.ParamKind = &admissionv1.ParamKind{Kind: "ConfigMap"} }, says: policy + "spec.paramKind"},
		"another policy is bound": {change: func(g *deletion.Guard) { g.Binding.Spec.PolicyName = "another" }, says: binding + "spec.policyName is another"},
		"it is bound to some": {change: func(g *deletion.Guard) {
			g.Binding.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}, says: binding + "spec.matchResources"},
		"it is bound to all": {change: func(g *deletion.Guard) {
			g.Binding.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := deletion.Wanted(setup)
			if err != nil {
				t.Fatal(err)
			}
			live := wanted(t, setup)[1]
			c.change(&live)
			got, altered := deletion.Compare(want[1], live)
			if got != c.says || altered != strings.Contains(c.says, "altered") {
				t.Errorf("it says %q (altered %t), want %q", got, altered, c.says)
			}
		})
	}
	t.Run("more namespaces", func(t *testing.T) {
		want, live := wanted(t, setup)[3], wanted(t, setup)[3]
		rule := &live.Policy.Spec.MatchConstraints.ResourceRules[0]
		rule.ResourceNames = append(rule.ResourceNames, "web")
		if got, _ := deletion.Compare(want, live); got != "" {
			t.Errorf("with one more it says %q", got)
		}
		rule.ResourceNames = []string{"nodes", "web"}
		if got, _ := deletion.Compare(want, live); !strings.Contains(got, "spec.matchConstraints") {
			t.Errorf("with one less it says %q", got)
		}
	})
}

// TestThePoliciesBelowTheDaemon checks that the policies that limit what plumbline writes are compared like the guard,
// even if the guard is not installed on purpose. The allowed images and values may differ between clusters.
func TestThePoliciesBelowTheDaemon(t *testing.T) {
	alone := setup
	alone.WithoutGuard = true
	all := wanted(t, alone)
	if len(all) != 10 || all[0].Policy.Name != "plumbline-charts-pods" {
		t.Fatalf("%d policies", len(all))
	}
	for name, c := range map[string]struct {
		variable, expression string
		altered              bool
	}{
		"other images":  {"images", "['registry.example.com/karpenter/controller']", false},
		"other values":  {"allowed", `["dnsConfig"]`, false},
		"an expression": {"allowed", "request.userInfo.groups", true},
		"every image":   {"images", "[object.spec.template.spec.containers[0].image]", true},
		"no pod":        {"pod", "oldObject.spec.template.spec", true},
	} {
		want, live := wanted(t, alone)[0], wanted(t, alone)[0]
		for i := range live.Policy.Spec.Variables {
			if live.Policy.Spec.Variables[i].Name == c.variable {
				live.Policy.Spec.Variables[i].Expression = c.expression
			}
		}
		if words, _ := deletion.Compare(want, live); (words != "") != c.altered {
			t.Errorf("%s: %q", name, words)
		}
	}
}

// blue is a ServiceAccount of Karpenter that the manifests do not list.
const blue = "system:serviceaccount:karpenter:blue"

// TestDeny compares the policy with the ServiceAccount of Karpenter's controller. If they cannot be compared, the
// result is unknown.
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

// TestKarpentersAccountsAreTheClusters checks that another list of ServiceAccounts is no alteration, but anything else
// in its place is.
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

// TestDenied checks that the result is unknown if the policy cannot be read, that an API server without such policies
// denies nothing, and that the result is cached briefly.
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
			got := (&deletion.Checker{}).Denied(t.Context(), cluster, []string{blue}).Message()
			if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
	var nobody *deletion.Checker
	if d := nobody.Denied(t.Context(), nil, nil); d.Looked {
		t.Error("nobody has looked")
	}
	cluster, asker, now := newCluster(t), &deletion.Checker{WithoutGuard: true}, time.Unix(1_000_000, 0)
	asker.DeniedRecently(t.Context(), cluster, []string{blue}, now)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: deletion.FinalizerPolicy}, binding); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if d := asker.DeniedRecently(t.Context(), cluster, []string{blue}, now.Add(time.Second)); len(d.Accounts) != 1 {
		t.Errorf("it was read again after a second: %+v", d)
	}
	if d := asker.DeniedRecently(t.Context(), cluster, []string{blue}, now.Add(time.Minute)); len(d.Accounts) != 0 {
		t.Errorf("it was not read again after a minute: %+v", d)
	}
}
