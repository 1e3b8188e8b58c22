package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pulse is how long a daemon that leads takes at most to renew its lease, when all is
// well.
const pulse = 3 * retryPeriod

// unled says that no daemon leads in a namespace, so that what statuses say there is of
// before; empty where one does, or nobody can tell: without --leader-elect there is no
// lease or a released one of before, and not everybody may read it. A daemon renews its lease
// within leaseDuration, whatever duration stands in a lease that another has written.
func unled(ctx context.Context, c client.Reader, namespace string, now func() time.Time) string {
	first, ok := readLease(ctx, c, namespace)
	if !ok {
		return ""
	}
	if holder := first.Spec.HolderIdentity; holder == nil || *holder == "" {
		return "" // who stopped in peace may have been followed by one without --leader-elect
	}
	if renewedWithin(first, now(), leaseDuration) {
		return ""
	}
	// Its time may be that of another clock: one that is still renewed is held.
	again := time.NewTimer(pulse)
	defer again.Stop()
	select {
	case <-ctx.Done():
		return ""
	case <-again.C:
	}
	second, ok := readLease(ctx, c, namespace)
	if !ok || !second.Spec.RenewTime.Equal(first.Spec.RenewTime) {
		return ""
	}
	holder := *first.Spec.HolderIdentity
	if lasts := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, 0)) * time.Second; lasts > leaseDuration && renewedWithin(first, now(), lasts) {
		return fmt.Sprintf("no daemon leads: lease %[1]s/%[2]s of %[3]s is not renewed and keeps others from leading for %[4]s; if %[3]s runs no more: kubectl delete lease %[2]s -n %[1]s", namespace, leaseName, holder, short(lasts))
	}
	return fmt.Sprintf("no daemon leads: lease %s/%s of %s %s", namespace, leaseName, holder, renewed(first, now()))
}

// renewedWithin says that by our clock a lease was renewed so long ago at most. A time that lies
// further ahead than that is nobody's.
func renewedWithin(lease *coordinationv1.Lease, now time.Time, lasts time.Duration) bool {
	renew := lease.Spec.RenewTime
	return renew != nil && now.Sub(renew.Time).Abs() < lasts
}

func readLease(ctx context.Context, c client.Reader, namespace string) (*coordinationv1.Lease, bool) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	return lease, err == nil
}

// renewed says when a lease was held last.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	if lease.Spec.RenewTime == nil {
		return "has run out"
	}
	ago := now.Sub(lease.Spec.RenewTime.Time).Truncate(time.Second)
	if ago < 0 {
		return fmt.Sprintf("is not renewed, and its renewTime is %s ahead of this machine's clock", short(-ago))
	}
	return fmt.Sprintf("has run out, %s ago; what follows is of then", short(ago))
}
