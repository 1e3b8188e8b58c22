package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
)

// fakeCharts is a registry that cannot be reached.
type fakeCharts struct {
	asked []charts.Ref
	// with is the access of the last call.
	with charts.Access
	// owner is the owner of the last call.
	owner string
}

func (f *fakeCharts) Verify(context.Context, charts.Ref, *charts.Charts, charts.Access, charts.Signers) error {
	return errUnreachable
}

func (f *fakeCharts) Resolve(ctx context.Context, ref charts.Ref, access charts.Access) (*charts.Charts, error) {
	f.asked, f.with, f.owner = append(f.asked, ref), access, confine.OwnerOf(ctx)
	return nil, &charts.UnreachableError{Err: errUnreachable}
}
