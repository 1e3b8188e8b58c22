package main

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// confinement is what runs the work on other people's files in child processes. In a
// child of this very program it does that work, and ends the process.
func confinement(arguments []string) *confine.Runner {
	return confine.Serve(arguments, confine.Options{Jobs: map[string]confine.Job{
		charts.JobName:    charts.Job,
		kustomize.JobName: kustomize.Job,
		simulate.JobName:  simulate.Job,
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

// logged is a Runner that logs what it has to tell.
func logged(runner *confine.Runner) *confine.Runner { return runner.Telling(unconfined, childEnded) }

// unconfined logs what the kernel refuses of the confinement of charts and
// kustomizations.
func unconfined(refused string) {
	ctrl.Log.Info("charts and kustomizations are rendered with less confinement than there could be", "refused", refused)
}

// childEnded logs what a child process was for, and what it took.
func childEnded(what string, cpu time.Duration) {
	ctrl.Log.V(1).Info("a child process has ended", "work", what, "cpu", cpu.String())
}
