package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestEqualValuesAreNoWrite: equal values are not written, however they are spelled, unless Karpenter's own hash
// differs.
func TestEqualValuesAreNoWrite(t *testing.T) {
	templated := func(more string) string {
		return strings.Replace(pool("general", "default"), "      requirements:", "      "+more+"\n      requirements:", 1)
	}
	required := func(list string) string {
		return strings.Replace(pool("general", "default"), "requirements: [", "requirements: ["+list+", ", 1)
	}
	arch, zones := "{key: kubernetes.io/arch, operator: In, values: [amd64]}", "{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}"
	for name, test := range map[string]struct {
		live, git string
		want      []string
	}{
		"cpu in millis":          {pool("general", "default", `limits: {cpu: "100"}`), pool("general", "default", `limits: {cpu: 100000m}`), nil},
		"cpu as a number":        {pool("general", "default", `limits: {cpu: "100"}`), pool("general", "default", `limits: {cpu: 100}`), nil},
		"memory in another unit": {pool("general", "default", `limits: {memory: 1Gi}`), pool("general", "default", `limits: {memory: "1073741824"}`), nil},
		"an extended resource":   {pool("general", "default", `limits: {nvidia.com/gpu: 1k}`), pool("general", "default", `limits: {nvidia.com/gpu: "1000"}`), nil},
		"another amount":         {pool("general", "default", `limits: {cpu: "100"}`), pool("general", "default", `limits: {cpu: 100001m}`), []string{"Update NodePool/general Differs spec.limits.cpu:100→100001m"}},
		"only what differs":      {pool("general", "default", `limits: {cpu: "100", memory: 1Gi}`), pool("general", "default", `limits: {cpu: 100000m, memory: 2Gi}`), []string{"Update NodePool/general Differs spec.limits.memory:1Gi→2Gi"}},
		"a time":                 {templated("expireAfter: 5m"), templated("expireAfter: 300s"), nil},
		"never is no time":       {templated("expireAfter: 5m"), templated("expireAfter: Never"), []string{"Update NodePool/general Differs spec.template.spec.expireAfter:5m→Never replaces 1"}},
		"a time of a budget": {
			pool("general", "default", `disruption: {consolidateAfter: 1h, budgets: [{nodes: "1", schedule: "@daily", duration: 1h}]}`),
			pool("general", "default", `disruption: {consolidateAfter: 60m, budgets: [{nodes: "1", schedule: "@daily", duration: 60m}]}`), nil,
		},
		"budgets and their reasons in another order": {
			pool("general", "default", `disruption: {consolidateAfter: 1h, budgets: [{nodes: "1", reasons: [Drifted, Empty]}, {nodes: "2", schedule: "@daily", duration: 1h}]}`),
			pool("general", "default", `disruption: {consolidateAfter: 1h, budgets: [{nodes: "2", schedule: "@daily", duration: 60m}, {nodes: "1", reasons: [Empty, Drifted]}]}`), nil,
		},
		"order of requirements": {required(arch + ", " + zones), required(zones + ", " + arch), nil},
		"order of their values": {required(zones), required(strings.Replace(zones, "a, b", "b, a", 1)), nil},
		"other requirements": {
			required(arch), required(zones),
			[]string{"Update NodePool/general Differs spec.template.spec.requirements[0].key:kubernetes.io/arch→topology.kubernetes.io/zone spec.template.spec.requirements[0].values:[\"amd64\"]→[\"a\",\"b\"] replaces 1"},
		},
		"a label that reads as a quantity": {
			pool("general, labels: {size: 1000m}", "default"), pool(`general, labels: {size: "1"}`, "default"),
			[]string{"Update NodePool/general Differs metadata.labels.size:1000m→1"},
		},
		"a disk": {class("default", "blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1Ti}}]"), class("default", "blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1024Gi}}]"), nil},
		"what the kubelet keeps is text to the hash": {
			class("default", "kubelet: {kubeReserved: {cpu: 100m}}"), class("default", `kubelet: {kubeReserved: {cpu: "0.1"}}`),
			[]string{
				"Update EC2NodeClass/default Differs spec.kubelet.kubeReserved.cpu:100m→0.1 replaces 1",
				"warning EC2NodeClass/default: spec.kubelet.kubeReserved.cpu changed in form only, not in value, but Karpenter's hash of the object changes, so Karpenter replaces its nodes",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			live, git := []string{class("default"), test.live}, []string{class("default"), test.git}
			if strings.Contains(test.live, "EC2NodeClass\nmetadata") {
				general := pool("general", "default")
				live, git = []string{test.live, general}, []string{test.git, general}
			}
			c.have(t, owner, live...)
			c.live.NodeClaims = []plan.NodeClaim{{Name: "general-1", UID: "1", Pool: "general", Class: "default", Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"})}}
			p := c.plan(t, git...)
			got := script(p)
			for _, change := range p.Changes {
				for _, warning := range change.Warnings {
					got = append(got, "warning "+warning)
				}
			}
			if diff := cmp.Diff(append([]string{}, test.want...), got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatGitOnlyWritesInAnotherWayIsNotNew: an edit of the object is still drift.
func TestWhatGitOnlyWritesInAnotherWayIsNotNew(t *testing.T) {
	limited := func(cpu string) string { return pool("general", "default", "limits: {cpu: "+cpu+"}", "weight: 1") }
	c := newCluster(t)
	c.have(t, owner, class("default"), limited("100"))
	c.edit(t, poolRef("general"), "kubectl-edit", int64(2), "spec", "weight")
	c.policy.Drift = v1alpha1.DriftReport
	c.policy.Applied = map[render.Ref]*unstructured.Unstructured{poolRef("general"): c.Definition(t, limited("100")).Defaulted}
	want := []string{"Drifted NodePool/general Differs spec.weight:2→1 by kubectl-edit"}
	if diff := cmp.Diff(want, script(c.plan(t, class("default"), limited("100000m")))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestAFieldOfAnotherApplierStaysAConflict even if its value is equal: an apply would take the ownership.
func TestAFieldOfAnotherApplierStaysAConflict(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"))
	c.edit(t, poolRef("general"), "kustomize-controller", "100", "spec", "limits", "cpu")
	want := []string{"Conflict NodePool/general OtherApplier spec.limits.cpu:100→100000m"}
	if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("general", "default", "limits: {cpu: 100000m}")))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}
