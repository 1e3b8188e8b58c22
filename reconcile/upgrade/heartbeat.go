package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// stoppedAfter is how long a lease must stay the same before its holder counts as stopped. Karpenter renews it every two
	// seconds, and another replica takes it over after 15 s
	// (LeaseDuration, RenewDeadline and RetryPeriod in sigs.k8s.io/controller-runtime pkg/manager/manager.go).
	stoppedAfter = time.Minute
	// readEvery is the shortest time between two reads of the lease.
	readEvery = 10 * time.Second
	// ReadWithin is the longest time between two reads of the lease.
	ReadWithin = time.Minute
)

// Heartbeat is what plumbline has seen of the lease of Karpenter's controller. Times are those of this process, because the
// clock of the controller's node may differ. The zero value has seen nothing.
type Heartbeat struct {
	// read is the time of the last read. renewed is the lease's renewTime, and seen is when that value was first read.
	read, renewed, seen time.Time
	holder              string
}

// Stopped is a controller that does not renew its lease.
type Stopped struct {
	// Since is when the renewTime was first read that the lease still has, by the clock of this process.
	Since time.Time
	// Message names the lease and its holder. It stays the same until the lease is renewed.
	Message string
}

// Look reads the lease if it is due, and returns the controller if it does not renew the lease. It returns nil if the
// controller does, if that is not known yet, or if there is no lease because leader election is off.
func (h *Heartbeat) Look(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Stopped, error) {
	if since := now.Sub(h.read); since >= 0 && since < readEvery {
		return h.stopped(namespace), nil
	}
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read lease %s/%s: %w", namespace, leaseName, err)
	}
	h.note(lease, now)
	return h.stopped(namespace), nil
}

// note records a lease. After a gap in the reads, such as an outage of the API server, the time starts again: the controller
// could not renew its lease either.
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

// Found reports whether there is a lease: only then it is worth reading again.
func (h *Heartbeat) Found() bool { return !h.renewed.IsZero() }

func (h *Heartbeat) stopped(namespace string) *Stopped {
	if !h.Found() || h.read.Sub(h.seen) < stoppedAfter {
		return nil
	}
	return &Stopped{Since: h.seen, Message: fmt.Sprintf(
		"Karpenter has not renewed its lease %s since %s: it launches, replaces and terminates no node; pod %s holds the lease: kubectl logs -n %s %[3]s",
		leaseName, h.renewed.UTC().Format(time.RFC3339), h.holder, namespace)}
}
