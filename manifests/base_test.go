package manifests

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
)

// object has the fields of a base's object that tests use.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Rules []rbacv1.PolicyRule `json:"rules"`

	text []byte
}

func (o object) String() string {
	return strings.TrimSuffix(o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name, "/")
}

// build runs `kustomize build`.
func build(t *testing.T, dir string) []object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, text)
}

// objectsOf returns the objects in YAML documents.
func objectsOf(t *testing.T, documents []byte) []object {
	t.Helper()
	var objects []object
	for _, text := range bytes.Split(documents, []byte("\n---\n")) {
		o := object{text: text}
		if err := yaml.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func find(t *testing.T, objects []object, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.String() == name {
			return o
		}
	}
	t.Fatalf("the base has no %s", name)
	return object{}
}

func names(objects []object) []string {
	var list []string
	for _, o := range objects {
		list = append(list, o.String())
	}
	slices.Sort(list)
	return list
}

func TestTheBase(t *testing.T) {
	want := []string{
		"ClusterRole /plumbline", "ClusterRole /plumbline-approver", "ClusterRole /plumbline-charts", "ClusterRole /plumbline-charts-karpenter", "ClusterRole /plumbline-emergency", "ClusterRole /plumbline-metrics-reader",
		"ClusterRoleBinding /plumbline", "ClusterRoleBinding /plumbline-charts", "ClusterRoleBinding /plumbline-charts-karpenter",
		"CustomResourceDefinition /approvals.plumbline.dev", "CustomResourceDefinition /nodesyncs.plumbline.dev",
		"Deployment plumbline-system/plumbline",
		"Namespace /plumbline-system",
		"NetworkPolicy plumbline-system/plumbline",
		"PodDisruptionBudget plumbline-system/plumbline",
		"Role default/plumbline-events",
		"Role kube-system/plumbline-charts", "Role kube-system/plumbline-charts-dns", "Role kube-system/plumbline-charts-karpenter", "Role kube-system/plumbline-karpenter",
		"Role plumbline-system/plumbline",
		"RoleBinding default/plumbline-events",
		"RoleBinding kube-system/plumbline-charts", "RoleBinding kube-system/plumbline-charts-dns", "RoleBinding kube-system/plumbline-charts-karpenter", "RoleBinding kube-system/plumbline-karpenter",
		"RoleBinding plumbline-system/plumbline",
		"Service plumbline-system/plumbline-metrics", "Service plumbline-system/plumbline-webhook",
		"ServiceAccount plumbline-system/plumbline",
		"ValidatingAdmissionPolicy /plumbline-charts-bindings",
		"ValidatingAdmissionPolicy /plumbline-charts-crds",
		"ValidatingAdmissionPolicy /plumbline-charts-handed-on", "ValidatingAdmissionPolicy /plumbline-charts-identity",
		"ValidatingAdmissionPolicy /plumbline-charts-metadata",
		"ValidatingAdmissionPolicy /plumbline-charts-objects",
		"ValidatingAdmissionPolicy /plumbline-charts-pods",
		"ValidatingAdmissionPolicy /plumbline-charts-roles",
		"ValidatingAdmissionPolicy /plumbline-charts-secrets",
		"ValidatingAdmissionPolicy /plumbline-guard-approvals",
		"ValidatingAdmissionPolicy /plumbline-guard-charts", "ValidatingAdmissionPolicy /plumbline-guard-crds", "ValidatingAdmissionPolicy /plumbline-guard-definitions", "ValidatingAdmissionPolicy /plumbline-guard-emergency",
		"ValidatingAdmissionPolicy /plumbline-guard-finalizers", "ValidatingAdmissionPolicy /plumbline-guard-namespaces", "ValidatingAdmissionPolicy /plumbline-guard-nodesyncs",
		"ValidatingAdmissionPolicy /plumbline-guard-ownership", "ValidatingAdmissionPolicy /plumbline-guard-releases",
		"ValidatingAdmissionPolicy /plumbline-records",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-bindings",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-crds",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-handed-on", "ValidatingAdmissionPolicyBinding /plumbline-charts-identity",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-metadata",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-objects",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-pods",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-roles",
		"ValidatingAdmissionPolicyBinding /plumbline-charts-secrets",
		"ValidatingAdmissionPolicyBinding /plumbline-guard-approvals",
		"ValidatingAdmissionPolicyBinding /plumbline-guard-charts", "ValidatingAdmissionPolicyBinding /plumbline-guard-crds", "ValidatingAdmissionPolicyBinding /plumbline-guard-definitions", "ValidatingAdmissionPolicyBinding /plumbline-guard-emergency",
		"ValidatingAdmissionPolicyBinding /plumbline-guard-finalizers", "ValidatingAdmissionPolicyBinding /plumbline-guard-namespaces", "ValidatingAdmissionPolicyBinding /plumbline-guard-nodesyncs",
		"ValidatingAdmissionPolicyBinding /plumbline-guard-ownership", "ValidatingAdmissionPolicyBinding /plumbline-guard-releases",
		"ValidatingAdmissionPolicyBinding /plumbline-records",
	}
	if diff := cmp.Diff(want, names(build(t, "."))); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	external := slices.DeleteFunc(want, func(name string) bool {
		return strings.Contains(name, "plumbline-charts") || strings.HasSuffix(name, "-guard-releases")
	})
	if diff := cmp.Diff(external, names(build(t, "external"))); diff != "" {
		t.Errorf("objects of external (-want +got):\n%s", diff)
	}
}

// TestLimitsWithoutTheGuard: the policies that limit what plumbline may write are in the folders with its rights. The
// daemon compares them with --deletion-guard=false, too, with which guard/ is not installed.
func TestLimitsWithoutTheGuard(t *testing.T) {
	installed := slices.Concat(build(t, "core"), build(t, "rbac-charts"))
	wanted, err := deletion.Wanted(deletion.Setup{Namespace: "plumbline-system", Karpenter: "kube-system", Charts: true, WithoutGuard: true})
	if err != nil || len(wanted) < 2 {
		t.Fatalf("%d policies, %v", len(wanted), err)
	}
	for _, want := range wanted {
		find(t, installed, "ValidatingAdmissionPolicy /"+want.Policy.Name)
		find(t, installed, "ValidatingAdmissionPolicyBinding /"+want.Policy.Name)
	}
}

func TestTheCRDOutlivesAHelmRelease(t *testing.T) {
	crd := find(t, build(t, "."), "CustomResourceDefinition /nodesyncs.plumbline.dev")
	if crd.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("annotations are %v", crd.Metadata.Annotations)
	}
}

