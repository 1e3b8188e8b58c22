package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

func TestParse(t *testing.T) {
	rings := parse(t, `apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
silentAfter: 30m
clusters:
- {name: us, nodeSync: nodes, labels: {stage: prod}}
- {name: dev}
- {name: qa}
rings:
- {name: prod, matchLabels: {stage: prod}, after: [load, canary], soak: 24h, shortSoak: 2h, longFrom: 10%, atLeast: 90%, maxClusters: 5}
- {name: canary, clusters: [dev], after: []}
- {name: load, clusters: [qa], after: [canary], soak: 1h}
`)
	type ring struct {
		Name          string
		Members       []promotion.Member
		Before        []int
		Soak, Short   time.Duration
		Long, AtLeast int
		MaxClusters   int
	}
	var got []ring
	for _, r := range rings.Rings {
		got = append(got, ring{r.Name, r.Members, r.Before, r.Soak, r.ShortSoak, r.LongFrom, r.AtLeast, r.MaxClusters})
	}
	want := []ring{
		{"canary", []promotion.Member{of("dev")}, nil, 0, 0, 25, 100, 0},
		{"load", []promotion.Member{of("qa")}, []int{0}, time.Hour, time.Hour, 25, 100, 0},
		{"prod", []promotion.Member{{Cluster: "us", NodeSync: "nodes"}}, []int{0, 1}, 24 * time.Hour, 2 * time.Hour, 10, 90, 5},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if rings.SilentAfter != 30*time.Minute || rings.Of(of("qa")).Name != "load" || rings.Of(of("us")) != nil || rings.Named("none") != nil {
		t.Errorf("got %+v", rings)
	}
}

func TestParseRefuses(t *testing.T) {
	const prod = "- {name: prod, matchLabels: {stage: prod}, soak: 24h, shortSoak: 2h}\n"
	cases := map[string]struct{ old, new, want string }{
		"an unknown key":                {"shortSoak: 10m", "shortsoak: 10m", `rings.yaml:10: unknown field "rings[1].shortsoak"`},
		"a key twice":                   {"soak: 1h,", "soak: 1h, soak: 2h,", "rings.yaml:10: "},
		"another kind":                  {"kind: Rings", "kind: Ring", "rings.yaml:2: apiVersion and kind must be config.plumbline.dev/v1alpha1 and Rings"},
		"a wrong type":                  {"soak: 1h", "soak: [1h]", "must be of type string, not array"},
		"no YAML":                       {"clusters:\n", "clusters: {\n", "rings.yaml:"},
		"two documents":                 {"kind: Rings\n", "kind: Rings\n---\n", "contains 2 documents"},
		"a cycle":                       {"{name: canary, clusters: [dev]}", "{name: canary, clusters: [dev], after: [prod]}", "rings.yaml:9: rings wait for each other in a cycle: canary, staging, prod"},
		"a ring that is not listed":     {"{name: canary, clusters: [dev]}", "{name: canary, clusters: [dev], after: [x]}", "rings.yaml:9: ring canary waits for ring x, which is not listed"},
		"a ring twice":                  {"name: staging", "name: canary", "rings.yaml:10: ring canary is listed twice"},
		"no ring":                       {"rings:\n- {name: canary, clusters: [dev]}\n- {name: staging, clusters: [qa], soak: 1h, shortSoak: 10m}\n" + prod, "rings: []\n", "rings must contain a ring"},
		"a ring without clusters":       {", clusters: [dev]", "", "rings.yaml:9: ring canary has no clusters"},
		"an unknown cluster":            {"[dev]", "[dev, x]", "rings.yaml:9: cluster x is not listed under clusters"},
		"a label that matches nothing":  {"{stage: prod}, soak", "{stage: x}, soak", "rings.yaml:11: no cluster has the labels stage=x"},
		"a cluster in two rings":        {"[qa]", "[qa, dev]", "rings.yaml:10: cluster dev/dev is in two rings, canary and staging"},
		"a cluster in no ring":          {"- {name: qa}\n", "- {name: qa}\n- {name: ap}\n", "rings.yaml:6: cluster ap/ap is in no ring"},
		"a cluster twice":               {"- {name: qa}\n", "- {name: qa}\n- {name: qa}\n", "rings.yaml:6: cluster qa/qa is listed twice"},
		"a name that is no reference":   {"{name: dev}", "{name: dev/../main}", "rings.yaml:4: "},
		"a NodeSync that is no ref":     {"{name: dev}", "{name: dev, nodeSync: a.lock}", `rings.yaml:4: "a.lock" is not a valid name of a NodeSync`},
		"a duration":                    {"soak: 1h", "soak: 1day", `rings.yaml:10: "1day" is not a duration`},
		"a short soak that is long":     {"shortSoak: 10m", "shortSoak: 10h", "rings.yaml:10: shortSoak (10h0m0s) is longer than soak (1h0m0s)"},
		"a percentage":                  {"soak: 1h", "soak: 1h, atLeast: 90", "atLeast must be of type string, not number"},
		"a percentage above 100":        {"soak: 1h", "soak: 1h, atLeast: 101%", `rings.yaml:10: "101%" is not a percentage`},
		"no cluster at one time":        {"soak: 1h", "soak: 1h, maxClusters: 0", "rings.yaml:10: maxClusters must be at least 1"},
		"a window":                      {"soak: 1h", "soak: 1h, windows: [{schedule: x, duration: 1h}]", "rings.yaml:10: windows[0].schedule: "},
		"a long reason of a pause":      {"soak: 1h", "soak: 1h, paused: " + strings.Repeat("x", 300), "rings.yaml:10: paused must say why in at most 256 bytes"},
		"many rings":                    {"rings:\n", "rings:\n" + strings.Repeat("- {name: x, after: [y, z], clusters: [dev]}\n", 5000), "lists 5003 rings and 4 clusters, and at most 100 and 5000 are possible"},
		"many clusters":                 {"- {name: qa}\n", strings.Repeat("- {name: qa}\n", 6000), "lists 3 rings and 6003 clusters"},
		"a silence that comes too soon": {"kind: Rings\n", "kind: Rings\nsilentAfter: 1m\n", "rings.yaml:3: silentAfter must be at least 10m0s and at most 24h0m0s"},
		"a silence that comes too late": {"kind: Rings\n", "kind: Rings\nsilentAfter: 2000h\n", "rings.yaml:3: silentAfter must be at least 10m0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(fleetFile, c.old, c.new, 1)
			if text == fleetFile {
				t.Fatal("the case changes nothing")
			}
			rings, err := promotion.Parse(promotion.File, []byte(text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %s", rings, err, c.want)
			}
		})
	}
}
