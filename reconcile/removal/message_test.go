package removal

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestDiagnose(t *testing.T) {
	pod := func(change ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}}}
		for _, c := range change {
			c(&p)
		}
		return p
	}
	controlled := func(kind string) func(*corev1.Pod) {
		yes := true
		return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: &yes}} }
	}
	budget := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	roomy, elsewhere, counted := budget, budget, budget
	counted.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 3}
	roomy.Status.DisruptionsAllowed = 1
	elsewhere.Namespace = "other"
	volume := "pv-1"
	glass := func(risk, command string) string {
		return "; to terminate it anyway, at your own risk (" + risk + "): " + command
	}
	const annotate = "kubectl annotate nodeclaim a --overwrite karpenter.sh/nodeclaim-termination-timestamp=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
	pastBudgets := glass("Karpenter deletes all pods of the node regardless of PodDisruptionBudgets: the workload has too few pods until they run elsewhere", annotate)
	pastPods := glass("Karpenter deletes all pods of the node, regardless of PodDisruptionBudgets and of the remaining grace period", annotate)
	undisrupted := glass("the pod is evicted, and its work is lost unless it can resume elsewhere", "kubectl annotate pod web-1 -n shop karpenter.sh/do-not-disrupt-")
	mounted := glass("the instance is terminated with the volume mounted: unwritten data is lost, and the file system may need repair", annotate)
	unfinished := func(object string) string {
		return glass("the finalizer's controller does not finish its work for the object", "kubectl patch "+object+` --type=merge --patch '{"metadata":{"finalizers":null}}'`)
	}
	attached := storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	driver := plan.NodeDaemonSet{Namespace: "kube-system", Name: "ebs-csi-node", CSI: true, Drivers: []string{"ebs.csi.aws.com"}}
	tolerant := driver
	tolerant.Tolerates = true
	node := "node node-a (NodeClaim/a) waits for "
	cases := map[string]struct {
		node    blocker.Node
		budgets []policyv1.PodDisruptionBudget
		sets    []plan.NodeDaemonSet
		want    string
	}{
		"a budget that allows nothing": {
			node: blocker.Node{Pods: []corev1.Pod{pod()}}, budgets: []policyv1.PodDisruptionBudget{elsewhere, budget},
			want: node + "pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption" + pastBudgets,
		},
		"a budget that has been counted": {
			node: blocker.Node{Pods: []corev1.Pod{pod()}}, budgets: []policyv1.PodDisruptionBudget{counted},
			want: node + "pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption (healthy: 2 of 3, 2 needed)" + pastBudgets,
		},
		"a budget with room": {node: blocker.Node{Pods: []corev1.Pod{pod()}}, budgets: []policyv1.PodDisruptionBudget{roomy}, want: node + "pod shop/web-1" + pastPods},
		"a pod that may not be disrupted": {
			node: blocker.Node{Pods: []corev1.Pod{pod(func(p *corev1.Pod) {
				p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			})}},
			want: node + "pod shop/web-1, annotated karpenter.sh/do-not-disrupt" + undisrupted,
		},
		"a pod that may not be disrupted, and a terminationGracePeriod": {
			node: blocker.Node{Deadline: time.Date(2026, 1, 1, 14, 0, 0, 0, time.UTC), Pods: []corev1.Pod{pod(func(p *corev1.Pod) {
				p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			})}},
			want: node + "pod shop/web-1, annotated karpenter.sh/do-not-disrupt, until the node's terminationGracePeriod ends at 2026-01-01T14:00:00Z" + undisrupted,
		},
		"a budget that allows nothing, and a terminationGracePeriod": {
			node: blocker.Node{Deadline: time.Date(2026, 1, 1, 14, 0, 0, 0, time.UTC), Pods: []corev1.Pod{pod()}}, budgets: []policyv1.PodDisruptionBudget{budget},
			want: node + "pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption, until the node's terminationGracePeriod ends at 2026-01-01T14:00:00Z" + pastBudgets,
		},
		"a pod that may not be disrupted for a while": {
			node: blocker.Node{Pods: []corev1.Pod{pod(func(p *corev1.Pod) {
				p.Annotations, p.Status.StartTime = map[string]string{karpv1.DoNotDisruptAnnotationKey: "1h"}, &metav1.Time{Time: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
			})}},
			want: node + "pod shop/web-1, annotated karpenter.sh/do-not-disrupt until 2026-01-01T13:00:00Z" + undisrupted,
		},
		"a pod that might not be disrupted for a while that is over": {
			node: blocker.Node{Pods: []corev1.Pod{pod(func(p *corev1.Pod) {
				p.Annotations, p.Status.StartTime = map[string]string{karpv1.DoNotDisruptAnnotationKey: "1h"}, &metav1.Time{Time: time.Date(2026, 1, 1, 10, 30, 0, 0, time.UTC)}
			})}},
			want: node + "pod shop/web-1" + pastPods,
		},
		"a pod with a finalizer": {
			node: blocker.Node{Pods: []corev1.Pod{pod(func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/keep"}
			})}},
			want: node + "pod shop/web-1, which waits for its finalizer example.com/keep" + glass("the node terminates before the finalizer's controller is done with the pod; the Pod object stays until then", annotate),
		},
		"pods that Karpenter does not wait for": {
			node: blocker.Node{Pods: []corev1.Pod{
				pod(controlled("DaemonSet")),
				pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
				pod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
				pod(func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				}),
				pod(func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Key: karpv1.DisruptedTaintKey, Operator: corev1.TolerationOpEqual, Effect: corev1.TaintEffectNoSchedule}}
				}),
			}},
			want: node + "Karpenter to terminate it",
		},
		"a volume": {
			node: blocker.Node{Pods: []corev1.Pod{pod(controlled("DaemonSet"))}, Volumes: []storagev1.VolumeAttachment{attached}}, sets: []plan.NodeDaemonSet{tolerant},
			want: node + "volume pv-1 (VolumeAttachment csi-1) to be detached by ebs.csi.aws.com" + mounted,
		},
		"a volume whose driver was evicted": {
			node: blocker.Node{Volumes: []storagev1.VolumeAttachment{attached}}, sets: []plan.NodeDaemonSet{driver},
			want: node + "volume pv-1 (VolumeAttachment csi-1) to be detached by ebs.csi.aws.com; DaemonSet kube-system/ebs-csi-node (CSI driver ebs.csi.aws.com) does not tolerate karpenter.sh/disrupted:NoSchedule, so none of its pods is left on the node to unmount the volume: " +
				driver.Patch() + mounted,
		},
		"AWS denies it": {
			node: blocker.Node{Pods: []corev1.Pod{pod()}, Events: []corev1.Event{{
				Type: corev1.EventTypeWarning, Message: "UnauthorizedOperation: not authorized to perform: ec2:TerminateInstances. Encoded authorization failure message: x8s",
			}}},
			want: node + "AWS: UnauthorizedOperation: not authorized to perform: ec2:TerminateInstances; Karpenter's role does not allow ec2:TerminateInstances",
		},
		"AWS denies it without naming the action": {
			node: blocker.Node{Events: []corev1.Event{{
				Type: corev1.EventTypeWarning, Message: "terminating instance, operation error EC2: TerminateInstances, https response error StatusCode: 403, RequestID: 1, api error UnauthorizedOperation: You are not authorized to perform this operation.",
			}}},
			want: node + "AWS: terminating instance, operation error EC2: TerminateInstances, https response error StatusCode: 403, RequestID: 1, api error UnauthorizedOperation: You are not authorized to perform this operation; Karpenter's role does not allow ec2:TerminateInstances",
		},
		"EC2 refuses its termination": {
			node: blocker.Node{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Drained: time.Unix(1, 0)},
			want: node + "EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 refuses it (OperationNotPermitted: termination protection; UnauthorizedOperation: ec2:TerminateInstances is not allowed; RequestLimitExceeded: throttling); see the log of Karpenter's controller",
		},
		"EC2 protects it": {
			node: blocker.Node{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Drained: time.Unix(1, 0), Protection: blocker.Protected},
			want: node + "EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 protects it from termination (disableApiTermination)" +
				glass("the instance was protected on purpose: find out who protected it and what runs on it", "aws ec2 modify-instance-attribute --instance-id i-0123456789abcdef0 --no-disable-api-termination"),
		},
		"EC2 does not protect it": {
			node: blocker.Node{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Drained: time.Unix(1, 0), Protection: blocker.Unprotected},
			want: node + "EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 does not accept it, although the instance is not protected: EC2 denies ec2:TerminateInstances to Karpenter's role, the role is deleted, or EC2 throttles Karpenter; see the log of Karpenter's controller" +
				glass("the command uses your AWS credentials and bypasses the policy that denies it to Karpenter; that policy denies it for the next node, too", "aws ec2 terminate-instances --instance-ids i-0123456789abcdef0"),
		},
		"EC2 throttles it": {
			node: blocker.Node{
				ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Drained: time.Unix(1, 0), Protection: blocker.Unprotected,
				Logged: "terminating instance, operation error EC2: TerminateInstances, exceeded maximum number of attempts, 3, https response error StatusCode: 503, RequestID: 1, api error RequestLimitExceeded: Request limit exceeded.",
			},
			want: node + "EC2 to accept the termination of i-0123456789abcdef0: the node is drained, but EC2 throttles Karpenter's requests (RequestLimitExceeded), and Karpenter retries",
		},
		"Karpenter does not replace it, and says why": {
			node: blocker.Node{Stays: true, Pods: []corev1.Pod{pod()}, Events: []corev1.Event{{Reason: "DisruptionBlocked", Message: "No node would fit."}}},
			want: node + "Karpenter to replace it; Karpenter reports: No node would fit",
		},
		"what Karpenter said of it before it was initialized": {
			node: blocker.Node{Stays: true, Initialized: true, Events: said("Node isn't initialized", 1)},
			want: node + "Karpenter to replace it",
		},
		"it is not initialized": {
			node: blocker.Node{Stays: true, Events: said("Node isn't initialized", 1)},
			want: node + "Karpenter to replace it; Karpenter reports: Node isn't initialized",
		},
		"what Karpenter said before there was a node": {
			node: blocker.Node{Stays: true, Events: said("Nodeclaim does not have an associated node", 1)},
			want: node + "Karpenter to replace it",
		},
		"what Karpenter said before its removal began": {
			node: blocker.Node{Stays: true, Since: saidAt(2), Events: said(`Pod "default/job" has "karpenter.sh/do-not-disrupt" annotation`, 1)},
			want: node + "Karpenter to replace it",
		},
		"what Karpenter said since then": {
			node: blocker.Node{Stays: true, Since: saidAt(2), Initialized: true, Events: append(said("Node isn't initialized", 3), said("No node would fit.", 2)...)},
			want: node + "Karpenter to replace it; Karpenter reports: No node would fit",
		},
		"Karpenter has not repeated what it said": {
			node: blocker.Node{Stays: true, Events: said("No node would fit.", -600)},
			want: node + "Karpenter to replace it; Karpenter reports: No node would fit (last reported at 2026-01-01T11:49:00Z)",
		},
		"Karpenter named a budget that is gone": {
			node: blocker.Node{Stays: true, Events: said("Pdb prevents pod evictions (PodDisruptionBudget=[shop/api])", 1)}, budgets: []policyv1.PodDisruptionBudget{budget},
			want: node + "Karpenter to replace it",
		},
		"Karpenter named a budget that has room": {
			node: blocker.Node{Stays: true, Events: said("Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])", 1)}, budgets: []policyv1.PodDisruptionBudget{roomy},
			want: node + "Karpenter to replace it",
		},
		"Karpenter named a budget that allows nothing": {
			node: blocker.Node{Stays: true, Events: said("Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])", 1)}, budgets: []policyv1.PodDisruptionBudget{budget},
			want: node + "Karpenter to replace it; Karpenter reports: Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])",
		},
		"a NodeClaim with a finalizer of another controller, once its instance is terminated": {
			node: blocker.Node{Finalizers: []string{"acme.io/hold"}, Terminating: true, Pods: []corev1.Pod{pod()}},
			want: node + "another controller to remove finalizer acme.io/hold of NodeClaim/a; Karpenter is done with it" + unfinished("nodeclaim/a"),
		},
		"a NodeClaim that has lost Karpenter's finalizer while its instance runs": {
			node: blocker.Node{Finalizers: []string{"acme.io/hold"}},
			want: node + "another controller to remove finalizer acme.io/hold of NodeClaim/a; Karpenter's own finalizer was removed, and it is unknown whether EC2 has terminated the instance",
		},
		"a Node with a finalizer of another controller": {
			node: blocker.Node{Finalizers: []string{karpv1.TerminationFinalizer}, NodeFinalizers: []string{"acme.io/hold"}, Terminating: true},
			want: node + "another controller to remove finalizer acme.io/hold of Node/node-a; Karpenter is done with it" + unfinished("node/node-a"),
		},
		"a finalizer of another controller while Karpenter is at it": {
			node: blocker.Node{Finalizers: []string{karpv1.TerminationFinalizer, "acme.io/hold"}, Pods: []corev1.Pod{pod()}}, budgets: []policyv1.PodDisruptionBudget{budget},
			want: node + "pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption" + pastBudgets,
		},
		"EC2 terminates it": {
			node: blocker.Node{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", Finalizers: []string{karpv1.TerminationFinalizer}, Terminating: true},
			want: node + "EC2 to terminate i-0123456789abcdef0 (the request is accepted)",
		},
		"Karpenter does not replace it": {node: blocker.Node{Stays: true}, want: node + "Karpenter to replace it"},
		"only Karpenter knows": {
			node: blocker.Node{Waits: []string{"InstanceTerminating: the instance is shutting down"}},
			want: node + "InstanceTerminating: the instance is shutting down",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.node.Claim, c.node.Name = "a", "node-a"
			e := Evidence{Leader: Gate{Open: true}, Evidence: blocker.Evidence{
				Nodes: []blocker.Node{c.node}, Budgets: c.budgets, DaemonSets: plan.DaemonSets{Found: c.sets},
				Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
			}}
			removal := v1alpha1.Removal{Reason: ReasonNodeClaimsLeaving, Stalled: &metav1.Time{}}
			got, found := Diagnose(removal, Observation{Controller: Gate{Open: true}}, e)
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if strings.Contains(c.want, "at your own risk") != (len(found) == 1) {
				t.Errorf("commands: %+v", found)
			}
			removal.Stalled = nil
			if words, found := Diagnose(removal, Observation{Controller: Gate{Open: true}}, e); len(found) > 0 || strings.Contains(words, "risk") {
				t.Errorf("it may still go by itself: %s %+v", words, found)
			}
		})
	}
}