// TestServicesLeadToPorts: the port of each Service is one of the container's.
func TestServicesLeadToPorts(t *testing.T) {
	objects := build(t, ".")
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(find(t, objects, "Deployment plumbline-system/plumbline").text, &deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for _, name := range []string{"Service plumbline-system/plumbline-metrics", "Service plumbline-system/plumbline-webhook"} {
		var service corev1.Service
		if err := yaml.UnmarshalStrict(find(t, objects, name).text, &service); err != nil {
			t.Fatal(err)
		}
		if to := service.Spec.Ports[0].TargetPort.StrVal; ports[to] == 0 {
			t.Errorf("%s leads to port %q, of %v", name, to, ports)
		}
	}
	if want := fmt.Sprintf("--webhook-addr=:%d", ports["webhook"]); !slices.Contains(container.Args, want) {
		t.Errorf("the daemon's arguments are %v, want %s among them", container.Args, want)
	}
}

// TestTheNetworkPolicyNamesPorts: the policy allows only ports that the container has.
func TestTheNetworkPolicyNamesPorts(t *testing.T) {
	objects := build(t, ".")
	var policy networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict(find(t, objects, "NetworkPolicy plumbline-system/plumbline").text, &policy); err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(find(t, objects, "Deployment plumbline-system/plumbline").text, &deployment); err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template
	for key, value := range policy.Spec.PodSelector.MatchLabels {
		if template.Labels[key] != value {
			t.Errorf("the policy is for pods with %s=%s, the daemon's have %v", key, value, template.Labels)
		}
	}
	open := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.StrVal] = true
			if named := len(rule.From) > 0; port.Port.StrVal == "metrics" && !named {
				t.Error("any pod may connect to the metrics")
			}
		}
	}
	for _, port := range template.Spec.Containers[0].Ports {
		if want := port.Name != "health"; open[port.Name] != want {
			t.Errorf("port %s is open: %t, want %t", port.Name, open[port.Name], want)
		}
		delete(open, port.Name)
	}
	if len(open) > 0 {
		t.Errorf("the policy opens ports that the daemon has not: %v", open)
	}
}

