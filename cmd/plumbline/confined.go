package main

import (
	"context"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// confinement is what runs the work on other people's files in child processes. In a
// child of this very program it does that work, and ends the process.
func confinement(arguments []string) *confine.Runner {
	return confine.Serve(arguments, confine.Options{Jobs: map[string]confine.Job{
		charts.JobName:    charts.Job,
		kustomize.JobName: kustomize.Job,
	}})
}

type confinementKey struct{}

// withConfinement hands a Runner to the commands.
func withConfinement(ctx context.Context, runner *confine.Runner) context.Context {
	return context.WithValue(ctx, confinementKey{}, runner)
}

// confined is the Runner of a command; nil in tests that have none.
func confined(ctx context.Context) *confine.Runner {
	runner, _ := ctx.Value(confinementKey{}).(*confine.Runner)
	return runner
}
