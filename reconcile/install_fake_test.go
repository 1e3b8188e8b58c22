package reconcile

import (
	"cmp"
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// deployed is what Helm knows where both releases are as plumbline has left them.
var deployed = release.State{
	CRDs:       release.Release{Name: charts.CRDChart, Status: release.Deployed, Revision: 1},
	Controller: release.Release{Name: charts.ControllerChart, Status: release.Deployed, Revision: 1},
}

// fakeInstall is a cluster's Helm.
type fakeInstall struct {
	state  release.State
	result release.Result
	// found is what somebody else has installed.
	found survey.Found
	// controller is the main chart's, where it is another.
	controller *release.Result
	// kubernetes is the cluster's version.
	kubernetes string
	// refusal is what a rehearsal finds.
	refusal error
	// rehearsed is how often one was asked for.
	rehearsed int
	// asked is how often each chart was.
	asked map[string]int
}

func (f *fakeInstall) State(context.Context, string) (release.State, error) { return f.state, nil }

func (f *fakeInstall) EnsureCRDs(context.Context, *charts.Charts, release.Request) (release.Result, error) {
	f.asked[charts.CRDChart]++
	return f.result, nil
}

func (f *fakeInstall) EnsureController(context.Context, *charts.Charts, release.Request) (release.Result, error) {
	f.asked[charts.ControllerChart]++
	if f.controller != nil {
		return *f.controller, nil
	}
	return f.result, nil
}

func (f *fakeInstall) ServerVersion(context.Context) (string, error) {
	return cmp.Or(f.kubernetes, "v1.33.4"), nil
}

func (f *fakeInstall) Rehearse(context.Context, *charts.Charts, release.Request) error {
	f.rehearsed++
	return f.refusal
}

func (f *fakeInstall) Survey(context.Context, string) (survey.Found, error) { return f.found, nil }

func (f *fakeInstall) RollBack(context.Context, release.Request, int) (release.Result, error) {
	f.asked["rollback"]++
	return f.result, nil
}
