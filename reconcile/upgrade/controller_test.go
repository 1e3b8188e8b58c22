package upgrade

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

var replicaLabels = map[string]string{"app.kubernetes.io/name": "karpenter"}

func controllerSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar", Image: "x"}, {Name: "controller", Image: image}}}
}

// replica returns a ready pod of the controller, with changes.
func replica(name string, change ...func(*corev1.Pod)) client.Object {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: replicaLabels}, Spec: controllerSpec("controller:1.14.1")}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(p)
	}
	return p
}

func older(p *corev1.Pod) { p.Spec = controllerSpec("controller:1.8.6") }

func ending(p *corev1.Pod) {
	now := metav1.Unix(1, 0)
	p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"}
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules"}}
}

func leaseOf(holder string) client.Object {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"}}
	l.Spec.HolderIdentity = &holder
	return l
}

// controller returns the Deployment of two replicas, one of which is ready.
func controller(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	two := int32(2)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
	d.Spec.Selector, d.Spec.Replicas = &metav1.LabelSelector{MatchLabels: replicaLabels}, &two
	d.Spec.Template.Spec = controllerSpec("controller:1.14.1")
	d.Status = appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}
	for _, c := range change {
		c(d)
	}
	return d
}

func withEnv(name, value string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: name, Value: value}}
	}
}

func withArgument(argument string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Args = []string{argument} }
}

// leadership is the input and the result of Leads or OneLeads.
type leadership struct {
	objects    []client.Object
	deployment *appsv1.Deployment
	ready      bool
	message    string
}

func (c leadership) check(t *testing.T, ask func(client.Reader, *appsv1.Deployment) (cluster.Readiness, error)) {
	t.Helper()
	if c.deployment == nil {
		c.deployment = controller()
	}
	reader := fake.NewClientBuilder().WithObjects(append(c.objects, c.deployment.DeepCopy())...).Build()
	got, err := ask(reader, c.deployment)
	if err != nil || got.Ready != c.ready || !strings.Contains(got.Message, c.message) {
		t.Errorf("%+v, %v, want ready %t with %q", got, err, c.ready, c.message)
	}
}

// TestLeads checks that a ready replica does not count as leading yet.
func TestLeads(t *testing.T) {
	onHost := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.NodeName = true, node }
	}
	for name, c := range map[string]leadership{
		"the new one leads":             {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, ready: true},
		"no lease":                      {message: "no replica of deployment/karpenter leads yet"},
		"given up":                      {objects: []client.Object{leaseOf("")}, message: "leads yet"},
		"its holder is gone":            {objects: []client.Object{leaseOf("karpenter-b_1f"), replica("karpenter-a")}, message: "held by karpenter-b, which no longer exists"},
		"the one before leads":          {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a", older)}, message: "pod/karpenter-a is still the leader, with image controller:1.8.6"},
		"one that ends leads":           {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a", ending)}, message: "pod/karpenter-a is still the leader, but is terminating"},
		"on the host's network":         {objects: []client.Object{leaseOf("ip-10-0-0-1.ec2.internal_1f"), replica("karpenter-a", onHost("ip-10-0-0-1.ec2.internal"))}, ready: true},
		"by a short host name":          {objects: []client.Object{leaseOf("ip-10-0-0-1_1f"), replica("karpenter-a", onHost("ip-10-0-0-1.ec2.internal"))}, ready: true},
		"the election is off":           {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "true")), ready: true},
		"by an argument":                {deployment: controller(withArgument("--disable-leader-election")), ready: true},
		"by an argument with a value":   {deployment: controller(withArgument("-disable-leader-election=1")), ready: true},
		"the election is said to be on": {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "false")), message: "leads yet"},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t, func(reader client.Reader, d *appsv1.Deployment) (cluster.Readiness, error) {
				return Leads(t.Context(), reader, d)
			})
		})
	}
}

