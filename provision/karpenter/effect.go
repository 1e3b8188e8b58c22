package karpenter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Upgrade is a change of Karpenter's version in a cluster that has nodes.
type Upgrade struct {
	From, To string
	// Classes and Pools are as they live. What the API server has defaulted stands
	// in them, so that a default which changes later does not touch them.
	Classes, Pools []*unstructured.Unstructured
	// Old and New are the CRDs of both versions.
	Old, New []*apiextensionsv1.CustomResourceDefinition
}

// Effect is what an upgrade does to the nodes of one NodePool.
type Effect struct {
	Pool string `json:"pool"`
	// Reasons are why Karpenter may replace its nodes; empty where it replaces none.
	// A changed hash is none: HashChange.
	Reasons []string `json:"reasons,omitempty"`
}

// MayReplace says whether nodes of the NodePool may be replaced.
func (e Effect) MayReplace() bool { return len(e.Reasons) > 0 }

// Effects says of each NodePool what an upgrade does to its nodes, in the order of
// Pools. Errors: *VersionError.
func Effects(u Upgrade) ([]Effect, error) {
	from, to, err := parsePair(u.From, u.To)
	if err != nil {
		return nil, err
	}
	d := &defaulting{old: newShapes(u.Old), next: newShapes(u.New)}
	ofClass := make(map[string][]string, len(u.Classes))
	for _, class := range u.Classes {
		ofClass[class.GetName()] = append(followsLatest(class), d.reasons(class, "spec")...)
	}
	unknown := unknownHash(from, to)
	effects := make([]Effect, 0, len(u.Pools))
	for _, pool := range u.Pools {
		effect := Effect{Pool: pool.GetName(), Reasons: slices.Clone(unknown)}
		effect.Reasons = append(effect.Reasons, d.reasons(pool, "spec", "template")...)
		name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
		reasons, found := ofClass[name]
		if !found {
			reasons = []string{fmt.Sprintf("cannot know: EC2NodeClass %s, which it names, is not there to look at", name)}
		}
		effect.Reasons = append(effect.Reasons, reasons...)
		effects = append(effects, effect)
	}
	return effects, nil
}

// unknownHash speaks where the tables do not know what a version hashes.
func unknownHash(from, to *semver.Version) []string {
	for _, v := range []*semver.Version{from, to} {
		if !known(v) {
			return []string{fmt.Sprintf("cannot know: this plumbline knows versions up to %s, and not what %s hashes", newest, v)}
		}
	}
	return nil
}

// latest is how an alias says that it follows the newest AMI.
const latest = "@latest"

// followsLatest speaks where a class takes whatever AMI is newest: which one that
// is hangs on the day, and on where the version looks for it.
func followsLatest(class *unstructured.Unstructured) []string {
	terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
	for _, one := range terms {
		term, _ := one.(map[string]any)
		if alias, _ := term["alias"].(string); strings.HasSuffix(alias, latest) {
			return []string{fmt.Sprintf("cannot know: EC2NodeClass %s follows %s, whose AMI may be another one by then", class.GetName(), alias)}
		}
	}
	return nil
}
