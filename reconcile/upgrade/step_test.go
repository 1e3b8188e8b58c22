package upgrade

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestARolloutOutlastsTheLease checks that the timeout is longer than the previous controller's lease: a shorter one
// would roll every change back.
func TestARolloutOutlastsTheLease(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, 5 * time.Minute: 5 * time.Minute} {
		step := &Step{Timeout: timeout}
		if got := step.rolloutTimeout(); got != want {
			t.Errorf("timeout %s: a controller has %s to come up, want %s", timeout, got, want)
		}
	}
}

// TestTheStageThatFails checks that the controller's stage fails if the CRDs are served and the controller does not
// become ready.
func TestTheStageThatFails(t *testing.T) {
	objects := installtest.Installed()
	d := objects[0].(*appsv1.Deployment)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "DISABLE_LEADER_ELECTION", Value: "true"}}}}
	s := newBed(t, objects...).step()
	own, err := s.Identity()
	if err != nil {
		t.Fatal(err)
	}
	s.karpenterStatus().Target = &v1alpha1.ChartTarget{Version: "1.14.1", Identity: own, Step: v1alpha1.ChartRollingOut, Since: metav1.NewTime(s.Now.Add(-time.Hour))}
	got, err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "does not become ready") {
		t.Fatalf("Run() = %v", err)
	}
	if !got.CRDs.Ready || got.Controller.Ready || got.Controller.Message == notReached.Message {
		t.Errorf("CRDs %+v, controller %+v", got.CRDs, got.Controller)
	}
}
