// Package installtest has what tests of the charts share: a Helm that brings nothing, and
// small charts.
package installtest

import (
	"cmp"
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Deployed is what Helm knows where both releases are as plumbline has left them.
var Deployed = release.State{
	CRDs:       release.Release{Name: charts.CRDChart, Status: release.Deployed, Revision: 1},
	Controller: release.Release{Name: charts.ControllerChart, Status: release.Deployed, Revision: 1},
}

// Helm is a cluster's, as a test has set it.
type Helm struct {
	Known  release.State
	Result release.Result
	// Before is the release before.
	Before release.Result
	// Found is what another tool has installed.
	Found survey.Found
	// Controller is the main chart's, where it is another.
	Controller *release.Result
	// Kubernetes is the cluster's version.
	Kubernetes string
	// Refusal is what a rehearsal finds.
	Refusal error
	// AsksPermit has it ask about what the main chart renders to.
	AsksPermit bool
	// Rehearsed is how often one was asked for.
	Rehearsed int
	// Asked is how often each chart was.
	Asked map[string]int
	// Err is what bringing the main chart fails with.
	Err error
	// Into is what the main chart was installed with last.
	Into release.Request
}

// State is upgrade.Helm's.
func (f *Helm) State(context.Context, string) (release.State, error) { return f.Known, nil }

// EnsureCRDs is upgrade.Helm's.
func (f *Helm) EnsureCRDs(context.Context, *charts.Charts, release.Request) (release.Result, error) {
	f.Asked[charts.CRDChart]++
	return f.Result, nil
}

// EnsureController is upgrade.Helm's.
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

// ServerVersion is upgrade.Helm's.
func (f *Helm) ServerVersion(context.Context) (string, error) {
	return cmp.Or(f.Kubernetes, "v1.33.4"), nil
}

// Rehearse is upgrade.Helm's.
func (f *Helm) Rehearse(ctx context.Context, c *charts.Charts, want release.Request) error {
	f.Rehearsed++
	return cmp.Or(f.Permitted(ctx, c, want), f.Refusal)
}

// Permitted is upgrade.Helm's.
func (f *Helm) Permitted(ctx context.Context, c *charts.Charts, want release.Request) error {
	if !f.AsksPermit {
		return nil
	}
	objects, err := c.Controller(ctx, want.Installation)
	if err != nil {
		return err
	}
	return want.Permit(release.Rendered{Chart: charts.ControllerChart, Version: c.Version, Digest: c.Digest, Namespace: want.Namespace, Objects: objects})
}

// Survey is upgrade.Helm's.
func (f *Helm) Survey(context.Context, string) (survey.Found, error) { return f.Found, nil }

// Earlier is upgrade.Helm's.
func (f *Helm) Earlier(context.Context, string) (release.Result, error) { return f.Before, nil }

// RollBack is upgrade.Helm's.
func (f *Helm) RollBack(context.Context, release.Request, int) (release.Result, error) {
	f.Asked["rollback"]++
	return f.Result, nil
}
