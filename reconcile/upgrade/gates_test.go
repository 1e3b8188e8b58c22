package upgrade

import (
	"cmp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestBarrier checks whether the charts may be changed, depending on what AWS reports about the account.
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
		// want is in the message; if empty, there is no barrier.
		want string
	}{
		"the cluster":                                 {verdict: verdict(true, cloud.ReasonVerified)},
		"another cluster, first install":              {verdict: verdict(false, cloud.ReasonAuthorityDiffers), class: fault.Terminal, want: "the name of another cluster"},
		"another cluster, allowed":                    {verdict: verdict(false, cloud.ReasonAuthorityDiffers), allow: true, class: fault.Terminal, want: "the name of another cluster"},
		"another cluster, upgrade":                    {verdict: verdict(false, cloud.ReasonAuthorityDiffers), identity: "i", target: at(v1alpha1.ChartChecking), class: fault.Terminal, want: "the name of another cluster"},
		"another cluster, way back":                   {verdict: verdict(false, cloud.ReasonAuthorityDiffers), identity: "i", target: at(v1alpha1.ChartRollingBack), class: fault.Terminal, want: "the name of another cluster"},
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

// TestAFreezeKeepsChartsAsTheyAre checks that no change starts in a freeze, whatever it changes. A change that restores
// a controller does not wait.
func TestAFreezeKeepsChartsAsTheyAre(t *testing.T) {
	ready := appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	down := func(ago time.Duration) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Unix(1_000_000, 0).Add(-ago)),
		}}}
	}
	// This is a Deployment of one replica without a pod, if one may be unavailable.
	available := appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}
	for name, c := range map[string]struct {
		identity, target string
		at               v1alpha1.ChartStep
		status           appsv1.DeploymentStatus
		missing, open    bool
		waits            bool
		wakes            time.Duration
	}{
		"another version":                    {identity: "before", status: ready, waits: true},
		"outside of a freeze":                {identity: "before", status: ready, open: true},
		"it is installed as Git says":        {identity: "own", status: ready},
		"its gates were passed, no more":     {identity: "before", target: "own", at: v1alpha1.ChartChecking, status: ready, waits: true},
		"it was rolled back":                 {identity: "before", target: "own", at: v1alpha1.ChartRolledBack, status: ready, waits: true},
		"it had begun before":                {identity: "before", target: "own", at: v1alpha1.ChartCRDs, status: ready},
		"it rolls out":                       {identity: "before", target: "own", at: v1alpha1.ChartRollingOut, status: ready},
		"it goes back":                       {identity: "before", target: "own", at: v1alpha1.ChartRollingBack, status: ready},
		"a correction of one that has begun": {identity: "before", target: "newer", at: v1alpha1.ChartController, status: ready},
		"a revert of one that has begun":     {identity: "own", target: "newer", at: v1alpha1.ChartCRDs, status: ready},
		"nothing is installed":               {},
		"the controller was deleted":         {identity: "before", missing: true},
		"the controller is down for long":    {identity: "before", status: down(time.Hour)},
		"the controller restarts":            {identity: "before", status: down(10 * time.Second), waits: true, wakes: 50 * time.Second},
		"the controller says not since when": {identity: "before", status: available, waits: true, wakes: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			objects := installtest.Installed()
			objects[0].(*appsv1.Deployment).Status = c.status
			if c.missing {
				objects = objects[1:]
			}
			s := newBed(t, append([]client.Object{}, objects...)...).step()
			if s.Frozen = (plan.Frozen{Message: "not before ten", Until: s.Now.Add(time.Hour)}); c.open {
				s.Frozen = plan.Frozen{}
			}
			own, err := s.Identity()
			if err != nil {
				t.Fatal(err)
			}
			k := s.karpenterStatus()
			if k.Identity = strings.Replace(c.identity, "own", own, 1); k.Identity != "" {
				k.Version, k.Controller = "1.14.0", &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.0"}
			}
			if c.target != "" {
				k.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Identity: strings.Replace(c.target, "own", own, 1), Step: c.at, Since: metav1.NewTime(s.Now)}
			}
			err = s.frozen(t.Context(), own)
			if waits := IsFrozen(err); waits != c.waits || !waits && err != nil {
				t.Fatalf("frozen: %v, want it to wait: %t", err, c.waits)
			}
			if c.waits && !strings.Contains(err.Error(), "Karpenter 1.14.0 is upgraded to 1.14.1: chart karpenter-crd, then chart karpenter; waiting: not before ten") {
				t.Errorf("it says %v", err)
			}
			if wakes := s.Now.Add(cmp.Or(c.wakes, time.Hour)); c.waits && !s.WakeAt.Equal(wakes) {
				t.Errorf("next pass at %s, want %s", s.WakeAt, wakes)
			}
		})
	}
}

// TestAFrozenChangeWritesNothing checks that it also leaves no record of a change: it starts from its first step after
// the freeze.
func TestAFrozenChangeWritesNothing(t *testing.T) {
	objects := installtest.Installed()
	objects[0].(*appsv1.Deployment).Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1}
	b := newBed(t, objects...)
	s := b.step()
	k := s.karpenterStatus()
	k.Version, k.Identity, k.Controller = "1.14.0", "before", &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.0"}
	s.Frozen = plan.Frozen{Message: "not before ten"}
	_, err := s.Run(t.Context())
	if !IsFrozen(err) || !StaysInForce(s.karpenterStatus(), err) || s.karpenterStatus().Target != nil || len(s.Waits) != 1 {
		t.Errorf("Run() = %v, target %+v", err, s.karpenterStatus().Target)
	}
	if b.helm.Asked[charts.CRDChart]+b.helm.Asked[charts.ControllerChart] > 0 {
		t.Errorf("Helm has installed %v", b.helm.Asked)
	}
}

// TestAControllerThatStaysAwayIsDown checks that this daemon counts the time itself if the Deployment counts as
// available without a pod.
func TestAControllerThatStaysAwayIsDown(t *testing.T) {
	objects := installtest.Installed()
	deployment := objects[0].(*appsv1.Deployment)
	deployment.Status = appsv1.DeploymentStatus{Replicas: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}
	s := newBed(t, objects...).step()
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {59 * time.Second, false}, {time.Second, true}} {
		s.Now = s.Now.Add(c.after)
		if got, err := s.isDown(t.Context()); got != c.want || err != nil {
			t.Errorf("%s later it is down: %t, %v", c.after, got, err)
		}
	}
}
