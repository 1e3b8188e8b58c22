package charts

import (
	"errors"

	"k8s.io/client-go/dynamic"
)

// errNoCluster ends a render that asks for the cluster: a template cannot catch it.
var errNoCluster = errors.New("a chart is rendered without the cluster")

// noCluster is the engine.ClientProvider of a render without a cluster. Without
// one, Helm would have lookup return nothing, and a chart would render to something
// else than its author meant.
type noCluster struct {
	// called says that a template has called lookup.
	called bool
}

// GetClientFor refuses.
func (c *noCluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	c.called = true
	return nil, false, errNoCluster
}
