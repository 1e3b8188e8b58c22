package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Settings are the daemon's settings, the same for all NodeSyncs.
type Settings struct {
	// Namespace of the daemon; NodeSyncs and their Secrets are there.
	Namespace string
	// Own is the daemon's pod, and the node that it runs on; zero outside a cluster.
	Own plan.Host
	// CloudInterval is the minimum time between two queries to EC2.
	CloudInterval time.Duration
	// CompareInstances is the minimum time between two comparisons of EC2 instances with their definitions; 0 for none.
	CompareInstances time.Duration
	// Grants report whether a Secret must name the hosts that it may be sent to.
	Grants grant.Policy
	// PageURL is where users find the page of the daemon, which commit statuses then link to;
	// empty if there is none.
	PageURL string
	// OnlyNodeSync, if set, is the only NodeSync that is reconciled, and only once it is being deleted, or drained: a
	// command replaces a daemon that does not run.
	OnlyNodeSync types.UID
	// Installs reports, with OnlyNodeSync, whether reconciling it only restores Karpenter's charts, because its deletion
	// needs the controller, whether it is suspended, being deleted, or neither. Nil is never.
	Installs func() bool
	// Now returns the current time.
	Now func() time.Time
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Reconciles reports whether a NodeSync is reconciled. The others only report what they have in Git.
func (s Settings) Reconciles(sync *v1alpha1.NodeSync) bool {
	ends := !sync.DeletionTimestamp.IsZero() || sync.Spec.Drain
	return s.OnlyNodeSync == "" || s.OnlyNodeSync == sync.UID && (ends || s.Installing())
}

// Installing reports whether reconciles only restore Karpenter's charts.
func (s Settings) Installing() bool { return s.Installs != nil && s.Installs() }
