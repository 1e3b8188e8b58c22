package smoke

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// node returns Node/ip-9 with taints, Ready or not.
func node(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-9"}, Spec: corev1.NodeSpec{Taints: taints}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "KubeletNotReady", Message: "cni plugin not initialized"}}
	return n
}

// waiting returns a pod whose container waits.
func waiting(reason string) *corev1.Pod {
	p := pod(0, "ip-9", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(30)})
	p.Spec.Containers = []corev1.Container{{Image: Image}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}
	return p
}

// TestWaits: each thing that a pod may wait for is named once it takes longer than usual.
func TestWaits(t *testing.T) {
	startup := corev1.Taint{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule}
	registered := map[string]int{karpv1.ConditionTypeLaunched: 5, karpv1.ConditionTypeRegistered: 20}
	initialized := map[string]int{karpv1.ConditionTypeLaunched: 5, karpv1.ConditionTypeRegistered: 20, karpv1.ConditionTypeInitialized: 25}
	pending := pod(0, "", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: 3 Insufficient cpu."})
	with := func(conditions map[string]int) *karpv1.NodeClaim {
		c := claim("general-a", 1, "ip-9", conditions)
		c.Spec.StartupTaints = []corev1.Taint{startup}
		if _, is := conditions[karpv1.ConditionTypeInitialized]; !is {
			c.Status.Conditions = append(c.Status.Conditions, status.Condition{
				Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionUnknown, Message: `Resource "nvidia.com/gpu" was requested but not registered`,
			})
		}
		return c
	}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		claim *karpv1.NodeClaim
		node  *corev1.Node
		at    int
		want  string
	}{
		"nothing yet":              {pending, nil, nil, 500, ""},
		"launched":                 {pending, with(map[string]int{karpv1.ConditionTypeLaunched: 5}), node(corev1.ConditionTrue), 500, ""},
		"just registered":          {pending, with(registered), node(corev1.ConditionTrue, startup), 60, ""},
		"a startup taint":          {pending, with(registered), node(corev1.ConditionTrue, startup), 80, "Node/ip-9 still has the startup taint example.com/agent:NoSchedule of NodePool/general"},
		"not Ready":                {pending, with(registered), node(corev1.ConditionFalse), 80, "Node/ip-9 is not Ready: KubeletNotReady: cni plugin not initialized"},
		"a device":                 {pending, with(registered), node(corev1.ConditionTrue), 80, `is not initialized: Resource "nvidia.com/gpu" was requested`},
		"just initialized":         {pending, with(initialized), node(corev1.ConditionTrue, other), 30, ""},
		"a taint of another tool":  {pending, with(initialized), node(corev1.ConditionTrue, other), 40, "Node/ip-9 has the taint team=data:NoSchedule, which NodePool/general does not set"},
		"not scheduled":            {pending, with(initialized), node(corev1.ConditionTrue), 40, "kube-scheduler does not use it: 0/3 nodes are available"},
		"pulling":                  {waiting("ContainerCreating"), with(initialized), node(corev1.ConditionTrue), 200, ""},
		"no image":                 {waiting("ImagePullBackOff"), with(initialized), node(corev1.ConditionTrue), 60, "cannot pull the image " + Image},
		"the same, with a message": {waiting("ErrImagePull"), with(initialized), node(corev1.ConditionTrue), 60, "cannot pull the image " + Image},
		"just scheduled":           {waiting("ErrImagePull"), with(initialized), node(corev1.ConditionTrue), 45, ""},
		"no container":             {waiting("CreateContainerConfigError"), with(initialized), node(corev1.ConditionTrue), 60, "CreateContainerConfigError: why"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Waits(Seen{Pod: c.pod, Claim: c.claim}, c.node, at(c.at).Time)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestUnjoined: an instance that boots is no problem for a while; then what is known about it is named.
func TestUnjoined(t *testing.T) {
	c := claim("general-a", 1, "", map[string]int{karpv1.ConditionTypeLaunched: 5})
	c.Status.ProviderID = "aws:///eu-west-1a/i-1"
	for name, test := range map[string]struct {
		claim *karpv1.NodeClaim
		at    int
		want  bool
	}{
		"booting":    {c, 30, false},
		"no node":    {c, 36, true},
		"registered": {claim("general-a", 1, "ip-9", map[string]int{karpv1.ConditionTypeLaunched: 5, karpv1.ConditionTypeRegistered: 20}), 500, false},
		"no claim":   {nil, 500, false},
	} {
		if got := Joining(test.claim, at(test.at).Time); got != test.want {
			t.Errorf("%s: joining is %v", name, got)
		}
	}
	for want, got := range map[string]string{
		"EC2 has terminated instance i-1 before it became a node: Client.InternalError": Unjoined(c, &cloud.Instance{ID: "i-1", State: "terminated", Reason: "Client.InternalError"}, "a finding", at(40).Time),
		"instance i-1 does not become a node: a finding":                                Unjoined(c, &cloud.Instance{ID: "i-1", State: "running"}, "a finding", at(40).Time),
		"": Unjoined(c, nil, "", at(40).Time),
		"instance i-1 runs, and has not become a node; its console shows why: aws ec2 get-console-output --latest --instance-id i-1": Unjoined(c, nil, "", at(400).Time),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAnInstanceThatDoesNotJoin: the test ends by what the checks find, and not by its timeout.
func TestAnInstanceThatDoesNotJoin(t *testing.T) {
	w := newWorld(t, func(w *world, n int) {
		if n == 2 {
			c := mine()[0].(*karpv1.NodeClaim)
			c.Status.NodeName = ""
			w.create(t, c, pod(5, ""))
		}
	}, definitions("general")...)
	var told []string
	r := w.runner(&ec2{}, &told)
	var asked int
	r.Finding = func(_ context.Context, class, _ string) (string, error) {
		asked++
		return "subnet-1 of " + class + " has no default route", nil
	}
	got := r.Test(t.Context(), pool("general"))
	if got.State != Failed || got.Message != "instance i-1 does not become a node: subnet-1 of default has no default route" {
		t.Errorf("%+v", got)
	}
	if took := w.now.Sub(began); took > 3*time.Minute || asked > 4 {
		t.Errorf("ended after %s and %d checks", took, asked)
	}
}
