package install

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestBarrier: whether the charts may be changed, by what AWS says of the account.
func TestBarrier(t *testing.T) {
	verdict := func(ok bool, reason string) cloud.Verdict {
		return cloud.Verdict{OK: ok, Reason: reason, Message: "AWS says so"}
	}
	at := func(step v1alpha1.ChartStep) *v1alpha1.ChartTarget { return &v1alpha1.ChartTarget{Step: step} }
	cases := map[string]struct {
		verdict  cloud.Verdict
		identity string
		target   *v1alpha1.ChartTarget
		allow    bool
		class    fault.Class
		// want is in the message; empty: no barrier.
		want string
	}{
		"the cluster":                                 {verdict: verdict(true, cloud.ReasonVerified)},
		"another cluster, first install":              {verdict: verdict(false, cloud.ReasonAuthorityDiffers), class: fault.Terminal, want: "another cluster's"},
		"another cluster, allowed":                    {verdict: verdict(false, cloud.ReasonAuthorityDiffers), allow: true, class: fault.Terminal, want: "another cluster's"},
		"another cluster, upgrade":                    {verdict: verdict(false, cloud.ReasonAuthorityDiffers), identity: "i", target: at(v1alpha1.ChartChecking), class: fault.Terminal, want: "another cluster's"},
		"another cluster, way back":                   {verdict: verdict(false, cloud.ReasonAuthorityDiffers), identity: "i", target: at(v1alpha1.ChartRollingBack), class: fault.Terminal, want: "another cluster's"},
		"no answer, first install":                    {verdict: verdict(false, "Unreachable"), class: fault.Waiting, want: "AWS says so"},
		"no answer, adoption is being checked":        {verdict: verdict(false, "Denied"), target: at(v1alpha1.ChartChecking), class: fault.Waiting, want: "AWS says so"},
		"no answer, the controller is to come":        {verdict: verdict(false, "Denied"), target: at(v1alpha1.ChartController), class: fault.Waiting, want: "AWS says so"},
		"no answer, the controller was brought":       {verdict: verdict(false, "Denied"), target: at(v1alpha1.ChartRollingOut)},
		"no answer, upgrade":                          {verdict: verdict(false, "Unreachable"), identity: "i", target: at(v1alpha1.ChartChecking)},
		"no answer, allowed":                          {verdict: verdict(false, "Unreachable"), allow: true},
		"no such cluster, first install":              {verdict: verdict(false, "ClusterNotFound"), class: fault.Waiting, want: "AWS says so"},
		"no authority to compare with, first install": {verdict: verdict(false, cloud.ReasonAuthorityUnknown), class: fault.Waiting, want: "AWS says so"},
		"the cluster, whose instances are not seen":   {verdict: verdict(false, cloud.ReasonInstancesInvisible)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Barrier(v1alpha1.KarpenterStatus{Cluster: "prod-eu", Identity: c.identity, Target: c.target}, c.verdict, c.allow)
			switch {
			case (got == nil) != (c.want == ""):
				t.Errorf("Barrier() = %v, want %q", got, c.want)
			case got != nil && (fault.Classify(got).Class != c.class || !strings.Contains(got.Error(), c.want) || !strings.Contains(got.Error(), "prod-eu")):
				t.Errorf("Barrier() = %s %v, want %s %q", fault.Classify(got).Class, got, c.class, c.want)
			}
		})
	}
}