// TestTheServiceMonitorFindsTheService: it matches by labels and by port.
func TestTheServiceMonitorFindsTheService(t *testing.T) {
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct{ Port, Scheme string }
		}
	}
	if err := yaml.Unmarshal(find(t, build(t, "monitoring"), "ServiceMonitor plumbline-system/plumbline").text, &monitor); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, o := range build(t, ".") {
		if o.Kind != "Service" {
			continue
		}
		var service corev1.Service
		if err := yaml.UnmarshalStrict(o.text, &service); err != nil {
			t.Fatal(err)
		}
		matches := true
		for key, value := range monitor.Spec.Selector.MatchLabels {
			matches = matches && service.Labels[key] == value
		}
		endpoint := monitor.Spec.Endpoints[0]
		if matches && service.Spec.Ports[0].Name == endpoint.Port && endpoint.Scheme == "https" {
			found = append(found, service.Name)
		}
	}
	if diff := cmp.Diff([]string{"plumbline-metrics"}, found); diff != "" {
		t.Errorf("services that are scraped (-want +got):\n%s", diff)
	}
}

func TestTheDaemonCannotHarmItsNode(t *testing.T) {
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(find(t, build(t, "."), "Deployment plumbline-system/plumbline").text, &deployment); err != nil {
		t.Fatal(err)
	}
	spec := deployment.Spec.Template.Spec
	if *deployment.Spec.Replicas != 2 || spec.PriorityClassName != "system-cluster-critical" || !*spec.SecurityContext.RunAsNonRoot {
		t.Errorf("replicas %d, priority %q, security %+v", *deployment.Spec.Replicas, spec.PriorityClassName, spec.SecurityContext)
	}
	term := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != "karpenter.sh/nodepool" || term.Operator != "DoesNotExist" {
		t.Errorf("it may run on a node that Karpenter owns: %+v", term)
	}
	security := spec.Containers[0].SecurityContext
	if !*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation || !slices.Contains(security.Capabilities.Drop, "ALL") {
		t.Errorf("the container's security is %+v", security)
	}
	for _, volume := range spec.Volumes {
		if volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil {
			t.Errorf("volume %s has no size limit", volume.Name)
		}
	}
}

// TestTheMemoryLimitFitsTheChildren: if the sum exceeded the limit, a commit that makes two children large would kill
// the daemon.
func TestTheMemoryLimitFitsTheChildren(t *testing.T) {
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(find(t, build(t, "."), "Deployment plumbline-system/plumbline").text, &deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	limit := container.Resources.Limits.Memory().Value()
	const atOnce = 2
	i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	own := resource.MustParse(strings.TrimSuffix(container.Env[i].Value, "B"))
	if sum := own.Value() + atOnce*confine.DefaultLimits().Memory; sum > limit {
		t.Errorf("the daemon and its children may take %d MiB, the limit is %d MiB", sum>>20, limit>>20)
	}
}
