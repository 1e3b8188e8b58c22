package teardown

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Action is something that Next wants done. The questions AskEC2 and Reread
// only make the Observation better and are answered in the same pass.
type Action interface {
	fmt.Stringer
	action()
}

// AskEC2 asks for the instances of the removal.
type AskEC2 struct{}

// Reread reads the object, and what hangs on it, past the cache.
type Reread struct{}

// Note adds to the removal's record, making it where there is none.
type Note struct {
	// Fresh are provider IDs to add.
	Fresh []string
	// Seen are instances as EC2 has shown them, to add or mark.
	Seen []Instance
}

// Forget drops the removal's record.
type Forget struct{}

// StopGrowth keeps the pool from making nodes: the cpu limit becomes 0.
type StopGrowth struct{}

// ScaleToZero sets a static pool's replicas to 0, which drains it.
type ScaleToZero struct{}

// DeleteNodeClaim ends one NodeClaim.
type DeleteNodeClaim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// DeleteObject deletes the object itself, which owns nothing any more.
type DeleteObject struct {
	UID             types.UID
	ResourceVersion string
}

func (AskEC2) action()          {}
func (Reread) action()          {}
func (Note) action()            {}
func (Forget) action()          {}
func (StopGrowth) action()      {}
func (ScaleToZero) action()     {}
func (DeleteNodeClaim) action() {}
func (DeleteObject) action()    {}

func (AskEC2) String() string { return "ask EC2" }
func (Reread) String() string { return "read past the cache" }
func (n Note) String() string {
	words := []string{"note"}
	if len(n.Fresh) > 0 {
		words = append(words, "fresh="+strings.Join(n.Fresh, ","))
	}
	if len(n.Seen) > 0 {
		seen := make([]string, 0, len(n.Seen))
		for _, i := range n.Seen {
			seen = append(seen, i.ProviderID+":"+i.State)
		}
		words = append(words, "seen="+strings.Join(seen, ","))
	}
	return strings.Join(words, " ")
}
func (Forget) String() string            { return "forget the record" }
func (StopGrowth) String() string        { return "stop growth" }
func (ScaleToZero) String() string       { return "scale to zero" }
func (d DeleteNodeClaim) String() string { return "delete NodeClaim/" + d.Name }
func (DeleteObject) String() string      { return "delete the object" }
