package cluster

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// Clients are those of one cluster whose nodes are kept. The clients for NodeSyncs, their Secrets and records, and
// the lease are others: a NodeSync and its nodes need not live in one cluster.
type Clients struct {
	// Client reads from the watch cache and writes to the API server, and Uncached reads from the API server itself.
	Client   client.Client
	Uncached client.Reader
	// Refusals are the watches behind Client that the API server refuses.
	Refusals *observe.Refusals
	// Launches are the pools that get no nodes, as far as NodeClaims tell; Ends hears of those that end.
	Launches *observe.Launches
	Ends     observe.Ends
}

// View is the cluster as one pass sees it.
func (c Clients) View(definitions *observe.Definitions, memory *Memory) *View {
	return &View{Cached: c.Client, Uncached: c.Uncached, Definitions: definitions, Memory: memory}
}
