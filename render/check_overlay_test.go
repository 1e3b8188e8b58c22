package render_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// overlay returns a NodeOverlay whose spec has these lines; its requirements are in line 6.
func overlay(spec ...string) string {
	return "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata:\n  name: cheap\nspec:\n  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]\n  " + strings.Join(spec, "\n  ") + "\n"
}

// buffer returns a CapacityBuffer of the namespace shop; the first line of its spec is the seventh.
func buffer(spec ...string) string {
	return "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata:\n  name: headroom\n  namespace: shop\nspec:\n  " + strings.Join(spec, "\n  ") + "\n"
}

// TestOverlaysAndBuffersThatKarpenterRefuses: what its controllers report only after an apply is an error with file and
// line, and a mistake has one message.
func TestOverlaysAndBuffersThatKarpenterRefuses(t *testing.T) {
	with := func(key, operator, values string) string {
		return strings.Replace(overlay("price: \"0.1\""), "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}", "{key: "+key+", operator: "+operator+", values: ["+values+"]}", 1)
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a price":                    {overlay("price: \"0.1\""), nil},
		"an adjustment":              {overlay("priceAdjustment: -10%"), nil},
		"a resource":                 {overlay("capacity: {acme.io/fuse: 4}"), nil},
		"a negative price":           {overlay("price: \"-0.1\""), []string{"a.yaml:7: NodeOverlay/cheap: spec.price is -0.1, but a price cannot be negative: give USD per hour, or lower the list price with spec.priceAdjustment, such as -10%"}},
		"an adjustment, no sign":     {overlay("priceAdjustment: \"0.1\""), []string{"a.yaml:7: NodeOverlay/cheap: spec.priceAdjustment is 0.1, and needs a sign"}},
		"an adjustment below zero":   {overlay("priceAdjustment: -150%"), []string{"a.yaml:7: NodeOverlay/cheap: spec.priceAdjustment is -150%, and cannot lower a price by more than 100%"}},
		"both":                       {overlay("price: \"0.1\"", "priceAdjustment: -10%"), []string{"a.yaml:5: NodeOverlay/cheap: spec: Invalid value: cannot set both 'price' and 'priceAdjustment'"}},
		"a resource of the type":     {overlay("capacity: {cpu: 4}"), []string{"a.yaml:7: NodeOverlay/cheap: spec.capacity: Invalid value: invalid resource restricted"}},
		"a wrong operator":           {with("acme.io/team", "Is", "a"), []string{"a.yaml:6: NodeOverlay/cheap: spec.requirements[0].operator: Unsupported value: \"Is\""}},
		"a label that is Karpenters": {with("karpenter.sh/initialized", "In", "a"), []string{`a.yaml:6: NodeOverlay/cheap: spec.requirements[0].key: Invalid value: "karpenter.sh/initialized": label domain "karpenter.sh" is restricted`}},
		"no such architecture":       {with("kubernetes.io/arch", "In", "x86"), []string{"a.yaml:6: NodeOverlay/cheap: no instance type has kubernetes.io/arch in [x86]"}},
		"no number":                  {with("karpenter.k8s.aws/instance-cpu", "Gt", `"1", "2"`), []string{"a.yaml:6: NodeOverlay/cheap: spec.requirements: Invalid value: "}},
		"a label of an annotation":   {with("topology.kubernetes.io/zone", "In", "a b"), []string{"a.yaml:6: NodeOverlay/cheap: spec.requirements[0]: invalid value a b for key topology.kubernetes.io/zone"}},

		"pods of a template": {buffer("podTemplateRef: {name: web}", "replicas: 2"), nil},
		"pods of a workload": {buffer("scalableRef: {apiGroup: apps, kind: Deployment, name: web}", "percentage: 20"), nil},
		"no pods":            {buffer("replicas: 2"), []string{"a.yaml:6: CapacityBuffer/shop/headroom: spec has neither podTemplateRef nor scalableRef"}},
		"pods of both":       {buffer("podTemplateRef: {name: web}", "scalableRef: {kind: Deployment, name: web}", "replicas: 2"), []string{"a.yaml:6: CapacityBuffer/shop/headroom: spec: Invalid value: You must define either PodTemplateRef or ScalableRef, but not both"}},
		"any number of pods": {buffer("podTemplateRef: {name: web}"), []string{"a.yaml:6: CapacityBuffer/shop/headroom: spec: Invalid value: If podTemplateRef is set, replicas or limits must also be set"}},
		"fewer than none":    {buffer("podTemplateRef: {name: web}", "replicas: -1"), []string{"a.yaml:8: CapacityBuffer/shop/headroom: spec.replicas: Invalid value: -1: should be greater than or equal to 0"}},
		"of another kind":    {buffer("scalableRef: {kind: DaemonSet, name: web}", "replicas: 1"), []string{"a.yaml:7: CapacityBuffer/shop/headroom: spec.scalableRef.kind is DaemonSet, and Karpenter supports only Deployment, StatefulSet, ReplicaSet"}},
		"of another group":   {buffer("scalableRef: {apiGroup: acme.io, kind: Deployment, name: web}", "replicas: 1"), []string{"a.yaml:7: CapacityBuffer/shop/headroom: spec.scalableRef.apiGroup is acme.io, and Karpenter supports only apps"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": tc.text}), ".", embedded(t))
			var found render.Errors
			if err != nil && !errors.As(err, &found) {
				t.Fatal(err)
			}
			if len(found) != len(tc.want) || err == nil && len(set.Warnings) > 0 {
				t.Fatalf("errors %v, want %q, with no warnings", err, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(found[i].Error(), want) {
					t.Errorf("error %q, want %q", found[i].Error(), want)
				}
			}
		})
	}
}

