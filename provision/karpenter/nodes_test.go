package karpenter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &made.Object); err != nil {
		t.Fatal(err)
	}
	return made
}

func class(t *testing.T, name, spec string) *unstructured.Unstructured {
	return object(t, "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: "+name+"}\nspec: "+spec+"\n")
}

func pool(t *testing.T, name, class, spec string) *unstructured.Unstructured {
	return object(t, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: "+name+"}\nspec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: "+class+"}"+spec+"}}}\n")
}

// withDefault changes the default of a field in v1 of a kind.
func withDefault(t *testing.T, crds crdList, kind, value string, field ...string) crdList {
	t.Helper()
	for _, crd := range crds {
		if crd.Spec.Names.Kind != kind {
			continue
		}
		for i, version := range crd.Spec.Versions {
			if version.Name == "v1" {
				setDefault(t, crd.Spec.Versions[i].Schema.OpenAPIV3Schema, value, field)
				return crds
			}
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

func setDefault(t *testing.T, schema *apiextensionsv1.JSONSchemaProps, value string, field []string) {
	t.Helper()
	inner, ok := schema.Properties[field[0]]
	if !ok {
		t.Fatalf("no field %v", field)
	}
	if len(field) > 1 {
		setDefault(t, &inner, value, field[1:])
	} else {
		inner.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
	}
	schema.Properties[field[0]] = inner
}

func TestEffects(t *testing.T) {
	const pinned = "{amiSelectorTerms: [{alias: al2023@v20260101}], metadataOptions: {httpTokens: required}}"
	follows := unknown("EC2NodeClass latest follows al2023@latest, whose AMI may be another one by then")
	replaced := func(why string) Effect { return Effect{Annotated: true, Outlook: Outlook{Replaced: []string{why}}} }
	cases := map[string]struct {
		from, to string
		old, new crdList
		class    string
		pool     string
		names    string // the class that the pool references
		want     Effect
	}{
		"the same hash":     {from: "1.12.1", to: "1.14.3", class: pinned},
		"another hash":      {from: "1.8.6", to: "1.14.3", class: pinned, want: Effect{Annotated: true}},
		"back":              {from: "1.14.3", to: "1.8.6", class: pinned, want: Effect{Annotated: true}},
		"the newest AMI":    {from: "1.8.6", to: "1.14.3", class: "{amiSelectorTerms: [{id: ami-1}, {alias: al2023@latest}]}", want: Effect{Annotated: true, Outlook: follows}},
		"no class to see":   {from: "1.8.6", to: "1.14.3", class: pinned, names: "absent", want: Effect{Annotated: true, Outlook: unknown("EC2NodeClass absent, which it names, is not there to look at")}},
		"a version to come": {from: "1.14.3", to: "1.16.0", class: pinned, want: Effect{Outlook: unknown("this plumbline knows versions up to 1.15.0, and not what 1.16.0 hashes")}},
		"an open kubelet map": {
			from: "1.14.3", to: "1.15.0", old: crds(t, "1.14.3"), new: crds(t, "1.15.0"),
			class: "{amiSelectorTerms: [{alias: al2023@v20260101}], kubelet: {maxPods: 40, evictionHard: {memory.available: 5%}}}", want: Effect{Annotated: true},
		},
		"a default of class":    {from: "1.8.6", to: "1.14.3", class: pinned, new: withDefault(t, crds(t, "1.14.3"), "EC2NodeClass", "2", "spec", "metadataOptions", "httpPutResponseHopLimit"), want: replaced("EC2NodeClass latest leaves out spec.metadataOptions.httpPutResponseHopLimit, which the new CRD fills in otherwise")},
		"written in the object": {from: "1.8.6", to: "1.14.3", class: "{metadataOptions: {httpPutResponseHopLimit: 1}}", new: withDefault(t, crds(t, "1.14.3"), "EC2NodeClass", "2", "spec", "metadataOptions", "httpPutResponseHopLimit"), want: Effect{Annotated: true}},
		"a default of pool":     {from: "1.8.6", to: "1.14.3", class: pinned, new: withDefault(t, crds(t, "1.14.3"), "NodePool", `"1h"`, "spec", "template", "spec", "expireAfter"), want: replaced("NodePool workers leaves out spec.template.spec.expireAfter, which the new CRD fills in otherwise")},
		"given in the pool":     {from: "1.8.6", to: "1.14.3", class: pinned, pool: ", expireAfter: 720h", new: withDefault(t, crds(t, "1.14.3"), "NodePool", `"1h"`, "spec", "template", "spec", "expireAfter"), want: Effect{Annotated: true}},
		"outside the template":  {from: "1.8.6", to: "1.14.3", class: pinned, new: withDefault(t, crds(t, "1.14.3"), "NodePool", "10", "spec", "weight"), want: Effect{Annotated: true}},
		"a default that is new": {from: "1.8.6", to: "1.14.3", class: pinned, new: withDefault(t, crds(t, "1.14.3"), "EC2NodeClass", `"RAID0"`, "spec", "instanceStorePolicy"), want: replaced("EC2NodeClass latest leaves out spec.instanceStorePolicy, which the new CRD fills in otherwise")},
		"no CRD to compare": {from: "1.8.6", to: "1.14.3", class: pinned, old: crdList{}, want: Effect{Annotated: true, Outlook: Outlook{Unknown: []string{
			"the defaults of NodePool workers by the old CRDs: no CRD defines NodePool in karpenter.sh/v1",
			"the defaults of EC2NodeClass latest by the old CRDs: no CRD defines EC2NodeClass in karpenter.k8s.aws/v1",
		}}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.old == nil {
				c.old = crds(t, "1.8.6")
			}
			if c.new == nil {
				c.new = crds(t, "1.14.3")
			}
			if c.names == "" {
				c.names = "latest"
			}
			got, err := Effects(Upgrade{
				From: c.from, To: c.to, Old: c.old, New: c.new,
				Classes: []*unstructured.Unstructured{class(t, "latest", c.class)},
				Pools:   []*unstructured.Unstructured{pool(t, "workers", c.names, c.pool)},
			})
			if err != nil {
				t.Fatal(err)
			}
			c.want.Pool = "workers"
			if diff := cmp.Diff([]Effect{c.want}, got); diff != "" {
				t.Error(diff)
			}
			if got[0].MayReplace() != c.want.MayReplace() {
				t.Errorf("may replace: %t", got[0].MayReplace())
			}
		})
	}
}

// TestEffectsEachPool: the reasons of a class are reported for the pools that reference it, and for no others.
func TestEffectsEachPool(t *testing.T) {
	got, err := Effects(Upgrade{
		From: "1.8.6", To: "1.14.3", Old: crds(t, "1.8.6"), New: crds(t, "1.14.3"),
		Classes: []*unstructured.Unstructured{class(t, "a", "{amiSelectorTerms: [{alias: al2023@latest}]}"), class(t, "b", "{amiSelectorTerms: [{alias: al2023@v1}]}")},
		Pools:   []*unstructured.Unstructured{pool(t, "first", "a", ""), pool(t, "second", "b", ""), pool(t, "third", "a", "")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var may []string
	for _, effect := range got {
		if effect.MayReplace() {
			may = append(may, effect.Pool)
		}
	}
	if diff := cmp.Diff([]string{"first", "third"}, may); diff != "" {
		t.Error(diff)
	}
	if _, err := Effects(Upgrade{From: "1", To: "1.14.3"}); err == nil {
		t.Error("no version, and no error")
	}
}

// TestEffectWords: effects on nodes are described in few words.
func TestEffectWords(t *testing.T) {
	why, unsure := Outlook{Replaced: []string{"a default"}}, unknown("the AMI")
	for want, e := range map[string]Effect{
		"untouched":                     {},
		"annotated again, not replaced": {Annotated: true},
		"unknown: the AMI":              {Annotated: true, Outlook: unsure},
		"replaced at the pace of the budgets: a default; the AMI": {Outlook: why.and(unsure)},
	} {
		if e.String() != want {
			t.Errorf("got %q, want %q", e, want)
		}
		if replaces := strings.HasPrefix(want, "unknown") || strings.HasPrefix(want, "replaced"); e.MayReplace() != replaces {
			t.Errorf("%s: may replace: %t", want, e.MayReplace())
		}
	}
}

func TestPermissionOf(t *testing.T) {
	if p, found := PermissionOf("ec2:RebootInstances"); !found || p.Since != "1.15.0" {
		t.Errorf("%v, %v", p, found)
	}
	if p, found := PermissionOf("ec2:TerminateInstances"); found {
		t.Errorf("every version needs it, but the table has %v", p)
	}
	for version, want := range map[string]bool{"0.37.7": false, "1.0.0": true, newest: true, "99.0.0": false, "newest": false} {
		if got := KnowsPermissions(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}
