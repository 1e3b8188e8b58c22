package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// userLeaseFor is how long a Lease of a command that was killed keeps others waiting.
const userLeaseFor = 15 * time.Second

// newUserLease returns a Lease in kube-system, held in the name of the user of this machine.
func newUserLease(config *rest.Config, name string) (resourcelock.Interface, error) {
	host, _ := os.Hostname() // only for display
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	// the UID makes two commands of one user differ
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "kube-system", name,
		resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s@%s %.8s", who, cmp.Or(host, "unknown"), uuid.NewUUID())}, config, userLeaseFor)
}

// exclusively performs what only one user may do at a time. It waits, and says so, while another one holds the Lease. The context of
// perform ends if the Lease is lost.
func exclusively(ctx context.Context, lease resourcelock.Interface, say func(string), perform func(context.Context) error) error {
	running, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // say reports what matters
	defer stop()
	var started atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lease, LeaseDuration: userLeaseFor, RenewDeadline: userLeaseFor * 2 / 3, RetryPeriod: userLeaseFor / 7, ReleaseOnCancel: true, Name: lease.Describe(),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				result <- perform(leading)
				stop()
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != lease.Identity() && !started.Load() {
					say("waiting for " + identity + ", who runs the same command for this cluster")
				}
			},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(running)
	if !started.Load() {
		return ctx.Err()
	}
	if err = <-result; errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return fmt.Errorf("the Lease %s was lost: another user runs the same command, or the API server did not answer for %s", lease.Describe(), userLeaseFor*2/3)
	}
	return err
}
