// Package installtest contains what tests of the charts share: a Helm that installs nothing, and small charts.
package installtest

import (
	"cmp"
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Deployed is the state in Helm if both releases are as plumbline has left them.
var Deployed = release.State{
	CRDs:       release.Release{Name: charts.CRDChart, Status: release.Deployed, Revision: 1},
	Controller: release.Release{Name: charts.ControllerChart, Status: release.Deployed, Revision: 1},
}

// Helm is a fake with the results that a test sets.
type Helm struct {
	Known  release.State
	Result release.Result
	// Before is the previous release.
	Before release.Result
	// Found is what another tool has installed.
	Found survey.Found
	// Controller is the result for the main chart, if it differs.
	Controller *release.Result
	// Kubernetes is the cluster's version.
	Kubernetes string
	// Refusal is the result of a rehearsal.
	Refusal error
	// AsksPermit makes Permitted call Permit with what the main chart renders to.
	AsksPermit bool
	// Rehearsed is the number of rehearsals.
	Rehearsed int
	// Asked is the number of installations of each chart.
	Asked map[string]int
	// Err is the error of installing the main chart.
	Err error
	// Into is the last request to install the main chart.
	Into release.Request
}

// State implements upgrade.Helm.
func (f *Helm) State(context.Context, string) (release.State, error) { return f.Known, nil }

// EnsureCRDs implements upgrade.Helm.
func (f *Helm) EnsureCRDs(context.Context, *charts.Charts, release.Request) (release.Result, error) {
	f.Asked[charts.CRDChart]++
	return f.Result, nil
}

// EnsureController implements upgrade.Helm.
func (f *Helm) EnsureController(_ context.Context, _ *charts.Charts, want release.Request) (release.Result, error) {
	f.Into = want
	if f.Err != nil {
		return release.Result{}, f.Err
	}
	f.Asked[charts.ControllerChart]++
	if f.Controller != nil {
		return *f.Controller, nil
	}
	return f.Result, nil
}

// ServerVersion implements upgrade.Helm.
func (f *Helm) ServerVersion(context.Context) (string, error) {
	return cmp.Or(f.Kubernetes, "v1.33.4"), nil
}

// Rehearse implements upgrade.Helm.
func (f *Helm) Rehearse(ctx context.Context, c *charts.Charts, want release.Request) error {
	f.Rehearsed++
	return cmp.Or(f.Permitted(ctx, c, want), f.Refusal)
}

// Permitted implements upgrade.Helm.
func (f *Helm) Permitted(ctx context.Context, c *charts.Charts, want release.Request) error {
	if !f.AsksPermit {
		return nil
	}
	objects, err := c.Controller(ctx, want.Installation)
	if err != nil {
		return err
	}
	return want.Permit(release.Rendered{
		Chart: charts.ControllerChart, Version: c.Version, Digest: c.Digest, Namespace: want.Namespace, Objects: objects,
	})
}

// Survey implements upgrade.Helm.
func (f *Helm) Survey(context.Context, string) (survey.Found, error) { return f.Found, nil }

// Earlier implements upgrade.Helm.
func (f *Helm) Earlier(context.Context, string) (release.Result, error) { return f.Before, nil }

// RollBack implements upgrade.Helm.
func (f *Helm) RollBack(context.Context, release.Request, int) (release.Result, error) {
	f.Asked["rollback"]++
	return f.Result, nil
}
