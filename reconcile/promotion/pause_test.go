package promotion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// TestSetPaused: a ring is paused and resumed by an edit that changes nothing else, in both forms of YAML.
func TestSetPaused(t *testing.T) {
	block := `# the fleet
apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters: [{name: dev}, {name: eu}]
rings:
- name: canary # first
  clusters:
  - dev
- name: prod
  # all of production
  clusters: [eu]
  soak: 24h # a day
`
	flow := strings.Split(block, "rings:\n")[0] + "rings:\n- {name: canary, clusters: [dev]} # first\n- {name: prod, clusters: [eu], soak: 24h}\n"
	for name, text := range map[string]string{"block": block, "flow": flow} {
		for _, ring := range []string{"canary", "prod"} {
			t.Run(name+" "+ring, func(t *testing.T) {
				paused, changed, err := promotion.SetPaused([]byte(text), ring, `incident "42": see #ops`)
				if err != nil || !changed {
					t.Fatal(changed, err)
				}
				if got := parse(t, string(paused)).Named(ring).Paused; got != `incident '42': see #ops` {
					t.Errorf("paused for %q in\n%s", got, paused)
				}
				again, changed, err := promotion.SetPaused(paused, ring, "another reason")
				if err != nil || !changed || parse(t, string(again)).Named(ring).Paused != "another reason" {
					t.Errorf("another reason: %v, %v\n%s", changed, err, again)
				}
				if _, changed, err := promotion.SetPaused(again, ring, "another reason"); err != nil || changed {
					t.Errorf("the same reason: %v, %v", changed, err)
				}
				resumed, changed, err := promotion.SetPaused(again, ring, "")
				if err != nil || !changed {
					t.Fatal(changed, err)
				}
				if d := cmp.Diff(text, string(resumed)); d != "" {
					t.Errorf("resumed (-want +got):\n%s", d)
				}
			})
		}
	}
	if _, _, err := promotion.SetPaused([]byte(block), "staging", "x"); err == nil || !strings.Contains(err.Error(), "has no ring staging: it has canary, prod") {
		t.Errorf("a ring that does not exist: %v", err)
	}
}