// TestOverlaysAndBuffersWithoutEffect: Karpenter accepts them, and reports nothing.
func TestOverlaysAndBuffersWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		overlay("weight: 1"): "NodeOverlay/cheap has no effect: it has neither price, priceAdjustment nor capacity",
		buffer("scalableRef: {kind: Deployment, name: web}"):                   "CapacityBuffer/shop/headroom reserves no capacity: it has neither replicas, percentage nor limits",
		buffer("podTemplateRef: {name: web}", "replicas: 1", "percentage: 10"): "CapacityBuffer/shop/headroom: spec.percentage has no effect without scalableRef",
	} {
		set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a.yaml:1: " + want}, set.Warnings); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	}
}

// TestOverlaysComeBeforePoolsAndBuffersAfter: whatever their names and files are.
func TestOverlaysComeBeforePoolsAndBuffersAfter(t *testing.T) {
	set, err := renderAll(t, folder(map[string]string{
		"plumbline.yaml": plumblineYAML, "a.yaml": buffer("podTemplateRef: {name: web}", "replicas: 1"), "b.yaml": pool("a"), "c.yaml": overlay("price: \"1\""), "d.yaml": class("default"),
	}), ".", embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"EC2NodeClass/default d.yaml:1", "NodeOverlay/cheap c.yaml:1", "NodePool/a b.yaml:1", "CapacityBuffer/shop/headroom a.yaml:1"}
	if diff := cmp.Diff(want, placed(set)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestABufferIsDefinedOnceInANamespace: the same name in another namespace is another object.
func TestABufferIsDefinedOnceInANamespace(t *testing.T) {
	text := buffer("podTemplateRef: {name: web}", "replicas: 1")
	files := map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text, "b.yaml": strings.Replace(text, "namespace: shop", "namespace: bank", 1)}
	if _, err := renderAll(t, folder(files), ".", embedded(t)); err != nil {
		t.Error(err)
	}
	files["b.yaml"] = text
	if _, err := renderAll(t, folder(files), ".", embedded(t)); err == nil || !strings.Contains(err.Error(), "CapacityBuffer/shop/headroom is defined twice, first in a.yaml:1") {
		t.Errorf("error %v", err)
	}
}

// TestPoolsThatAnOverlaySelects: those that it names, and none if it excludes some or names none.
func TestPoolsThatAnOverlaySelects(t *testing.T) {
	text := strings.Replace(overlay("price: \"1\""), "node.kubernetes.io/instance-type, operator: In, values: [m5.large]", "karpenter.sh/nodepool, operator: In, values: [a, genral]", 1)
	set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text, "b.yaml": pool("a"), "c.yaml": pool("general"), "d.yaml": class("default")}), ".", embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.yaml:1: NodeOverlay/cheap names NodePool/genral, which no file of this folder defines; did you mean general?"}
	if diff := cmp.Diff(want, render.Undefined(set.Objects)); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(set.Objects, func(o render.Object) bool { return o.Ref.Kind == render.NodeOverlay })
	excluding := strings.Replace(text, "operator: In", "operator: NotIn", 1)
	excludes, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": excluding}), ".", embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	if named, none := render.PoolsSelected(set.Objects[i].Ref, set.Objects[i].Desired), render.PoolsSelected(excludes.Objects[0].Ref, excludes.Objects[0].Desired); len(named) != 2 || len(none) != 0 {
		t.Errorf("pools %v and %v", named, none)
	}
}
