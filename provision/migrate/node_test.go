package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNextOfNode(t *testing.T) {
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{CordonAnnotation: "x"}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	remembered := cordoned.DeepCopy()
	remembered.Annotations[MovedAnnotation] = "{}"
	pods := func(change func(p *corev1.Pod)) []corev1.Pod {
		w := newWorld()
		p := w.pod("shop", "web", "a", "ReplicaSet", "web-1")
		if change != nil {
			change(p)
		}
		return w.Pods
	}
	for name, c := range map[string]struct {
		state  NodeState
		action NodeAction
		waits  string
	}{
		"it runs":                        {NodeState{Node: &corev1.Node{}, Instance: "running"}, CordonNode, ""},
		"cordoned":                       {NodeState{Node: cordoned, Instance: "running", Pods: pods(nil)}, Remember, ""},
		"with pods":                      {NodeState{Node: remembered, Instance: "running", Pods: pods(nil)}, Evict, ""},
		"a pod without controller":       {NodeState{Node: remembered, Pods: pods(func(p *corev1.Pod) { p.OwnerReferences = nil })}, Wait, "pod shop/web has no controller"},
		"a pod that must not":            {NodeState{Node: remembered, Pods: pods(func(p *corev1.Pod) { p.Annotations[doNotDisrupt] = "true" })}, Wait, "karpenter.sh/do-not-disrupt"},
		"a terminating pod":              {NodeState{Node: remembered, Pods: pods(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, Wait, "which is terminating"},
		"a completed pod":                {NodeState{Node: remembered, Pods: pods(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, Terminate, ""},
		"a pod of a DaemonSet":           {NodeState{Node: remembered, Pods: pods(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" })}, Terminate, ""},
		"pods that do not run elsewhere": {NodeState{Node: remembered, Owners: []Owner{{Ref{"Deployment", "shop", "web"}, 3, 3, 2, false}}}, Wait, "Deployment shop/web (2 of 3 pods are Ready)"},
		"pods that did not run before":   {NodeState{Node: remembered, Owners: []Owner{{Ref{"Deployment", "shop", "web"}, 2, 3, 2, false}}}, Terminate, ""},
		"a workload that was deleted":    {NodeState{Node: remembered, Owners: []Owner{{Ref{"Deployment", "shop", "web"}, 2, 0, 0, true}}}, Terminate, ""},
		"a workload that was scaled":     {NodeState{Node: remembered, Owners: []Owner{{Ref{"Deployment", "shop", "web"}, 3, 1, 1, false}}}, Terminate, ""},
		"shutting down":                  {NodeState{Node: remembered, Instance: "shutting-down", Pods: pods(nil)}, Wait, "EC2 to terminate"},
		"terminated, and a Node":         {NodeState{Node: remembered, Instance: "terminated"}, Wait, "to be deleted by the cloud controller"},
		"terminated":                     {NodeState{Instance: "terminated"}, Moved, ""},
		"no Node, and an instance":       {NodeState{Instance: "running"}, Terminate, ""},
	} {
		got := NextOfNode(c.state)
		if got.Action != c.action || !strings.Contains(got.Waits, c.waits) || c.waits == "" && got.Waits != "" {
			t.Errorf("%s: %s, waits for %q", name, got.Action, got.Waits)
		}
	}
}

func TestRefused(t *testing.T) {
	w := newWorld()
	p := w.pod("shop", "web-1", "a", "ReplicaSet", "web")
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget.Status.CurrentHealthy, budget.Status.DesiredHealthy = 2, 2
	want := "PodDisruptionBudget shop/web (0 disruptions allowed: 2 pods are healthy, 2 needed) for pod shop/web-1"
	if got := Refused(p, []policyv1.PodDisruptionBudget{budget}, "no"); got != want {
		t.Error(got)
	}
	budget.Namespace = "other"
	if got := Refused(p, []policyv1.PodDisruptionBudget{budget}, "Cannot evict pod"); got != "pod shop/web-1: Cannot evict pod" {
		t.Error(got)
	}
}

func TestRemembered(t *testing.T) {
	text, err := Remembered([]Owner{{Ref: Ref{"Deployment", "shop", "web"}, Before: 3}, {Ref: Ref{"StatefulSet", "shop", "db"}, Before: 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Owner{{Ref: Ref{"Deployment", "shop", "web"}, Before: 3}, {Ref: Ref{"StatefulSet", "shop", "db"}, Before: 1}}
	if diff := cmp.Diff(want, ParseRemembered(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := ParseRemembered("edited"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestOwnersOn(t *testing.T) {
	w := newWorld().deployment("shop", "web", nil, "a", "a", "b")
	w.pod("shop", "db-0", "a", "StatefulSet", "db")
	w.pod("shop", "job", "a", "Job", "job")
	w.pod("shop", "proxy", "a", "DaemonSet", "proxy")
	want := []Ref{{"Deployment", "shop", "web"}, {"StatefulSet", "shop", "db"}}
	if diff := cmp.Diff(want, w.OwnersOn("a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
