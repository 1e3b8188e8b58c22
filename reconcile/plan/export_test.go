package plan

import "k8s.io/apimachinery/pkg/types"

// Touched are the NodeClaims that a Change is on.
func (c *Change) Touched() []types.UID { return c.touched }
