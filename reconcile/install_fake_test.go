package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// fakeInstall is a cluster's Helm.
type fakeInstall struct {
	state  charts.State
	result charts.Result
	// asked is how often each chart was.
	asked map[string]int
}

func (f *fakeInstall) State(context.Context, string) (charts.State, error) { return f.state, nil }

func (f *fakeInstall) EnsureCRDs(context.Context, *charts.Charts, charts.Installation) (charts.Result, error) {
	f.asked[charts.CRDChart]++
	return f.result, nil
}

func (f *fakeInstall) EnsureController(context.Context, *charts.Charts, charts.Installation) (charts.Result, error) {
	f.asked[charts.ControllerChart]++
	return f.result, nil
}
