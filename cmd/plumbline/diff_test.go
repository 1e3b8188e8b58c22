package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// poolYAML returns a live NodePool.
func poolYAML(name, spec string) string {
	return `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `, uid: ` + name + `, labels: {plumbline.dev/nodesync: fleet.prod}}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  ` + spec + `
status: {nodes: 1}
`
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// aDiff returns a Plan with an object that is created, one that changes, one in a different notation, one with text
// that no terminal shows, and one that is removed.
func aDiff(t *testing.T) *planned {
	t.Helper()
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	live := map[render.Ref]*unstructured.Unstructured{}
	for name, spec := range map[string]string{"a": `limits: {cpu: "100", memory: 1Gi}`, "b": `limits: {cpu: "100"}`, "c": `weight: 1`, "gone": `weight: 1`} {
		live[render.Ref{Kind: render.NodePool, Name: name}] = object(t, poolYAML(name, spec))
		known.Default(live[render.Ref{Kind: render.NodePool, Name: name}])
	}
	live[render.Ref{Kind: render.NodePool, Name: "gone"}].SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:plumbline.dev/nodesync":{}}},"f:spec":{"f:weight":{}}}`),
	}})
	set := &render.Set{Revision: "main@sha1:0123"}
	for _, text := range []string{
		classYAML, poolYAML("a", `limits: {cpu: "200", memory: 1Gi}`), poolYAML("b", `limits: {cpu: 100000m}`),
		strings.Replace(poolYAML("c", `weight: 1`), "{plumbline", "{team: \"a\\u202eb\", plumbline", 1),
	} {
		desired := object(t, text)
		delete(desired.Object, "status")
		defaulted := desired.DeepCopy()
		known.Default(defaulted)
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: desired.GetKind(), Name: desired.GetName()}, Desired: desired, Defaulted: defaulted})
	}
	p := &planned{live: plan.Live{Objects: plan.NewObjects(live)}}
	if p.Plan, err = plan.Make(t.Context(), set, p.live, plan.Policy{Owner: plan.OwnerOf("fleet", "prod"), Adopt: v1alpha1.AdoptAlways, NewRevision: true}, known); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDiffPrints(t *testing.T) {
	var out, aside bytes.Buffer
	made := aDiff(t)
	if err := made.printDiff(newPlanReport(made), &out, &aside); err != nil {
		t.Fatal(err)
	}
	golden(t, "diff.txt", out.String()+"--- on stderr\n"+aside.String())
	if !redact.IsVisible(out.String()) {
		t.Errorf("shows not all that it has: %q", out.String())
	}
}

// TestDiffOfAFolder: without a cluster, everything is new.
func TestDiffOfAFolder(t *testing.T) {
	got := plumbline(t, "diff", examples(t)["basic"])
	if got.code != exitChanges || got.err != "" {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	golden(t, "diff-basic.txt", got.out)
}
