package plan

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// Before is a definition as it was before a Plan, by its Content; empty where there was none.
type Before struct {
	Ref     render.Ref
	Content string
}

// Before are the first definitions whose Content the Plan changes, or is to change once what it waits for is
// there, so many of them, by Ref.
func (p *Plan) Before(most int) []Before {
	var found []Before
	for i := range p.Changes {
		c := &p.Changes[i]
		if !c.Action.Writes() && c.Action != Wait || len(found) == most {
			continue
		}
		if c.Live == nil || !equal(content(c.Live), content(c.Object.Defaulted)) {
			found = append(found, Before{c.Ref, Content(c.Live)})
		}
	}
	return found
}

// Content is a digest of what a definition says of nodes: the spec.template of a NodePool and how many of them
// a static one has, the spec of an EC2NodeClass. It is empty for none.
func Content(definition *unstructured.Unstructured) string {
	if definition == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(canonical(content(definition))))
	return hex.EncodeToString(sum[:8])
}

func content(definition *unstructured.Unstructured) any {
	if definition.GetKind() == render.NodePool {
		return map[string]any{"template": specField(definition, "template"), "replicas": specField(definition, "replicas")}
	}
	return specField(definition)
}
