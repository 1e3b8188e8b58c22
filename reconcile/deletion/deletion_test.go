package deletion_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
)

// cluster contains the policies, and may refuse to return them.
type cluster struct {
	client.Client
	refuses error
	reads   int
	// denied are the names of policies that RBAC does not allow to read.
	denied []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, g := range wanted(t, setup) {
		objects = append(objects, g.Policy, g.Binding)
	}
	c := &cluster{}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, of client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if c.reads++; c.refuses != nil {
				return c.refuses
			}
			if slices.Contains(c.denied, key.Name) {
				return apierrors.NewForbidden(schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}, key.Name, errors.New("no"))
			}
			return of.Get(ctx, key, object, options...)
		},
	}).Build()
	return c
}

// TestLook checks that a removed policy is reported, and that its return is noticed, each at the next look. A look is
// valid for a while, for all NodeSyncs.
func TestLook(t *testing.T) {
	c, asker, now := newCluster(t), &deletion.Checker{}, time.Unix(1_000_000, 0)
	look := func(forward time.Duration) deletion.Answer {
		now = now.Add(forward)
		return asker.Look(t.Context(), c, setup, now)
	}
	if a := look(0); a.Words() != "" || a.Reason() != "" || !a.Known {
		t.Fatalf("all is there, and it says %q", a.Words())
	}
	reads := c.reads
	look(5 * time.Second)
	if c.reads != reads {
		t.Errorf("%d reads after five seconds", c.reads-reads)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "plumbline-guard-crds"}, binding); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if a := look(time.Minute); a.Reason() != v1alpha1.ReasonGuardMissing || !strings.Contains(a.Words(), "the ValidatingAdmissionPolicyBinding plumbline-guard-crds is missing: apply manifests/guard") {
		t.Errorf("%s: %q", a.Reason(), a.Words())
	}
	more := deletion.Answer{Missing: []string{"the policy a is missing", "the policy b is missing"}, Altered: []string{"the policy c was altered: spec.validations"}}
	if words := more.Words(); words != "the policy a is missing, and 2 other policies or bindings are missing or altered: apply manifests/guard" {
		t.Errorf("many: %q", words)
	}
	if details := more.Details(); !strings.Contains(details, "the policy c was altered: spec.validations: apply manifests/guard") || !strings.Contains(details, "--deletion-guard=false") {
		t.Errorf("details: %q", details)
	}
	binding.ResourceVersion, binding.Spec.ValidationActions = "", []admissionv1.ValidationAction{admissionv1.Warn}
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if a := look(time.Minute); a.Reason() != v1alpha1.ReasonGuardAltered || !strings.Contains(a.Words(), "plumbline-guard-crds was altered: spec.validationActions is [Warn]") {
		t.Errorf("%s: %q", a.Reason(), a.Words())
	}
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	if err := c.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if a := look(time.Minute); a.Words() != "" {
		t.Errorf("restored, and it says %q", a.Words())
	}
	for _, name := range []string{"plumbline-charts-pods", "plumbline-guard-nodesyncs"} {
		limit := &admissionv1.ValidatingAdmissionPolicy{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, limit); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		if a := look(time.Minute); a.Words() != "" || a.ChartsReason() != v1alpha1.ReasonChartPoliciesMissing || !strings.Contains(a.ChartsMessage(), name+" is missing: apply manifests/core and manifests/rbac-charts") {
			t.Errorf("%s: %q, %s: %q", name, a.Words(), a.ChartsReason(), a.ChartsMessage())
		}
		limit.ResourceVersion = ""
		if err := c.Create(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		look(time.Minute)
	}
	if a := look(-time.Hour); a.Words() != "" { // the clock was set back
		t.Errorf("it says %q", a.Words())
	}
}

