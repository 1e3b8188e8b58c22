package whatif

import (
	"k8s.io/apimachinery/pkg/types"
)

// Commit is what is to be simulated.
type Commit struct {
	// Definitions are all NodePools, EC2NodeClasses and NodeOverlays as they are once the commit is
	// in force, of any owner, with the status that they have today.
	Definitions []map[string]any
	// Touched are the NodeClaims that the commit ends, or has Karpenter replace.
	Touched map[types.UID]bool
}
