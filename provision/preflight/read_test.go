package preflight

import (
	"context"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	"github.com/plumbline-dev/plumbline/provision/leftover"
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

func (*alive) Fleet(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "i-b", State: "running"}}, nil
}

func (*alive) Volumes(context.Context, string) cloud.Answer {
	return cloud.Answer{Resources: []cloud.Resource{{Kind: cloud.KindVolume, ID: "vol-left"}, {Kind: cloud.KindVolume, ID: "vol-used"}}}
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
	scheme.AddKnownTypes(poolKind.GroupVersion(), &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	scheme.AddKnownTypes(classKind.GroupVersion(), &awsv1.EC2NodeClass{}, &awsv1.EC2NodeClassList{})
	return &Reader{
		AWS: &alive{}, API: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		ControllerLabels: map[string]string{"app.kubernetes.io/name": "karpenter"}, PlumblineLabels: map[string]string{"app.kubernetes.io/name": "plumbline"},
		Drains: blocker.Drains, Undisrupted: plan.Undisrupted,
		Allowed: func(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason, now time.Time) (Allowed, error) {
			found, err := plan.ExtremesOf(pool, nodes, reason, now)
			return Allowed(found), err
		},
		Idle: func(context.Context, client.Reader, string, time.Time) (string, error) { return "it is idle", nil },
		Volumes: func(context.Context) (map[string]leftover.Volume, error) {
			return map[string]leftover.Volume{"vol-used": {Name: "pv-1"}}, nil
		},
		KarpenterCRDs: func(context.Context, string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
			return []*apiextensionsv1.CustomResourceDefinition{{
				ObjectMeta: meta("", "nodepools.karpenter.sh", nil),
				Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2", Served: true}}},
			}}, nil
		},
		NodeDaemonSets: func(all []appsv1.DaemonSet, drivers []string) []NodeDaemonSet {
			return []NodeDaemonSet{{Name: all[0].Name + " " + strings.Join(drivers, "")}}
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
	old := nodeOf("old", "eu-west-1c", "")
	old.Labels["karpenter.sh/provisioner-name"] = "default"
	killed := podOn("kube-system", "karpenter-1", "a", karpenters)
	killed.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.NewTime(now)},
	}}}
	r := reader(t,
		nodeOf("a", "eu-west-1a", ""), nodeOf("b", "eu-west-1b", "general"), nodeOf("c", "eu-west-1c", "limited"), general, limited,
		deploymentOf("kube-system", "karpenter", "controller:1.15.0", karpenters), deploymentOf("kube-system", "ca", "x/cluster-autoscaler:v1", nil),
		killed, old, podOn("kube-system", "karpenter-2", "b", karpenters), podOn("kube-system", "karpenter-3", "", karpenters),
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
	if diff := cmp.Diff([]string{"eu-west-1a", "eu-west-1c"}, o.SystemZones); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Autoscaler{{"kube-system", "ca", 1}}, o.Autoscalers.Of); diff != "" {
		t.Errorf("autoscalers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Webhook{{"ValidatingWebhookConfiguration", "validation.webhook.karpenter.sh"}}, o.Webhooks.Of); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]CRD{{Name: "nodepools.karpenter.sh", Stored: []string{"v1beta1", "v1"}, Versions: []string{"v1"}, Converts: true, Missing: []string{"nodepools.karpenter.sh v2"}}}, o.CRDs.Of); diff != "" {
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
		{Pool: "general", Allowed: map[string]Allowed{"Drifted": {}, "Underutilized": {Most: 1, All: now}, "Empty": {Most: 1, All: now}}, Expires: 720 * time.Hour},
		{Pool: "limited", Allowed: map[string]Allowed{"Drifted": {Most: 1, All: now}, "Underutilized": {Most: 1, All: now}, "Empty": {Most: 1, All: now}}},
	}; cmp.Diff(want, o.PoolBudgets) != "" {
		t.Errorf("budgets (-want +got):\n%s", cmp.Diff(want, o.PoolBudgets))
	}
	if diff := cmp.Diff([]NodeDaemonSet{{Name: "ebs-csi-node ebs.csi.aws.com"}}, o.DaemonSets.Of); diff != "" {
		t.Errorf("DaemonSets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]LostNode{{"c", "aws:///eu-west-1c/i-c"}}, o.LostNodes.Of); diff != "" {
		t.Errorf("lost nodes (-want +got), error %v:\n%s", o.LostNodes.Err, diff)
	}
	if diff := cmp.Diff([]string{"old"}, o.OldNodes.Of); diff != "" {
		t.Errorf("nodes of older versions (-want +got), error %v:\n%s", o.OldNodes.Err, diff)
	}
	oom := []OutOfMemory{{Pod: "kube-system/karpenter-1", At: now, Restarts: 2}}
	if diff := cmp.Diff(oom, o.OutOfMemory.Of, cmpopts.EquateApproxTime(time.Second)); diff != "" || o.Idle.Of != "it is idle" {
		t.Errorf("idle: %q, out of memory (-want +got):\n%s", o.Idle.Of, diff)
	}
	var left []string
	for _, f := range o.Left.Of {
		left = append(left, f.ID)
	}
	if diff := cmp.Diff([]string{"vol-left"}, left); diff != "" || o.Left.Err != nil {
		t.Errorf("left in AWS (-want +got), error %v:\n%s", o.Left.Err, diff)
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

// keyed is an account with an encrypted queue, and one isolated subnet.
type keyed struct {
	account0

	key  string
	vpcs []string
}

func (k *keyed) Queue(context.Context, string) (cloud.Queue, error) {
	return cloud.Queue{Key: k.key}, nil
}

func (k *keyed) Key(_ context.Context, id string) (cloud.Key, error) {
	return cloud.Key{ARN: "arn:" + id}, nil
}

func (k *keyed) SubnetsByID(context.Context, []string) (map[string]cloud.Subnet, error) {
	return map[string]cloud.Subnet{"a": {VPC: "vpc-1", DefaultRoute: "nat-1"}, "b": {VPC: "vpc-2"}, "c": {VPC: "vpc-2"}}, nil
}

func (k *keyed) Endpoints(_ context.Context, vpcs []string) ([]cloud.Endpoint, error) {
	k.vpcs = vpcs
	return []cloud.Endpoint{{ID: "vpce-1", Groups: []string{"sg-2", "sg-1"}}}, nil
}

func (k *keyed) SecurityGroupsByID(_ context.Context, ids []string) (map[string]cloud.SecurityGroup, error) {
	all := map[string]cloud.SecurityGroup{}
	for _, id := range ids {
		all[id] = cloud.SecurityGroup{ID: id}
	}
	return all, nil
}

// TestReadOnlyIfNeeded checks that a key is read unless it is AWS's own, and the endpoints of isolated subnets only,
// with their security groups.
func TestReadOnlyIfNeeded(t *testing.T) {
	for key, want := range map[string]string{"": "", "alias/aws/sqs": "", "abc": "arn:abc"} {
		aws := &keyed{key: key}
		r := &Reader{AWS: aws, API: fake.NewClientBuilder().Build()}
		o := Observed{Controllers: Value[[]Controller]{Of: []Controller{{Environment: map[string]string{"INTERRUPTION_QUEUE": "prod"}}}}}
		r.queue(t.Context(), &o)
		if got := o.QueueKey.Of; (got == nil) != (want == "") || got != nil && got.ARN != want {
			t.Errorf("key %q: %+v, want %q", key, got, want)
		}
		r.network(t.Context(), &o)
		if diff := cmp.Diff([]string{"vpc-2"}, aws.vpcs); diff != "" || len(o.Endpoints.Of) != 1 {
			t.Errorf("endpoints of (-want +got):\n%s", diff)
		}
		if len(o.Groups.Of) != 2 {
			t.Errorf("the groups of endpoints were not read: %v", o.Groups.Of)
		}
	}
}
