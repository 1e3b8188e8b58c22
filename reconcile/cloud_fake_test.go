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
}

func (f *fakeCloud) Cluster(context.Context, string) (cloud.Cluster, error) {
	f.asked++
	return f.cluster, f.err
}

func (f *fakeCloud) Instances(context.Context, cloud.Query) ([]cloud.Instance, error) {
	return nil, f.err
}