// TestOneLeads checks that one of two replicas is enough if it is the one that works.
func TestOneLeads(t *testing.T) {
	stuck := replica("karpenter-b", unscheduled)
	beside := func(d *appsv1.Deployment) { d.Status.Replicas = 3 }
	for name, c := range map[string]leadership{
		"it leads, and the other has no place": {
			objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a"), stuck}, ready: true,
			message: "1 of 2 replicas updated and available; pod/karpenter-b is not scheduled: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules",
		},
		"the other is not there":          {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, ready: true, message: "1 of 2 replicas"},
		"none leads":                      {objects: []client.Object{replica("karpenter-a"), stuck}, message: "1 of 2 replicas updated and available; no replica of deployment/karpenter leads yet"},
		"the one that leads is not ready": {objects: []client.Object{leaseOf("karpenter-b_1f"), replica("karpenter-a"), replica("karpenter-b", unready)}, message: "pod/karpenter-b is not Ready"},
		"an earlier one is left":          {deployment: controller(beside), objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, message: "1 of 2"},
		"none is ready":                   {deployment: controller(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 }), message: "0 of 2"},
		"it was scaled to 0":              {deployment: controller(func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }), message: "scaled to 0"},
		"its newest spec is not observed": {deployment: controller(func(d *appsv1.Deployment) { d.Generation = 2 }), message: "not observed"},
		"the election is off":             {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "true")), objects: []client.Object{replica("karpenter-a"), stuck}, ready: true, message: "pod/karpenter-b is not scheduled"},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t, func(reader client.Reader, d *appsv1.Deployment) (cluster.Readiness, error) {
				return OneLeads(t.Context(), reader, d)
			})
		})
	}
}

// TestAlive checks that the status of the Deployment does not matter.
func TestAlive(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	deployment := func(env ...corev1.EnvVar) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: env}}
		d.Status.ReadyReplicas = 1
		return d
	}
	pod := func(name string, ready corev1.ConditionStatus) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: cluster.ControllerLabels()}}
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
		"the election is off, and two run":  {objects: []client.Object{deployment(off), pod("a", "True"), pod("b", "True")}, want: "more than one of its pods runs"},
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

// TestHeartbeat checks that a controller that renews its lease counts as working, whatever its clock shows, and that
// one that does not for a minute counts as stopped since the last renewal.
func TestHeartbeat(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type read struct {
		after   time.Duration // since the start, by our clock
		renewed time.Duration // since the start, by the controller's
		holder  string
	}
	const host = "karpenter-1_0ab"
	cases := map[string]struct {
		reads []read
		want  string
	}{
		"first seen":                        {[]read{{0, -time.Hour, host}}, ""},
		"renewed":                           {[]read{{0, 0, host}, {time.Minute, time.Minute, host}, {2 * time.Minute, 2 * time.Minute, host}}, ""},
		"by a clock that is an hour behind": {[]read{{0, -time.Hour, host}, {time.Minute, -59 * time.Minute, host}}, ""},
		"not renewed for a while":           {[]read{{0, 0, host}, {50 * time.Second, 0, host}}, ""},
		"not renewed for a minute":          {[]read{{0, 0, host}, {time.Minute, 0, host}}, "2026-01-01T12:00:00Z"},
		"by a clock that is a year behind":  {[]read{{0, -8760 * time.Hour, host}, {time.Minute, -8760 * time.Hour, host}}, "2025-01-01T12:00:00Z"},
		"nor for five":                      {[]read{{0, 0, host}, {time.Minute, 0, host}, {2 * time.Minute, 0, host}, {3 * time.Minute, 0, host}, {5 * time.Minute, 0, host}}, "2026-01-01T12:00:00Z"},
		"renewed again":                     {[]read{{0, 0, host}, {time.Minute, 0, host}, {2 * time.Minute, 2 * time.Minute, host}}, ""},
		"not read for long":                 {[]read{{0, 0, host}, {time.Hour, 0, host}}, ""},
		"the clock was put back":            {[]read{{time.Hour, 0, host}, {0, 0, host}}, ""},
		"given up":                          {[]read{{0, 0, host}, {time.Minute, 0, ""}}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var h Heartbeat
			for _, r := range c.reads {
				h.note(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
					HolderIdentity: ptr.To(r.holder), RenewTime: ptr.To(metav1.NewMicroTime(start.Add(r.renewed))),
				}}, start.Add(r.after))
			}
			got := h.stopped("kube-system")
			if (got != nil) != (c.want != "") {
				t.Fatalf("stopped: %+v", got)
			}
			want := "Karpenter has not renewed its lease karpenter-leader-election since " + c.want + ": it launches, replaces and terminates no node; pod karpenter-1 holds the lease: kubectl logs -n kube-system karpenter-1"
			if got != nil && got.Message != want {
				t.Errorf("got  %q\nwant %q", got.Message, want)
			}
			if got != nil && !got.Since.Equal(start) {
				t.Errorf("since %s, want the first read at %s", got.Since, start)
			}
		})
	}
	h := Heartbeat{}
	if h.note(&coordinationv1.Lease{}, start); h.Found() || h.stopped("kube-system") != nil {
		t.Error("there is no lease")
	}
}
