package preflight

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

func nodeOf(name, zone, pool string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("", name, map[string]string{corev1.LabelTopologyZone: zone})}
	if pool != "" {
		n.Labels[karpv1.NodePoolLabelKey] = pool
		n.Spec.ProviderID = "aws:///" + zone + "/i-" + name
	}
	return n
}

func podOn(namespace, name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(namespace, name, labels), Spec: corev1.PodSpec{NodeName: node}}
}

func deploymentOf(namespace, name, image string, labels map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(namespace, name, labels), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}}}
}

// alive is an account with the instance i-b.
type alive struct{ account0 }

func (*alive) Instances(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "i-b", State: "running"}}, nil
}

// reader reads a cluster with these objects.
func reader(t *testing.T, objects ...client.Object) *Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.AddKnownTypes(poolKind.GroupVersion(), &karpv1.NodePool{}, &karpv1.NodePoolList{})
	return &Reader{
		AWS: &alive{}, API: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		ControllerLabels: map[string]string{"app.kubernetes.io/name": "karpenter"}, PlumblineLabels: map[string]string{"app.kubernetes.io/name": "plumbline"},
		Drains: blocker.Drains, Undisrupted: plan.Undisrupted, MostAllowed: plan.MostAllowed,
		NodeDaemonSets: func(all []appsv1.DaemonSet, drivers []string) []NodeDaemonSet {
			return []NodeDaemonSet{{Name: all[0].Name + " " + drivers[0]}}
		},
	}
}

func TestReadObjects(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	karpenters := map[string]string{"app.kubernetes.io/name": "karpenter"}
	limited := &karpv1.NodePool{ObjectMeta: meta("", "limited", nil)}
	limited.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	general := &karpv1.NodePool{ObjectMeta: meta("", "general", nil)}
	general.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
	general.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}, {Nodes: "10%"}}
	forEver := podOn("web", "for-ever", "b", nil)
	forEver.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	hours := podOn("web", "hours", "b", nil)
	hours.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "4h"}
	hours.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
	job := podOn("web", "job", "b", nil)
	job.Annotations, job.OwnerReferences = forEver.Annotations, []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "1", Controller: new(bool)}}
	*job.OwnerReferences[0].Controller = true
	r := reader(t,
		nodeOf("a", "eu-west-1a", ""), nodeOf("b", "eu-west-1b", "general"), nodeOf("c", "eu-west-1c", "limited"), general, limited,
		deploymentOf("kube-system", "karpenter", "controller:1.15.0", karpenters), deploymentOf("kube-system", "ca", "x/cluster-autoscaler:v1", nil),
		podOn("kube-system", "karpenter-1", "a", karpenters), podOn("kube-system", "karpenter-2", "b", karpenters), podOn("kube-system", "karpenter-3", "", karpenters),
		podOn("kube-system", "coredns-1", "a", map[string]string{"k8s-app": "kube-dns"}),
		podOn("web", "elsewhere", "c", nil), forEver, hours, job,
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "validation.webhook.karpenter.sh", nil)},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "policy.example.com", nil)},
		&storagev1.CSIDriver{ObjectMeta: meta("", "ebs.csi.aws.com", nil)}, &appsv1.DaemonSet{ObjectMeta: meta("kube-system", "ebs-csi-node", nil)},
		&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: meta("", "nodepools.karpenter.sh", nil), Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1beta1", "v1"}},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "karpenter.sh", Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}},
				Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter},
			},
		},
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", "widgets.example.com", nil), Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com"}},
	)
	o := r.Read(t.Context(), Checks(), Observed{Now: now, Cluster: "prod", Region: "eu-west-1"})

	if want := []Workload{
		{Name: "Karpenter's controller", Object: "kube-system/karpenter", Essential: true, Pods: []Place{
			{Pod: "kube-system/karpenter-1", Node: "a", Zone: "eu-west-1a"}, {Pod: "kube-system/karpenter-2", Node: "b", Zone: "eu-west-1b", Pool: "general"},
		}},
		{Name: "CoreDNS", Object: "kube-system/coredns", Pods: []Place{{Pod: "kube-system/coredns-1", Node: "a", Zone: "eu-west-1a"}}},
	}; o.Workloads.Err != nil || cmp.Diff(want, o.Workloads.Of) != "" {
		t.Errorf("workloads (-want +got), error %v:\n%s", o.Workloads.Err, cmp.Diff(want, o.Workloads.Of))
	}
	if diff := cmp.Diff([]string{"eu-west-1a"}, o.SystemZones); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Autoscaler{{"kube-system", "ca", 1}}, o.Autoscalers.Of); diff != "" {
		t.Errorf("autoscalers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Webhook{{"ValidatingWebhookConfiguration", "validation.webhook.karpenter.sh"}}, o.Webhooks.Of); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]CRD{{Name: "nodepools.karpenter.sh", Stored: []string{"v1beta1", "v1"}, Versions: []string{"v1"}, Converts: true}}, o.CRDs.Of); diff != "" {
		t.Errorf("CRDs (-want +got):\n%s", diff)
	}
	undisrupted := map[string]bool{}
	for _, p := range o.Pods.Of {
		undisrupted[p.Name] = p.Undisrupted
	}
	if diff := cmp.Diff(map[string]bool{"karpenter-2": false, "for-ever": true, "hours": false, "job": false}, undisrupted); diff != "" {
		t.Errorf("pods (-want +got), error %v:\n%s", o.Pods.Err, diff)
	}
	if want := []PoolBudgets{
		{Pool: "general", Most: map[string]int{"Drifted": 0, "Underutilized": 1, "Empty": 1}, Expires: 720 * time.Hour},
		{Pool: "limited", Most: map[string]int{"Drifted": 1, "Underutilized": 1, "Empty": 1}},
	}; cmp.Diff(want, o.PoolBudgets) != "" {
		t.Errorf("budgets (-want +got):\n%s", cmp.Diff(want, o.PoolBudgets))
	}
	if diff := cmp.Diff([]NodeDaemonSet{{Name: "ebs-csi-node ebs.csi.aws.com"}}, o.DaemonSets.Of); diff != "" {
		t.Errorf("DaemonSets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]LostNode{{"c", "aws:///eu-west-1c/i-c"}}, o.LostNodes.Of); diff != "" {
		t.Errorf("lost nodes (-want +got), error %v:\n%s", o.LostNodes.Err, diff)
	}
	if o.Version != "1.15.0" {
		t.Errorf("version %s", o.Version)
	}
}

// TestAgain checks that a query over the budget is repeated when the budget allows it, and is unknown if it may not wait.
func TestAgain(t *testing.T) {
	asked, until := 0, time.Unix(100, 0)
	query := func() (int, error) {
		if asked++; asked == 1 {
			return 0, &resolve.BusyError{Action: "ec2:DescribeSubnets", Again: until}
		}
		return 1, nil
	}
	var waited time.Time
	r := &Reader{Wait: func(_ context.Context, at time.Time) error { waited = at; return nil }}
	if got, err := again(t.Context(), r, query); got != 1 || err != nil || !waited.Equal(until) {
		t.Errorf("%d, error %v, waited until %s", got, err, waited)
	}
	asked = 0
	if _, err := again(t.Context(), &Reader{}, query); err == nil {
		t.Error("it was repeated at once")
	}
}