// TestOnePolicyThatMayNotBeRead checks that only this one is unknown, and that the others are compared: the role is of an older version,
// which did not have it.
func TestOnePolicyThatMayNotBeRead(t *testing.T) {
	const unknown = " differs from what this version installs, because plumbline's role may not read it"
	for name, c := range map[string]struct {
		denied, missing        string
		reason, says           string
		chartsReason, ofCharts string
	}{
		"of the deletion guard": {
			denied: "plumbline-guard-crds", reason: v1alpha1.ReasonGuardUnknown, says: "unknown whether ValidatingAdmissionPolicy plumbline-guard-crds" + unknown,
		},
		"another one is missing": {
			denied: "plumbline-guard-crds", missing: "plumbline-guard-ownership", reason: v1alpha1.ReasonGuardMissing,
			says: "the ValidatingAdmissionPolicy plumbline-guard-ownership is missing: apply manifests/guard; unknown whether ValidatingAdmissionPolicy plumbline-guard-crds" + unknown,
		},
		"of the limits": {
			denied: "plumbline-charts-pods", chartsReason: v1alpha1.ReasonChartPoliciesUnknown, ofCharts: "unknown whether ValidatingAdmissionPolicy plumbline-charts-pods" + unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			if c.missing != "" {
				policy := &admissionv1.ValidatingAdmissionPolicy{}
				policy.Name = c.missing
				if err := cluster.Delete(t.Context(), policy); err != nil {
					t.Fatal(err)
				}
			}
			cluster.denied = []string{c.denied}
			a := (&deletion.Checker{}).Look(t.Context(), cluster, setup, time.Unix(1_000_000, 0))
			if !a.Known || a.Unread != "" || a.Reason() != c.reason || !strings.HasPrefix(a.Words(), c.says) || (c.says == "") != (a.Words() == "") {
				t.Errorf("known: %t, %s: %q, want %s: %q", a.Known, a.Reason(), a.Words(), c.reason, c.says)
			}
			if a.ChartsReason() != c.chartsReason || !strings.HasPrefix(a.ChartsMessage(), c.ofCharts) || (c.ofCharts == "") != (a.ChartsMessage() == "") {
				t.Errorf("%s: %q, want %s: %q", a.ChartsReason(), a.ChartsMessage(), c.chartsReason, c.ofCharts)
			}
			if !strings.Contains(a.Details()+a.ChartsDetails(), unknown) {
				t.Errorf("details: %q, %q", a.Details(), a.ChartsDetails())
			}
		})
	}
}

// TestWhatCannotBeRead checks that unreadable policies are not reported as missing. While the API server is temporarily
// unavailable, the previous result remains.
func TestWhatCannotBeRead(t *testing.T) {
	resource := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	for name, c := range map[string]struct {
		err   error
		knows bool
		says  string
	}{
		"forbidden":        {err: apierrors.NewForbidden(resource, "plumbline-guard-crds", errors.New("no")), says: "forbidden"},
		"forbidden, later": {err: apierrors.NewForbidden(resource, "plumbline-guard-crds", errors.New("no")), knows: true, says: "forbidden"},
		"an old server":    {err: &meta.NoKindMatchError{}, says: "which are of Kubernetes 1.30"},
		"away":             {err: errors.New("connection refused"), says: "connection refused"},
		"away for a while": {err: errors.New("connection refused"), knows: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, asker, now := newCluster(t), &deletion.Checker{}, time.Unix(1_000_000, 0)
			if c.knows {
				asker.Look(t.Context(), cluster, setup, now)
			}
			cluster.refuses = c.err
			a := asker.Look(t.Context(), cluster, setup, now.Add(time.Minute))
			if got := a.Words(); !strings.Contains(got, c.says) || (c.says == "") != (got == "") {
				t.Errorf("it says %q, want %q", got, c.says)
			}
			if a.Unread != "" != (a.Reason() == v1alpha1.ReasonGuardUnknown) {
				t.Errorf("reason %q for %q", a.Reason(), a.Unread)
			}
		})
	}
}
