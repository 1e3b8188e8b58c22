package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestWhatStepsFindMeans: each keeps its class and reason, wrapped or not.
func TestWhatStepsFindMeans(t *testing.T) {
	found := errors.New("secret a does not exist")
	for _, c := range []struct {
		got    *fault.Error
		class  fault.Class
		reason string
	}{
		{fault.SourceFailed(found), fault.Terminal, "SourceFailed"},
		{fault.Unverifiable(found), fault.Terminal, "VerificationError"},
		{fault.ChartFailed(found), fault.Terminal, "ChartFailed"},
		{fault.Refused(found), fault.Terminal, "Refused"},
		{fault.Conflict(found), fault.Terminal, "Conflict"},
		{fault.Held(found), fault.Terminal, "Held"},
		{fault.Stalled(found), fault.Terminal, "Stalled"},
		{fault.UpgradeFailed(found), fault.Terminal, "UpgradeFailed"},
		{fault.StatusNotWritten(found), fault.Transient, "StatusNotWritten"},
		{fault.OlderRevision(found), fault.Transient, "OlderRevision"},
		{fault.Waits(found), fault.Waiting, "Waiting"},
		{fault.CloudUnverified(found), fault.Waiting, "CloudUnverified"},
		{fault.NamespaceTerminating(found), fault.Waiting, "NamespaceTerminating"},
		{fault.ReadAgain(found), fault.Superseded, "Waiting"},
	} {
		for _, err := range []error{c.got, fmt.Errorf("x: %w", c.got)} {
			f := fault.Classify(err)
			if f.Class != c.class || f.Reason != c.reason || !errors.Is(f, found) {
				t.Errorf("%s %s: %v, want %s %s", f.Class, f.Reason, f, c.class, c.reason)
			}
		}
	}
}

// TestMapKeepsTheClass: redacting an error only changes its text.
func TestMapKeepsTheClass(t *testing.T) {
	f := fault.Held(fmt.Errorf("secret-value: %w", errors.New("why")))
	got := f.Map(func(string) string { return "***" })
	if got.Class != f.Class || got.Reason != f.Reason || got.Error() != "***" || got.Brief() != (fault.Brief{What: "***", Cause: "***", Then: "***", Where: "***"}) {
		t.Errorf("%+v", got)
	}
}

const plumbline = "system:serviceaccount:plumbline-system:plumbline"

// cannot returns the API server's error for a missing role.
func cannot(verb, resource, group, where string) error {
	of := schema.GroupResource{Group: group, Resource: resource}
	return apierrors.NewForbidden(of, "a", fmt.Errorf("User %q cannot %s resource %q in API group %q %s", plumbline, verb, resource, group, where))
}

// TestForbiddenNamesTheRule: the condition contains the rule to add.
func TestForbiddenNamesTheRule(t *testing.T) {
	pools := cannot("patch", "nodepools", "karpenter.sh", "at the cluster scope")
	const rule = `: grant ServiceAccount plumbline-system/plumbline the rule {apiGroups: ["karpenter.sh"], resources: ["nodepools"], verbs: ["patch"]} in a ClusterRole`
	cases := map[string]struct {
		err  error
		tail string
	}{
		"in the cluster": {fmt.Errorf("apply NodePool/a: %w", pools), rule},
		"in a namespace": {
			cannot("get", "secrets", "", `in the namespace "team"`),
			`: grant ServiceAccount plumbline-system/plumbline the rule {apiGroups: [""], resources: ["secrets"], verbs: ["get"]} in a Role in namespace team`,
		},
		"many objects, one rule": {errors.Join(pools, pools), rule},
		"two rules": {
			errors.Join(pools, cannot("list", "nodeclaims", "karpenter.sh", "at the cluster scope")),
			`["nodeclaims"], verbs: ["list"]} in a ClusterRole; ` + strings.TrimPrefix(rule, ": "),
		},
		"a chart's words": {&release.ForbiddenError{Refusals: []string{pools.Error()}}, rule},
		"said once":       {fmt.Errorf("see: %w", fault.Classify(pools)), rule},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fault.Classify(c.err)
			if !strings.HasSuffix(got.Error(), c.tail) || strings.Count(got.Error(), c.tail) != 1 {
				t.Errorf("got  %s\nwant %s at its end, once", got, c.tail)
			}
			if got.Class != fault.Terminal {
				t.Errorf("it is %s", got.Class)
			}
		})
	}
	if got := fault.Classify(apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("quota"))); strings.Contains(got.Error(), "rule") {
		t.Errorf("no role is missing, and it says %s", got)
	}
}

// TestAConversionWebhookIsNamed: the condition contains the command to remove it.
func TestAConversionWebhookIsNamed(t *testing.T) {
	failed := func(kind string) error {
		return errors.New("failed to list " + kind + ": conversion webhook for " + kind + ` failed: Post "https://karpenter.kube-system.svc:8443/?timeout=30s": service "karpenter" not found`)
	}
	for kind, crd := range map[string]string{
		"karpenter.sh/v1beta1, Kind=NodePool":          "nodepools.karpenter.sh",
		"karpenter.sh/v1beta1, Kind=NodeClaim":         "nodeclaims.karpenter.sh",
		"karpenter.k8s.aws/v1beta1, Kind=EC2NodeClass": "ec2nodeclasses.karpenter.k8s.aws",
	} {
		got := fault.Classify(fmt.Errorf("watch: %w", failed(kind)))
		said := got.Error()
		if got.Class != fault.Terminal || !strings.Contains(said, `service "karpenter" not found: no controller serves the conversion webhook of crd `+crd) || !strings.Contains(said, "kubectl patch crd "+crd+" ") {
			t.Errorf("%s: %v %s", kind, got.Class, said)
		}
		if again := fault.Classify(fmt.Errorf("see: %w", got)).Error(); strings.Count(again, "kubectl patch") != 1 {
			t.Errorf("%s, wrapped: %s", kind, again)
		}
	}
}
