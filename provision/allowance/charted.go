package allowance

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

//go:generate go run ./generate charted.json

// Charted is what Karpenter's released charts consist of.
type Charted struct {
	// CRDs are the names of those in the CRD chart.
	CRDs []string `json:"crds"`
	// Kinds are what each of these defines, by its name.
	Kinds map[string]Defined `json:"kinds"`
	// Fingerprints of the CRDs, by the version of the chart and the CRD's name: see Fingerprint.
	Fingerprints map[string]map[string]string `json:"fingerprints"`
	// Objects are the names in the main chart, by kind.
	Objects map[string][]string `json:"objects"`
	// Variables are those of the controller, by name.
	Variables []string `json:"variables"`
	// Rights are what each role gives, by its kind and name: see Rights.
	Rights map[string][]string `json:"rights"`
}

// Defined is the kind that a CRD of Karpenter's defines.
type Defined struct {
	Kind  string `json:"kind"`
	Scope string `json:"scope"`
	// Serves are the versions that each released chart serves. None where some charts lack
	// the CRD: nobody needs it then.
	Serves []string `json:"serves,omitempty"`
}

//go:embed charted.json
var chartedJSON []byte

// FromCharts returns what the released charts consist of.
func FromCharts() Charted { return charted() }

var charted = sync.OnceValue(func() Charted {
	var c Charted
	if err := json.Unmarshal(chartedJSON, &c); err != nil {
		panic(fmt.Sprintf("read charted.json: %v", err))
	}
	return c
})

// Rights are what a rule gives, one by one: "apps/daemonsets get",
// "coordination.k8s.io/leases[name] patch".
func Rights(rule rbacv1.PolicyRule) []string {
	var rights []string
	for _, one := range apart(rule) {
		rights = append(rights, one.is)
	}
	return rights
}

// right is one of a rule's; over is the one over all objects that it is part of.
type right struct{ is, over string }

func apart(rule rbacv1.PolicyRule) []right {
	var rights []right
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				over := fmt.Sprintf("%s/%s %s", group, resource, verb)
				for _, name := range rule.ResourceNames {
					rights = append(rights, right{is: fmt.Sprintf("%s/%s[%s] %s", group, resource, name, verb), over: over})
				}
				if len(rule.ResourceNames) == 0 {
					rights = append(rights, right{is: over, over: over})
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			rights = append(rights, right{is: url + " " + verb, over: url + " " + verb})
		}
	}
	return rights
}

// beyond are the rights of rules that a role of the real charts does not give.
func (c Charted) beyond(role string, rules []rbacv1.PolicyRule) []string {
	var found []string
	for _, rule := range rules {
		for _, one := range apart(rule) {
			if !slices.Contains(c.Rights[role], one.is) && !slices.Contains(c.Rights[role], one.over) {
				found = append(found, one.is)
			}
		}
	}
	return found
}
