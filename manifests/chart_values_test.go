package manifests

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// typed decodes an object of the chart into its API type.
func typed[T any](t *testing.T, objects []object, name string) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict(find(t, objects, name).text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

func TestChartValuesOfThePods(t *testing.T) {
	objects := rendered(t, "plumbline-system", `
image: {repository: registry.example.com/plumbline, tag: v1, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
replicas: 0
resources: {limits: {memory: 1Gi}}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::111122223333:role/plumbline"}}
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
affinity: {podAntiAffinity: null}
podAnnotations: {example.com/scrape: "true"}
page: {enabled: true, url: "https://nodes.example.com"}
sourceNamespaces: [flux-system, fleet]
extraArgs: [--log-level=debug]
`)
	deployment := typed[appsv1.Deployment](t, objects, "Deployment plumbline-system/plumbline")
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	account := typed[corev1.ServiceAccount](t, objects, "ServiceAccount plumbline-system/plumbline")
	got := map[string]any{
		"image": container.Image, "pull": string(container.ImagePullPolicy), "secrets": pod.ImagePullSecrets, "replicas": *deployment.Spec.Replicas,
		"limit": container.Resources.Limits.Memory().String(), "request": container.Resources.Requests.Memory().String(),
		"account": account.Annotations, "selector": pod.NodeSelector, "tolerations": pod.Tolerations,
		"nodes": pod.Affinity.NodeAffinity != nil, "spread": pod.Affinity.PodAntiAffinity != nil,
		"annotations": deployment.Spec.Template.Annotations, "args": container.Args,
	}
	want := map[string]any{
		"image": "registry.example.com/plumbline:v1", "pull": "Always", "secrets": []corev1.LocalObjectReference{{Name: "registry"}}, "replicas": int32(0),
		"limit": "1Gi", "request": "128Mi",
		"account":     map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/plumbline"},
		"selector":    map[string]string{"kubernetes.io/os": "linux", "pool": "system"},
		"tolerations": []corev1.Toleration{{Key: "system", Operator: "Exists"}},
		"nodes":       true, "spread": false,
		"annotations": map[string]string{"example.com/scrape": "true"},
		"args":        []string{"run", "--leader-elect", "--cache-dir=/cache", "--webhook-addr=:9292", "--page-addr=localhost:8090", "--page-url=https://nodes.example.com", "--source-namespaces=flux-system,fleet", "--log-level=debug"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChartImage: a digest selects the image, whatever the tag.
func TestChartImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	objects := rendered(t, "plumbline-system", "image: {tag: v1, digest: '"+digest+"'}")
	deployment := typed[appsv1.Deployment](t, objects, "Deployment plumbline-system/plumbline")
	if got, want := deployment.Spec.Template.Spec.Containers[0].Image, "plumbline@"+digest; got != want {
		t.Errorf("image %s, want %s", got, want)
	}
}

// TestChartWithoutTheWebhook: there is no Service, no port, no argument, and no allowed traffic.
func TestChartWithoutTheWebhook(t *testing.T) {
	objects := rendered(t, "plumbline-system", "webhook: {enabled: false}")
	if slices.Contains(names(objects), "Service plumbline-system/plumbline-webhook") {
		t.Error("there is a Service")
	}
	if deployment := find(t, objects, "Deployment plumbline-system/plumbline"); strings.Contains(string(deployment.text), "webhook") {
		t.Errorf("the daemon listens for webhooks:\n%s", deployment.text)
	}
	policy := typed[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy plumbline-system/plumbline")
	if ports := policy.Spec.Ingress[0].Ports; len(ports) != 1 || ports[0].Port.StrVal != "metrics" {
		t.Errorf("ports %v are open, want metrics", ports)
	}
	moved := rendered(t, "plumbline-system", "networkPolicy: {metricsFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}")
	rules := typed[networkingv1.NetworkPolicy](t, moved, "NetworkPolicy plumbline-system/plumbline").Spec.Ingress
	if len(rules) != 2 || len(rules[0].From) != 1 || rules[0].From[0].IPBlock == nil || rules[0].Ports[0].Port.StrVal != "metrics" {
		t.Errorf("the metrics are open to %+v, want 10.0.0.0/8", rules)
	}
	closed := rendered(t, "plumbline-system", "networkPolicy: {metricsFrom: []}")
	for _, rule := range typed[networkingv1.NetworkPolicy](t, closed, "NetworkPolicy plumbline-system/plumbline").Spec.Ingress {
		if rule.Ports[0].Port.StrVal == "metrics" {
			t.Error("the metrics are open to everyone, want nobody")
		}
	}
	without := rendered(t, "plumbline-system", "networkPolicy: {enabled: false}")
	if slices.Contains(names(without), "NetworkPolicy plumbline-system/plumbline") {
		t.Error("there is a NetworkPolicy")
	}
}

// TestChartInOtherNamespaces: all bindings and policies use plumbline's namespace, and Karpenter's except for the
// cluster's DNS.
func TestChartInOtherNamespaces(t *testing.T) {
	objects := rendered(t, "nodes", "karpenterNamespace: karpenter")
	inDNS := []string{}
	for _, o := range objects {
		if strings.Contains(string(o.text), "plumbline-system") && o.Kind != "CustomResourceDefinition" {
			t.Errorf("%s names plumbline-system:\n%s", o, o.text)
		}
		if strings.Contains(string(o.text), "kube-system") {
			inDNS = append(inDNS, o.String())
		}
	}
	slices.Sort(inDNS)
	want := []string{
		"Role kube-system/plumbline-charts-dns", "Role kube-system/plumbline-charts-karpenter",
		"RoleBinding kube-system/plumbline-charts-dns", "RoleBinding kube-system/plumbline-charts-karpenter",
	}
	if diff := cmp.Diff(want, inDNS); diff != "" {
		t.Errorf("objects in kube-system (-want +got):\n%s", diff)
	}
	deployment := typed[appsv1.Deployment](t, objects, "Deployment nodes/plumbline")
	if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--karpenter-namespaces=karpenter") {
		t.Errorf("arguments %v, want --karpenter-namespaces=karpenter", args)
	}
	moved := []string{"Role karpenter/plumbline-karpenter", "RoleBinding karpenter/plumbline-karpenter", "Role karpenter/plumbline-charts", "Role karpenter/plumbline-charts-karpenter", "RoleBinding karpenter/plumbline-charts", "RoleBinding karpenter/plumbline-charts-karpenter"}
	for _, name := range moved {
		find(t, objects, name)
	}
	for name, home := range map[string]string{"plumbline-charts-bindings": "'karpenter'", "plumbline-charts-crds": "'karpenter'"} {
		var policy struct {
			Spec struct {
				Variables []struct{ Name, Expression string }
			}
		}
		if err := yaml.Unmarshal(find(t, objects, "ValidatingAdmissionPolicy /"+name).text, &policy); err != nil {
			t.Fatal(err)
		}
		if v := policy.Spec.Variables[0]; v.Name != "home" || v.Expression != home {
			t.Errorf("%s: %+v, want home %s", name, v, home)
		}
	}
}

// TestOptionalRoles: they are in the chart only with their values.
func TestOptionalRoles(t *testing.T) {
	for values, want := range map[string][]string{
		"":                                       {},
		"sourceNamespaces: [flux-system, fleet]": {"Role fleet/plumbline-sources", "Role flux-system/plumbline-sources", "RoleBinding fleet/plumbline-sources", "RoleBinding flux-system/plumbline-sources"},
		"charts: {valuesFrom: true}":             {"Role plumbline-system/plumbline-charts-values", "RoleBinding plumbline-system/plumbline-charts-values"},
		"charts: {manage: false, valuesFrom: true}":                       {},
		"{charts: {controllerLogs: true}, karpenterNamespace: karpenter}": {"Role karpenter/plumbline-charts-logs", "RoleBinding karpenter/plumbline-charts-logs"},
	} {
		got := []string{}
		for _, name := range names(rendered(t, "plumbline-system", values)) {
			if strings.HasSuffix(name, "/plumbline-sources") || strings.HasSuffix(name, "/plumbline-charts-values") || strings.HasSuffix(name, "/plumbline-charts-logs") {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", values, diff)
		}
	}
}

// TestTheChartRefusesWrongValues: nothing is installed then.
func TestTheChartRefusesWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                             "replica",
		"image: {repo: plumbline}":               "repo",
		"image: {tag: 1.14}":                     "string",
		"image: {digest: latest}":                "digest",
		"image: {pullPolicy: Sometimes}":         "pullPolicy",
		"imagePullSecrets: [registry]":           "object",
		"replicas: two":                          "integer",
		"resources: {limit: {memory: 1Gi}}":      "limit",
		"serviceAccount: {name: other}":          "name",
		"nodeSelector: {spot: false}":            "string",
		"tolerations: {key: system}":             "array",
		"affinity: {requiredNodes: []}":          "requiredNodes",
		"podAnnotations: {example.com/port: 80}": "string",
		"extraArgs: --log-level=debug":           "array",
		"extraArgs: [render]":                    "pattern",
		"sourceNamespaces: ['*']":                "pattern",
		"charts: {manage: External}":             "boolean",
		"karpenterNamespace: ''":                 "pattern",
		"webhook: {enabled: 'no'}":               "boolean",
		"serviceMonitor: {interval: 30s}":        "interval",
		"networkPolicy: false":                   "object",
	} {
		_, _, err := renderChart(t, "plumbline-system", values)
		if err == nil || !strings.Contains(err.Error(), "schema") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

// TestTheChartCanBeADependency: Helm adds its own values to those of a dependency.
func TestTheChartCanBeADependency(t *testing.T) {
	rendered(t, "plumbline-system", "global: {region: eu-west-1}")
}

// TestTheChartsTestIsNoReplica: Services and the disruption budget do not select its Pod, which has the daemon's
// account and image.
func TestTheChartsTestIsNoReplica(t *testing.T) {
	objects, tests, err := renderChart(t, "plumbline-system", "image: {tag: v1}")
	if err != nil || len(tests) != 1 {
		t.Fatalf("%d tests: %v", len(tests), err)
	}
	deployment := typed[appsv1.Deployment](t, objects, "Deployment plumbline-system/plumbline")
	pod := typed[corev1.Pod](t, tests, tests[0].String())
	selected := maps.All(deployment.Spec.Selector.MatchLabels)
	for key, value := range selected {
		if pod.Labels[key] == value {
			t.Errorf("it has the replicas' label %s=%s", key, value)
		}
	}
	replica := deployment.Spec.Template.Spec
	if pod.Spec.Containers[0].Image != replica.Containers[0].Image || pod.Spec.ServiceAccountName != replica.ServiceAccountName {
		t.Errorf("it runs %s as %s", pod.Spec.Containers[0].Image, pod.Spec.ServiceAccountName)
	}
	if diff := cmp.Diff(replica.Containers[0].SecurityContext, pod.Spec.Containers[0].SecurityContext); diff != "" {
		t.Errorf("it is confined otherwise than the daemon (-daemon +test):\n%s", diff)
	}
}
