package upgrade

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// TestAlive: what a Deployment says of its replicas is not asked.
func TestAlive(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	deployment := func(env ...corev1.EnvVar) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: env}}
		d.Status.ReadyReplicas = 1
		return d
	}
	pod := func(name string, ready corev1.ConditionStatus) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: observe.ControllerLabels()}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	onHost := func(name, node string) client.Object {
		p := pod(name, "True").(*corev1.Pod)
		p.Spec.HostNetwork, p.Spec.NodeName = true, node
		return p
	}
	long := strings.Repeat("karpenter-", 6)
	lease := func(holder string, renewed time.Duration) client.Object {
		at, lasts := metav1.NewMicroTime(now.Add(renewed)), int32(15)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: leaseName}}
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, &at, &lasts
		return l
	}
	off := corev1.EnvVar{Name: "DISABLE_LEADER_ELECTION", Value: "true"}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a ready pod leads":                 {objects: []client.Object{deployment(), pod("a", "True"), lease("a_1f", -2*time.Second)}},
		"a pod on its host's network leads": {objects: []client.Object{deployment(), onHost("a", "ip-10-0-0-1.ec2.internal"), lease("ip-10-0-0-1.ec2.internal_1f", -time.Second)}},
		"a host with a short name leads":    {objects: []client.Object{deployment(), onHost("a", "ip-10-0-0-1.ec2.internal"), lease("ip-10-0-0-1_1f", -time.Second)}},
		"another host leads":                {objects: []client.Object{deployment(), onHost("a", "ip-10-0-0-1.ec2.internal"), lease("ip-10-0-0-10_1f", -time.Second)}, want: "held by ip-10-0-0-10, which is not a Ready pod"},
		"a pod with a long name leads":      {objects: []client.Object{deployment(), pod(long+"7d9f8c5b6-x2x4z", "True"), lease(long+"7d9_1f", -time.Second)}},
		"its clock is ahead":                {objects: []client.Object{deployment(), pod("a", "True"), lease("a_1f", time.Minute)}},
		"the pod was deleted a second ago":  {objects: []client.Object{deployment(), lease("a_1f", -time.Second)}, want: "no pod of Karpenter's controller in kube-system is Ready"},
		"another one does not lead yet":     {objects: []client.Object{deployment(), pod("b", "True"), lease("a_1f", -time.Second)}, want: "held by a, which is not a Ready pod"},
		"the one that leads is not ready":   {objects: []client.Object{deployment(), pod("a", "False"), pod("b", "True"), lease("a_1f", -time.Second)}, want: "held by a, which is not a Ready pod"},
		"it does not renew":                 {objects: []client.Object{deployment(), pod("a", "True"), lease("a_1f", -2*time.Minute)}, want: "does not renew it"},
		"nobody leads":                      {objects: []client.Object{deployment(), pod("a", "True")}, want: "no pod of Karpenter's controller holds lease karpenter-leader-election"},
		"the election is off, and one runs": {objects: []client.Object{deployment(off), pod("a", "True")}},
		"the election is off, and two run":  {objects: []client.Object{deployment(off), pod("a", "True"), pod("b", "True")}, want: "more than one pod of it runs"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(c.objects...).Build()
			got, err := Alive(t.Context(), reader, "kube-system", []appsv1.Deployment{*deployment()}, now, &Renewal{})
			if err != nil || got.Ready != (c.want == "") || !strings.Contains(got.Message, c.want) {
				t.Errorf("Alive() = %+v, %v, want %q", got, err, c.want)
			}
		})
	}
}
