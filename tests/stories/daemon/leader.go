package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseName is the lease for leader election.
const leaseName = "plumbline"

// stands matches the daemon's log line before an election, with its identity.
var stands = regexp.MustCompile(`"waiting for the lease".*"identity":"([^"]+)"`)

// Leads returns an error unless the daemon, as last started, holds the lease.
func (d *Daemon) Leads(ctx context.Context) error {
	log, err := os.ReadFile(d.LogFile())
	if err != nil {
		return err
	}
	said := stands.FindAllSubmatch(log, -1)
	if len(said) == 0 {
		return errors.New("it has not stood for election")
	}
	lease, err := d.options.Kube.Client.CoordinationV1().Leases(Namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder, is := lease.Spec.HolderIdentity, string(said[len(said)-1][1]); holder == nil || *holder != is {
		return fmt.Errorf("the lease is not held by %s: %v", is, lease.Spec)
	}
	return nil
}
