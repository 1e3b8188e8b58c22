package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Settings are what the daemon was started with, the same for all NodeSyncs.
type Settings struct {
	// Namespace is the daemon's; NodeSyncs and their Secrets live there.
	Namespace string
	// Own is the daemon's own pod, and the node that it runs on; zero outside a cluster.
	Own plan.Host
	// CloudInterval is the least time between two questions to EC2.
	CloudInterval time.Duration
	// CompareInstances is the least time between two comparisons of EC2 instances with their
	// definitions; 0 for none.
	CompareInstances time.Duration
	// Grants report whether a Secret has to name the hosts that it is for.
	Grants grant.Policy
	// PageURL is where users find the page of the daemon, which commit statuses then link to;
	// empty if there is none.
	PageURL string
	// Concludes, where it is set, is the only NodeSync that is reconciled, and only once it
	// is being deleted, or drained: a command stands in for a daemon that does not run.
	Concludes types.UID
	// Installs says, with Concludes, that reconciling it only brings back Karpenter's charts until it does not, as its end needs the
	// controller: whether it is suspended, being deleted, or neither. Nil never does.
	Installs func() bool
	// Now tells the time.
	Now func() time.Time
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Takes reports whether a NodeSync is reconciled. The others are only asked what they have in Git.
func (s Settings) Takes(sync *v1alpha1.NodeSync) bool {
	ends := !sync.DeletionTimestamp.IsZero() || sync.Spec.Drain
	return s.Concludes == "" || s.Concludes == sync.UID && (ends || s.Installing())
}

// Installing reports whether reconciles only bring back Karpenter's charts.
func (s Settings) Installing() bool { return s.Installs != nil && s.Installs() }