// saidAt returns a time some seconds after 11:59.
func saidAt(at int64) time.Time { return time.Date(2026, 1, 1, 11, 59, int(at), 0, time.UTC) }

// said returns an event with which Karpenter reports why it does not replace a node.
func said(message string, at int64) []corev1.Event {
	return []corev1.Event{{Reason: "DisruptionBlocked", Message: message, LastTimestamp: metav1.NewTime(saidAt(at))}}
}

// TestDiagnoseNamesTheController checks the message about a controller that drains nothing, or differs from its chart.
func TestDiagnoseNamesTheController(t *testing.T) {
	open := Gate{Open: true}
	for want, c := range map[string]struct{ controller, leader Gate }{
		"no node drains because Karpenter's controller does not run: deployment/karpenter is scaled to 0; ":            {Gate{Message: "deployment/karpenter is scaled to 0"}, open},
		"no node drains because Karpenter's controller has no leader: no pod holds the lease; ":                        {open, Gate{Message: "no pod holds the lease"}},
		"Karpenter's controller differs from its chart: deployment/karpenter: 1 of 2 replicas updated and available; ": {Gate{Open: true, Message: "deployment/karpenter: 1 of 2 replicas updated and available"}, open},
		"Karpenter's controller differs from Git: its image is of version 1.8.6; ":                                     {open, Gate{Open: true, Message: "its image is of version 1.8.6"}},
		"": {open, open},
	} {
		e := Evidence{Evidence: blocker.Evidence{Nodes: []blocker.Node{{Claim: "a", Name: "node-a"}}}, Leader: c.leader}
		got, _ := Diagnose(v1alpha1.Removal{Reason: ReasonNodeClaimsLeaving, Stalled: &metav1.Time{}}, Observation{Controller: c.controller}, e)
		if want += "node node-a (NodeClaim/a) waits for Karpenter to terminate it"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// TestKeptAreThoseThatOccupyTheSlots checks that the diagnosis looks at the terminating NodeClaims, which
// removal.maxUnavailable counts, and only if there are none at those that Karpenter has not started on.
func TestKeptAreThoseThatOccupyTheSlots(t *testing.T) {
	now := time.Unix(1000, 0)
	waiting, held := Claim{Name: "b", Node: "node-b"}, Claim{Name: "a", Node: "node-a", Deleting: time.Unix(1, 0), TerminationAccepted: true}
	for name, c := range map[string]struct {
		claims []Claim
		want   string
	}{
		"one is terminating": {[]Claim{waiting, held}, "a"},
		"none is":            {[]Claim{waiting}, "b"},
	} {
		it := &item{after: v1alpha1.Removal{Reason: ReasonNodeClaimsLeaving, LastProgress: metav1.Unix(1, 0)}}
		it.seen = Observation{Exists: true, NodeClaims: c.claims, Replacing: &Replacing{Nodes: 1}, Turn: Turn{Replaces: true}}
		if !it.seen.isIdle(it.after, now) {
			t.Fatalf("%s: Karpenter could replace one", name)
		}
		if kept := it.blockingClaims(now); len(kept) != 1 || kept[0].Name != c.want {
			t.Errorf("%s: %+v, want NodeClaim/%s", name, kept, c.want)
		}
	}
}

// TestADeletedObjectNamesItsFinalizers checks that the message names the finalizers, and who removes each.
func TestADeletedObjectNamesItsFinalizers(t *testing.T) {
	for want, finalizers := range map[string][]string{
		"terminating": nil,
		"terminating; waiting for another controller to remove finalizer acme.io/hold": {"acme.io/hold"},
		"terminating; waiting for Karpenter to remove finalizer karpenter.k8s.aws/termination, and another controller to remove finalizer acme.io/hold": {
			"karpenter.k8s.aws/termination", "acme.io/hold",
		},
	} {
		if got := (Observation{Finalizers: finalizers}).terminating(); got.message != want {
			t.Errorf("got  %q\nwant %q", got.message, want)
		}
	}
}
