package plan

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// deed is what the Digest is made of, for one object.
type deed struct {
	Ref    string    `json:"ref"`
	UID    types.UID `json:"uid,omitempty"`
	Action Action    `json:"action"`
	Fields []Field   `json:"fields,omitempty"`
	// Object is what is written, whole.
	Object map[string]any `json:"object,omitempty"`
	Held   string         `json:"held,omitempty"`
}

// removes is the Action of an entry that leaves.
const removes Action = "Remove"

// digest hashes what would be done, in the order in which it stands. Messages,
// nodes and the revision are no part of it.
func digest(p *Plan) string {
	deeds := []deed{}
	for i := range p.Changes {
		deeds = append(deeds, changed(&p.Changes[i]))
	}
	for _, c := range p.Removals {
		deeds = append(deeds, deed{Ref: c.Ref.String(), UID: c.UID, Action: removes, Held: c.Reason})
	}
	for _, r := range p.Returned {
		deeds = append(deeds, deed{Ref: render.Ref{Kind: r.Kind, Name: r.Name}.String(), UID: r.UID, Action: TakeBack})
	}
	sum := sha256.Sum256([]byte(canonical(deeds)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func changed(c *Change) deed {
	d := deed{Ref: c.Ref.String(), Action: c.Action, Fields: c.Fields}
	if c.Live != nil {
		d.UID = c.Live.GetUID()
	}
	if c.Action.Writes() {
		d.Object = c.Object.Desired.Object
	}
	return d
}
