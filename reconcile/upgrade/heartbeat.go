package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

const (
	// stoppedAfter is how long a lease is not renewed until its holder counts as stopped. Karpenter renews it every two
	// seconds, and another replica takes it over after 15 s
	// (LeaseDuration, RenewDeadline and RetryPeriod in sigs.k8s.io/controller-runtime pkg/manager/manager.go).
	stoppedAfter = time.Minute
	// readEvery is the least time between two reads of the lease, and ReadWithin the most while nothing else causes a pass.
	readEvery  = 10 * time.Second
	ReadWithin = time.Minute
)

// Heartbeat is what was seen of the lease of Karpenter's controller, by the clock of this process: that of the
// controller's node may differ. The zero value has seen nothing.
type Heartbeat struct {
	// read is when the lease was read last, renewed its renewTime then, and seen when that was seen first.
	read, renewed, seen time.Time
	holder              string
}

// Stopped is a controller that does not renew its lease.
type Stopped struct {
	// Since is when it renewed the lease last, by its own clock.
	Since time.Time
	// Message names the lease and its holder. It stays the same until the lease is renewed.
	Message string
}

// Look reads the lease if it is time to, and returns the controller that does not renew it: nil if one does, if it is not
// known yet, or if there is no lease because leader election is off.
func (h *Heartbeat) Look(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Stopped, error) {
	if !finding.Due(now, h.read, readEvery) {
		return h.stopped(namespace), nil
	}
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read lease %s/%s: %w", namespace, leaseName, err)
	}
	h.note(lease, now)
	return h.stopped(namespace), nil
}

// note takes what was read. What was not read for a while, such as while the API server was down, begins again: the
// controller could not renew its lease either.
func (h *Heartbeat) note(lease *coordinationv1.Lease, now time.Time) {
	if lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		*h = Heartbeat{read: now}
		return
	}
	renewed := lease.Spec.RenewTime.Time
	if interrupted := now.Before(h.read) || now.Sub(h.read) > 2*ReadWithin; interrupted || !renewed.Equal(h.renewed) {
		h.renewed, h.seen = renewed, now
	}
	h.holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	h.read = now
}

// Found says that there is a lease, so that it is worth reading again.
func (h *Heartbeat) Found() bool { return !h.renewed.IsZero() }

func (h *Heartbeat) stopped(namespace string) *Stopped {
	if !h.Found() || h.read.Sub(h.seen) < stoppedAfter {
		return nil
	}
	return &Stopped{Since: h.renewed, Message: fmt.Sprintf(
		"Karpenter has not renewed its lease %s since %s: no node is launched, replaced or terminated; pod %s holds it: kubectl logs -n %s %[3]s",
		leaseName, h.renewed.UTC().Format(time.RFC3339), h.holder, namespace)}
}
