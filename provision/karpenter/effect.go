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
	// Annotated says that their NodeClaims are annotated again, which replaces none:
	// HashChange.
	Annotated bool `json:"annotated,omitempty"`
	Outlook
}

// Outlook is why nodes may be replaced; empty where none is.
type Outlook struct {
	// Replaced are why Karpenter replaces them.
	Replaced []string `json:"replaced,omitempty"`
	// Unknown are why it cannot be known.
	Unknown []string `json:"unknown,omitempty"`
}

// MayReplace says whether nodes may be replaced.
func (o Outlook) MayReplace() bool { return len(o.Replaced)+len(o.Unknown) > 0 }

// String says what becomes of the nodes.
func (e Effect) String() string {
	switch {
	case len(e.Replaced) > 0:
		return "replaced at the pace of the budgets: " + strings.Join(slices.Concat(e.Replaced, e.Unknown), "; ")
	case len(e.Unknown) > 0:
		return "cannot be known: " + strings.Join(e.Unknown, "; ")
	case e.Annotated:
		return "annotated again, not replaced"
	}
	return "untouched"
}

func (o Outlook) and(more Outlook) Outlook {
	return Outlook{Replaced: slices.Concat(o.Replaced, more.Replaced), Unknown: slices.Concat(o.Unknown, more.Unknown)}
}

// unknown is the Outlook of what cannot be known.
func unknown(format string, args ...any) Outlook {
	return Outlook{Unknown: []string{fmt.Sprintf(format, args...)}}
}

// Effects says of each NodePool what an upgrade does to its nodes, in the order of
// Pools. Errors: *VersionError.
func Effects(u Upgrade) ([]Effect, error) {
	from, to, err := parsePair(u.From, u.To)
	if err != nil {
		return nil, err
	}
	d := &defaulting{old: newShapes(u.Old), next: newShapes(u.New)}
	ofClass := make(map[string]Outlook, len(u.Classes))
	for _, class := range u.Classes {
		ofClass[class.GetName()] = followsLatest(class).and(d.outlook(class, "spec"))
	}
	hashes := unknownHash(from, to)
	annotated := len(hashChanges(from, to)) > 0
	effects := make([]Effect, 0, len(u.Pools))
	for _, pool := range u.Pools {
		name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
		class, found := ofClass[name]
		if !found {
			class = unknown("EC2NodeClass %s, which it names, is not there to look at", name)
		}
		effects = append(effects, Effect{
			Pool: pool.GetName(), Annotated: annotated,
			Outlook: hashes.and(d.outlook(pool, "spec", "template")).and(class),
		})
	}
	return effects, nil
}

// unknownHash speaks where the tables do not know what a version hashes.
func unknownHash(from, to *semver.Version) Outlook {
	for _, v := range []*semver.Version{from, to} {
		if !known(v) {
			return unknown("this plumbline knows versions up to %s, and not what %s hashes", newest, v)
		}
	}
	return Outlook{}
}

// latest is how an alias says that it follows the newest AMI.
const latest = "@latest"

// followsLatest speaks where a class takes whatever AMI is newest: which one that
// is hangs on the day, and on where the version looks for it.
func followsLatest(class *unstructured.Unstructured) Outlook {
	terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
	for _, one := range terms {
		term, _ := one.(map[string]any)
		if alias, _ := term["alias"].(string); strings.HasSuffix(alias, latest) {
			return unknown("EC2NodeClass %s follows %s, whose AMI may be another one by then", class.GetName(), alias)
		}
	}
	return Outlook{}
}
