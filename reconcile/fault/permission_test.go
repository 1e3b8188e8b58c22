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

const plumbline = "system:serviceaccount:plumbline-system:plumbline"

// cannot is the API server's answer to who lacks a role.
func cannot(verb, resource, group, where string) error {
	of := schema.GroupResource{Group: group, Resource: resource}
	return apierrors.NewForbidden(of, "a", fmt.Errorf("User %q cannot %s resource %q in API group %q %s", plumbline, verb, resource, group, where))
}

// TestForbiddenNamesTheRule: who reads the condition can add the rule.
func TestForbiddenNamesTheRule(t *testing.T) {
	pools := cannot("patch", "nodepools", "karpenter.sh", "at the cluster scope")
	const rule = `: give ServiceAccount plumbline-system/plumbline, in a ClusterRole, the rule {apiGroups: ["karpenter.sh"], resources: ["nodepools"], verbs: ["patch"]}`
	cases := map[string]struct {
		err  error
		tail string
	}{
		"in the cluster": {fmt.Errorf("apply NodePool/a: %w", pools), rule},
		"in a namespace": {
			cannot("get", "secrets", "", `in the namespace "team"`),
			`: give ServiceAccount plumbline-system/plumbline, in a Role in namespace team, the rule {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}`,
		},
		"many objects, one rule": {errors.Join(pools, pools), rule},
		"two rules": {
			errors.Join(pools, cannot("list", "nodeclaims", "karpenter.sh", "at the cluster scope")),
			`["nodeclaims"], verbs: ["list"]}; ` + strings.TrimPrefix(rule, ": "),
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
