package reconcile

import (
	"cmp"
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// deployed is what Helm knows where both releases are as plumbline has left them.
var deployed = charts.State{
	CRDs:       charts.Release{Name: charts.CRDChart, Status: charts.Deployed, Revision: 1},
	Controller: charts.Release{Name: charts.ControllerChart, Status: charts.Deployed, Revision: 1},
}

// fakeInstall is a cluster's Helm.
type fakeInstall struct {
	state  charts.State
	result charts.Result
	// found is what somebody else has installed.
	found charts.Found
	// controller is the main chart's, where it is another.
	controller *charts.Result
	// kubernetes is the cluster's version.
	kubernetes string
	// refusal is what a rehearsal finds.
	refusal error
	// rehearsed is how often one was asked for.
	rehearsed int
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
	if f.controller != nil {
		return *f.controller, nil
	}
	return f.result, nil
}

func (f *fakeInstall) ServerVersion(context.Context) (string, error) {
	return cmp.Or(f.kubernetes, "v1.33.4"), nil
}

func (f *fakeInstall) Rehearse(context.Context, *charts.Charts, charts.Installation) error {
	f.rehearsed++
	return f.refusal
}

func (f *fakeInstall) Survey(context.Context, string) (charts.Found, error) { return f.found, nil }

func (f *fakeInstall) RollBack(context.Context, charts.Installation, int) (charts.Result, error) {
	f.asked["rollback"]++
	return f.result, nil
}
