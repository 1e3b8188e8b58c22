package reconcile

import (
	"context"
	"errors"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

var errUnreachable = errors.New("no route")

// fakeCloud is an account, or the error that it answers with.
type fakeCloud struct {
	err     error
	cluster cloud.Cluster
	asked   int
	// running are the instances that are not ended.
	running []cloud.Instance
}

func (f *fakeCloud) Cluster(context.Context, string) (cloud.Cluster, error) {
	f.asked++
	return f.cluster, f.err
}

func (f *fakeCloud) Instances(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return f.running, f.err
}
