package render_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// TestKubelet: settings of kubelet with which no node would be launched are refused, with the line of the field: by
// Karpenter's own validation where the schema accepts anything, and by the schema of a version that has the fields.
func TestKubelet(t *testing.T) {
	of := func(alias, settings string) string {
		return strings.Replace(strings.Replace(class("a"), "al2023@latest", alias, 1), "spec:\n", "spec:\n  kubelet:\n    "+strings.ReplaceAll(settings, "\n", "\n    ")+"\n", 1)
	}
	const newest = "al2023@latest"
	lts, err := schema.EmbeddedOf(schema.LTSVersion)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := schema.New(lts)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text       string
		open, shut string // the errors under the newest version, and under that of the LTS line
	}{
		"none":                        {text: class("a")},
		"settings that both have":     {text: of(newest, "maxPods: 58\nkubeReserved: {cpu: 100m}\nevictionHard: {memory.available: 5%}")},
		"a typing error":              {text: of(newest, "podsPerCore: 10\nmaxPodz: 58"), open: "a.yaml:8: EC2NodeClass/a: spec.kubelet.maxPodz: unknown field: did you mean maxPods?", shut: "a.yaml:8: EC2NodeClass/a: spec.kubelet.maxPodz: Forbidden: unknown field: did you mean maxPods?"},
		"a field of nothing":          {text: of(newest, "zones: [a]"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.zones: unknown field: kubelet does not have it", shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.zones: Forbidden: unknown field"},
		"a field of the newest":       {text: of(newest, "serializeImagePulls: false"), shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.serializeImagePulls: Forbidden: unknown field: this version of Karpenter does not have it"},
		"a text for a number":         {text: of(newest, "podsPerCore: ten"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.podsPerCore: it must be of type int32, not string", shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.podsPerCore: Invalid value"},
		"no eviction signal":          {text: of(newest, "evictionHard: {memory: 5%}"), open: `a.yaml:7: EC2NodeClass/a: spec.kubelet.evictionHard: "memory" isn't a valid eviction signal`, shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.evictionHard: Invalid value"},
		"a negative quantity":         {text: of(newest, "kubeReserved: {cpu: -1}"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.kubeReserved", shut: "a.yaml:7: EC2NodeClass/a: "},
		"no duration":                 {text: of(newest, "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {memory.available: soon}"), open: `a.yaml:8: EC2NodeClass/a: spec.kubelet.evictionSoftGracePeriod[memory.available]: "soon" must be a duration`, shut: "a.yaml:6: EC2NodeClass/a: Karpenter cannot read it: spec.kubelet"},
		"what Karpenter sets":         {text: of(newest, "registerWithTaints: [{key: a, effect: NoSchedule}]"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.registerWithTaints: can't be set", shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.registerWithTaints: Forbidden: unknown field"},
		"an expression":               {text: of(newest, "maxPods: vcpus * 10"), shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.maxPods"},
		"an expression with an error": {text: of(newest, "maxPods: 58\nsystemReserved: {cpu: 100mm}"), open: "a.yaml:8: EC2NodeClass/a: spec.kubelet.systemReserved.cpu: it is neither a quantity nor an expression", shut: "a.yaml:8: EC2NodeClass/a: spec.kubelet.systemReserved.cpu"},
		"a family without it":         {text: of("al2@latest", "serializeImagePulls: false"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.serializeImagePulls: nodes of the AMI family al2 do not get this setting", shut: "a.yaml:7: EC2NodeClass/a: spec.kubelet.serializeImagePulls: Forbidden: unknown field"},
		"Bottlerocket":                {text: of("bottlerocket@latest", "podsPerCore: 10"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.podsPerCore: Bottlerocket does not have this setting"},
		"two addresses":               {text: of("bottlerocket@latest", "clusterDNS: [10.0.0.10, 10.0.0.11]"), open: "a.yaml:7: EC2NodeClass/a: spec.kubelet.clusterDNS: nodes of the AMI family bottlerocket accept one address, and it has 2"},
		"two addresses of AL2023":     {text: of(newest, "clusterDNS: [10.0.0.10, 10.0.0.11]")},
	} {
		for under, want := range map[*schema.Validator]string{embedded(t): tc.open, closed: tc.shut} {
			version := schema.EmbeddedVersion
			if under == closed {
				version = schema.LTSVersion
			}
			t.Run(name+" "+version, func(t *testing.T) {
				_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": tc.text}), ".", under)
				if want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				expectErrors(t, err, []string{want})
			})
		}
	}
}

// TestHasExpressions: a quantity and a number are no expression.
func TestHasExpressions(t *testing.T) {
	for settings, want := range map[string]bool{
		"{}": false, "{maxPods: 58}": false, "{kubeReserved: {cpu: 100m}}": false, "{evictionHard: {memory.available: 5%}}": false,
		"{maxPods: vcpus * 10}": true, "{systemReserved: {memory: max_pods * 11}}": true,
	} {
		text := strings.Replace(class("a"), "spec:\n", "spec:\n  kubelet: "+settings+"\n", 1)
		set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := render.HasExpressions(set.Objects[0].Desired); got != want {
			t.Errorf("%s: %v", settings, got)
		}
	}
}
