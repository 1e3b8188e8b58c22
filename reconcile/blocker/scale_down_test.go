package blocker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// idle is an initialized node with one pod, of a NodePool of five nodes that Karpenter may consolidate.
func idle() Candidate {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-a", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	claim.Status.NodeName, claim.Status.LastPodEventTime = "ip-1", metav1.NewTime(noon.Add(-time.Hour))
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpv1.NillableDuration{Duration: ptr.To(5 * time.Minute)},
		Budgets:             []karpv1.Budget{{Nodes: "20%"}},
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}}}
	pod.Status.Phase = corev1.PodRunning
	return Candidate{
		Claim: claim, Pool: pool, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1"}}, Nodes: 5, Pods: []corev1.Pod{pod}, Now: noon,
	}
}

// blocking is a PodDisruptionBudget for the pod of idle that allows no disruption.
func blocking(name string) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Status.ExpectedPods, b.Status.CurrentHealthy, b.Status.DesiredHealthy = 1, 1, 1
	return b
}

func reportAbout(reason, message string, ago time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(noon.Add(-ago))}
}

// TestKeeps checks what keeps a node from being scaled down, and that the same node is not kept without it.
func TestKeeps(t *testing.T) {
	if keeps := idle().Keeps(); len(keeps) > 0 {
		t.Fatalf("nothing keeps the node, but: %v", keeps)
	}
	for name, c := range map[string]struct {
		change func(*Candidate)
		want   []string
	}{
		"static": {func(c *Candidate) { c.Pool.Spec.Replicas = ptr.To(int64(3)) }, []string{
			"StaticNodePool: NodePool/general is static: it always has 3 nodes, and Karpenter never consolidates them",
		}},
		"consolidation off": {func(c *Candidate) { c.Pool.Spec.Disruption.ConsolidateAfter.Duration = nil }, []string{
			"ConsolidationDisabled: NodePool/general has consolidateAfter: Never, which disables consolidation",
		}},
		"only empty nodes": {func(c *Candidate) { c.Pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty }, []string{
			"WhenEmpty: NodePool/general has consolidationPolicy: WhenEmpty, and the node has 1 pod besides those of DaemonSets: shop/web-1",
		}},
		"only empty nodes, and it is empty": {func(c *Candidate) {
			c.Pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
			c.Pods[0].OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}}
		}, nil},
		"a pod came a minute ago": {func(c *Candidate) { c.Claim.Status.LastPodEventTime = metav1.NewTime(noon.Add(-time.Minute)) }, []string{
			"ConsolidateAfter: NodePool/general has consolidateAfter: 5m, and a pod was added to it or removed from it at 11:59 UTC: the node can be consolidated from 12:04 UTC, unless a pod is added or removed before",
		}},
		"not initialized": {func(c *Candidate) {
			c.Claim.StatusConditions().SetFalse(karpv1.ConditionTypeInitialized, "Pending", "")
		}, []string{
			"NotInitialized: the node is not initialized: Karpenter never consolidates such a node",
		}},
		"an annotated node": {func(c *Candidate) { c.Node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} }, []string{
			"DoNotDisrupt: node ip-1 is annotated karpenter.sh/do-not-disrupt: true",
		}},
		"an annotated pod": {func(c *Candidate) {
			c.Pods[0].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		}, []string{
			"DoNotDisrupt: pod shop/web-1 is annotated karpenter.sh/do-not-disrupt",
		}},
		"an annotated pod that is done": {func(c *Candidate) {
			c.Pods[0].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			c.Pods[0].Status.Phase = corev1.PodSucceeded
		}, nil},
		"a budget of pods": {func(c *Candidate) { c.Budgets = []policyv1.PodDisruptionBudget{blocking("web")} }, []string{
			"PodDisruptionBudget: PodDisruptionBudget shop/web allows no disruption (healthy: 1 of 1, 1 needed) of pod shop/web-1",
		}},
		"a budget of pods that allows one": {func(c *Candidate) {
			b := blocking("web")
			b.Status.DisruptionsAllowed = 1
			c.Budgets = []policyv1.PodDisruptionBudget{b}
		}, nil},
		"a budget that lets an unhealthy pod go": {func(c *Candidate) {
			b := blocking("web")
			b.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
			c.Budgets = []policyv1.PodDisruptionBudget{b}
			c.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		}, nil},
		"two budgets of one pod": {func(c *Candidate) {
			a, b := blocking("a"), blocking("b")
			a.Status.DisruptionsAllowed, b.Status.DisruptionsAllowed = 1, 1
			c.Budgets = []policyv1.PodDisruptionBudget{a, b}
		}, []string{
			"PodDisruptionBudget: pod shop/web-1 is selected by 2 PodDisruptionBudgets (shop/a, shop/b): the API server does not evict such a pod",
		}},
		"no node may be disrupted": {func(c *Candidate) { c.Pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} }, []string{
			"DisruptionBudget: the disruption budgets of NodePool/general allow no node for reason Underutilized",
		}},
		"none for another reason": {func(c *Candidate) {
			c.Pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
		}, nil},
		"none in the day": {func(c *Candidate) {
			c.Pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Schedule: ptr.To("0 8 * * *"), Duration: &metav1.Duration{Duration: 10 * time.Hour}}}
		}, []string{
			"DisruptionBudget: the disruption budgets of NodePool/general allow no node for reason Underutilized until 18:00 UTC",
		}},
		"another node uses the budget": {func(c *Candidate) { c.Disrupted = 1 }, []string{
			"DisruptionBudget: the disruption budgets of NodePool/general allow 1 node for reason Underutilized, and 1 of its 5 nodes is not Ready or being terminated",
		}},
		"a pod that fits nowhere else": {func(c *Candidate) {
			c.Events = []corev1.Event{reportAbout("Unconsolidatable", "Not all pods would schedule, shop/web-1 => no instance type has enough resources ", time.Minute)}
		}, []string{
			"FitsNowhereElse: Karpenter reports: Not all pods would schedule, shop/web-1 => no instance type has enough resources ",
		}},
		"a pod that fitted nowhere, and is gone": {func(c *Candidate) {
			c.Events = []corev1.Event{reportAbout("Unconsolidatable", "Not all pods would schedule, shop/old-1 => no instance type ", time.Minute)}
		}, nil},
		"a price, reported long ago": {func(c *Candidate) {
			c.Events = []corev1.Event{reportAbout("Unconsolidatable", "Can't replace with a cheaper node", time.Hour)}
		}, []string{"NotCheaper: Karpenter reports: Can't replace with a cheaper node (last reported at 2026-01-01T11:00:00Z)"}},
		"what the pool had before": {func(c *Candidate) {
			c.Events = []corev1.Event{
				reportAbout("Unconsolidatable", `NodePool "general" has consolidation disabled`, time.Minute),
				reportAbout("DisruptionBlocked", "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])", time.Minute),
			}
		}, nil},
		"a pending pod": {func(c *Candidate) {
			c.Events = []corev1.Event{reportAbout("DisruptionBlocked", "Node is nominated for a pending pod", time.Minute)}
		}, []string{"Reported: Karpenter reports: Node is nominated for a pending pod"}},
		"a pending pod, some time ago": {func(c *Candidate) {
			c.Events = []corev1.Event{reportAbout("DisruptionBlocked", "Node is nominated for a pending pod", 10*time.Minute)}
		}, nil},
		"pods that may not be read": {func(c *Candidate) { c.Pods, c.Unread = nil, []string{unreadPods} }, []string{
			"Unknown: you are not allowed to read pods, which may keep it",
		}},
		"several at once": {func(c *Candidate) {
			c.Pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
			c.Budgets = []policyv1.PodDisruptionBudget{blocking("web")}
		}, []string{
			"WhenEmpty: NodePool/general has consolidationPolicy: WhenEmpty, and the node has 1 pod besides those of DaemonSets: shop/web-1",
			"PodDisruptionBudget: PodDisruptionBudget shop/web allows no disruption (healthy: 1 of 1, 1 needed) of pod shop/web-1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			candidate := idle()
			c.change(&candidate)
			var got []string
			for _, keep := range candidate.Keeps() {
				got = append(got, fmt.Sprintf("%s: %s", keep.Reason, keep.Message))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyKeptPods are named in part.
func TestManyKeptPods(t *testing.T) {
	c := idle()
	for i := range 20 {
		pod := *c.Pods[0].DeepCopy()
		pod.Name, pod.Annotations = fmt.Sprintf("job-%02d", i), map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		c.Pods = append(c.Pods, pod)
	}
	keeps := c.Keeps()
	if len(keeps) != 6 || keeps[5].Message != "15 more pods for the same reason" {
		t.Errorf("%v", keeps)
	}
}

// TestReadCandidate counts the nodes of the NodePool as Karpenter does, and records what may not be read.
func TestReadCandidate(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	version := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(version, &karpv1.NodePool{}, &karpv1.NodePoolList{})
	want := idle()
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	claim := func(node string) karpv1.NodeClaim {
		c := *want.Claim.DeepCopy()
		c.Name, c.Status.NodeName = "general-"+node, node
		return c
	}
	deleting, starting, elsewhere := claim("ip-3"), claim("ip-4"), claim("ip-5")
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	starting.StatusConditions().SetFalse(karpv1.ConditionTypeInitialized, "Pending", "")
	elsewhere.Labels = map[string]string{karpv1.NodePoolLabelKey: "batch"}
	claims := []karpv1.NodeClaim{*want.Claim, claim("ip-2"), deleting, starting, elsewhere}
	pod, budget := want.Pods[0], blocking("web")
	pod.Spec.NodeName = "ip-1"
	event := reportAbout("Unconsolidatable", "Can't replace with a cheaper node", time.Minute)
	event.Namespace, event.Name, event.InvolvedObject.Name = "default", "e", "ip-1"
	objects := []client.Object{node("ip-1", "True"), node("ip-2", "False"), node("ip-3", "True"), &pod, &budget, &event, want.Pool}
	build := func(refused ...string) client.Client {
		return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
			WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
			Build(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if slices.ContainsFunc(refused, func(r string) bool { return strings.Contains(fmt.Sprintf("%T", list), r) }) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
				}
				return c.List(ctx, list, opts...)
			},
		})
	}
	got, err := ReadCandidate(t.Context(), build(), want.Claim, claims, noon)
	if err != nil || got.Nodes != 3 || got.Disrupted != 2 || len(got.Pods) != 1 || len(got.Budgets) != 1 || len(got.Events) != 1 || got.Node == nil || got.Pool == nil || len(got.Unread) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ReadCandidate(t.Context(), build("PodList", "NodeList"), want.Claim, claims, noon)
	if err != nil || !slices.Equal(got.Unread, []string{"Nodes", "pods"}) || got.Disrupted != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
