package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// fakeCharts is a registry that cannot be reached.
type fakeCharts struct{ asked []charts.Ref }

func (f *fakeCharts) Resolve(_ context.Context, ref charts.Ref, _ charts.Access) (*charts.Charts, error) {
	f.asked = append(f.asked, ref)
	return nil, &charts.UnreachableError{Err: errUnreachable}
}
