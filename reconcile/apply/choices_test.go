package apply_test

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// choices returns fields that Git or a person may set, with values that are valid in every combination.
func choices(kind string) map[string][]any {
	if kind == render.EC2NodeClass {
		return map[string][]any{
			"spec.userData":                         {"one", "two"},
			"spec.detailedMonitoring":               {true, false},
			"spec.tags.team":                        {"data", "web"},
			"spec.tags.tier":                        {"1"},
			"spec.metadataOptions.httpTokens":       {"required", "optional"},
			"spec.metadataOptions.httpEndpoint":     {"enabled"},
			"spec.kubelet.maxPods":                  {int64(50), int64(110)},
			"spec.kubelet.kubeReserved.cpu":         {"100m", "0.1", "200m"},
			"spec.blockDeviceMappings":              disks("1Ti", "1024Gi", "30Gi"),
			"spec.associatePublicIPAddress":         {true, false},
			"metadata.labels.team":                  {"data", "web"},
			"metadata.annotations.description":      {"a class"},
			"spec.metadataOptions.httpProtocolIPv6": {"enabled", "disabled"},
		}
	}
	arch := map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{"amd64"}}
	return map[string][]any{
		"spec.limits.cpu":                           {"10", "20", "20000m", int64(20)},
		"spec.limits.memory":                        {"1Gi", "2Gi", "2048Mi"},
		"spec.weight":                               {int64(1), int64(2)},
		"spec.disruption.consolidateAfter":          {"0s", "1m", "60s", "Never"},
		"spec.disruption.consolidationPolicy":       {"WhenEmpty", "WhenEmptyOrUnderutilized"},
		"spec.disruption.budgets":                   {[]any{map[string]any{"nodes": "5%"}}, []any{map[string]any{"nodes": "1"}, map[string]any{"nodes": "20%", "reasons": []any{"Drifted"}}}},
		"spec.template.metadata.labels.team":        {"data", "web"},
		"spec.template.metadata.labels.tier":        {"1"},
		"spec.template.metadata.annotations.note":   {"x"},
		"spec.template.spec.expireAfter":            {"24h", "1440m", "720h", "Never"},
		"spec.template.spec.terminationGracePeriod": {"1h"},
		"spec.template.spec.taints":                 {[]any{map[string]any{"key": "a", "effect": "NoSchedule"}}, []any{map[string]any{"key": "a", "effect": "NoSchedule"}, map[string]any{"key": "b", "value": "c", "effect": "NoExecute"}}},
		"spec.template.spec.requirements":           {[]any{capacity("spot", "on-demand"), arch}, []any{arch, capacity("on-demand", "spot")}, []any{arch}},
		"metadata.labels.team":                      {"data", "web"},
		"metadata.annotations.description":          {"a pool"},
		"spec.template.spec.startupTaints":          {[]any{map[string]any{"key": "s", "effect": "NoSchedule"}}},
	}
}

// disks returns block devices of a class, of several sizes.
func disks(sizes ...any) []any {
	var found []any
	for _, size := range sizes {
		found = append(found, []any{map[string]any{"deviceName": "/dev/xvda", "ebs": map[string]any{"volumeSize": size}}})
	}
	return found
}

func capacity(types ...any) map[string]any {
	return map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": types}
}

// required reports whether an edit must not remove a field.
func required(path string) bool { return path == "spec.template.spec.requirements" }

// steps splits a path; no key in choices contains a dot.
func steps(path string) []string {
	var keys []string
	for len(path) > 0 {
		i := 0
		for i < len(path) && path[i] != '.' {
			i++
		}
		keys = append(keys, path[:i])
		path = path[min(i+1, len(path)):]
	}
	return keys
}

// touch sets a random field of the object, or removes it.
func touch(t *rapid.T, object *unstructured.Unstructured, what string) {
	fields := choices(object.GetKind())
	paths := make([]string, 0, len(fields))
	for path := range fields {
		paths = append(paths, path)
	}
	path := rapid.SampledFrom(sorted(paths)).Draw(t, what+" field")
	if !required(path) && rapid.Bool().Draw(t, what+" takes away") {
		unstructured.RemoveNestedField(object.Object, steps(path)...)
		return
	}
	value := rapid.SampledFrom(fields[path]).Draw(t, what+" value")
	if err := unstructured.SetNestedField(object.Object, value, steps(path)...); err != nil {
		t.Fatal(err)
	}
}

// complete adds what the CRD requires together with a field (karpenter pkg/apis/crds/karpenter.sh_nodepools.yaml).
func complete(t *rapid.T, object *unstructured.Unstructured) {
	disruption, found, err := unstructured.NestedMap(object.Object, "spec", "disruption")
	if err != nil {
		t.Fatal(err)
	}
	if found && disruption["consolidateAfter"] == nil {
		disruption["consolidateAfter"] = "5m"
		object.Object["spec"].(map[string]any)["disruption"] = disruption
	}
}

// git returns a random repository with one class and up to two pools.
func git(t *rapid.T, known knowledge, what string) *render.Set {
	set := &render.Set{Revision: what}
	texts := []string{class, poolWithoutLimits}
	if rapid.Bool().Draw(t, what+" has a second pool") {
		texts = append(texts, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
`)
	}
	for _, text := range texts {
		desired := decode(t, text)
		for range rapid.IntRange(0, 4).Draw(t, what+" fields of "+desired.GetName()) {
			touch(t, desired, what)
		}
		complete(t, desired)
		defaulted := desired.DeepCopy()
		known.Default(defaulted)
		set.Objects = append(set.Objects, render.Object{
			Ref: render.Ref{Kind: desired.GetKind(), Name: desired.GetName()}, Desired: desired, Defaulted: defaulted,
		})
	}
	return set
}

// others randomly changes live objects. webhook reports whether a manager was involved whose fields stay.
func others(t *rapid.T, s server) (webhook bool) {
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		refs := make([]string, 0, 3)
		objects := s.Objects()
		byName := map[string]render.Ref{}
		for ref := range objects {
			refs, byName[ref.String()] = append(refs, ref.String()), ref
		}
		ref := byName[rapid.SampledFrom(sorted(refs)).Draw(t, "edited object")]
		manager := rapid.SampledFrom([]string{"kubectl-edit", "kubectl-client-side-apply", "k9s", "some-webhook", "kustomize-controller", v1alpha1.RemovalFieldManager}).Draw(t, "manager")
		if manager == v1alpha1.RemovalFieldManager {
			if ref.Kind == render.NodePool {
				stop(t, s, ref)
			}
			continue
		}
		webhook = webhook || manager == "some-webhook"
		s.Edit(t, ref, manager, func(o *unstructured.Unstructured) { touch(t, o, "edit") })
	}
	return webhook
}
