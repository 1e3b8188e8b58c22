package cluster

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// daemonSetsEvery is how long an answer about DaemonSets counts that leaves nothing to be done. They
// are not watched: each node that comes or goes changes the status of each of them.
const daemonSetsEvery = 10 * time.Minute

// daemonSets are those that were read last, and when.
type daemonSets struct {
	at    time.Time
	found plan.DaemonSets
}

// DaemonSets are those that nodes need until their last pod has ended. They are read again where
// the answer is old, and sooner, after retry, where one lacks its toleration or they could not be
// read. Without nodes nothing is asked. again is when it is worth to ask again; zero where that can
// wait for the next pass.
func (v *View) DaemonSets(ctx context.Context, claims []plan.NodeClaim, now time.Time, retry time.Duration) (found plan.DaemonSets, again time.Time) {
	if len(claims) == 0 {
		return plan.DaemonSets{}, time.Time{}
	}
	last := &v.Memory.daemonSets
	sooner := min(retry, daemonSetsEvery)
	every := daemonSetsEvery
	if last.found.Trouble() != "" {
		every = sooner
	}
	if last.at.IsZero() || now.Before(last.at) || !now.Before(last.at.Add(every)) {
		*last = daemonSets{at: now, found: readDaemonSets(ctx, v.Uncached)}
	}
	if last.found.Trouble() != "" {
		again = last.at.Add(sooner)
	}
	return last.found, again
}

// DaemonSetsOf is DaemonSets, to be asked later.
func (v *View) DaemonSetsOf(claims []plan.NodeClaim, now time.Time, retry time.Duration) func(context.Context) (plan.DaemonSets, time.Time) {
	return func(ctx context.Context) (plan.DaemonSets, time.Time) { return v.DaemonSets(ctx, claims, now, retry) }
}

// daemonSetsPage is how many DaemonSets one answer of the API server has.
const daemonSetsPage = 100

func readDaemonSets(ctx context.Context, reader client.Reader) plan.DaemonSets {
	drivers := &storagev1.CSIDriverList{}
	if err := reader.List(ctx, drivers); err != nil {
		return plan.DaemonSets{Unread: unread("csidrivers.storage.k8s.io", err)}
	}
	names := make([]string, 0, len(drivers.Items))
	for i := range drivers.Items {
		names = append(names, drivers.Items[i].Name)
	}
	var found plan.DaemonSets
	for page := ""; ; {
		sets := &appsv1.DaemonSetList{}
		if err := reader.List(ctx, sets, client.Limit(daemonSetsPage), client.Continue(page)); err != nil {
			return plan.DaemonSets{Unread: unread("daemonsets.apps", err)}
		}
		found.Found = append(found.Found, plan.NodeDaemonSets(sets.Items, names)...)
		if page = sets.Continue; page == "" {
			return found
		}
	}
}

// unread says why objects of a kind could not be read, and what to do where it is a right that is
// missing. It does not change from one try to the next.
func unread(kind string, err error) string {
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return fmt.Sprintf("the right to list %s in all namespaces is missing: apply plumbline's own manifests of this version, or grant it", kind)
	}
	return fmt.Sprintf("list %s: %v", kind, err)
}
