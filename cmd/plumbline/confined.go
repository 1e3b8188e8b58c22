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

// confinement returns the Runner that processes untrusted files in child processes. In such a child process, it does
// that work and exits.
func confinement(arguments []string) *confine.Runner {
	return confine.Serve(arguments, confine.Options{Jobs: map[string]confine.Job{
		charts.JobName:    charts.Job,
		kustomize.JobName: kustomize.Job,
		simulate.JobName:  simulate.Job,
	}})
}

type confinementKey struct{}

// withConfinement adds a Runner to the context of commands.
func withConfinement(ctx context.Context, runner *confine.Runner) context.Context {
	return context.WithValue(ctx, confinementKey{}, runner)
}

// confined returns the Runner of a command; nil in tests without one.
func confined(ctx context.Context) *confine.Runner {
	runner, _ := ctx.Value(confinementKey{}).(*confine.Runner)
	return runner
}

// logged returns a Runner that logs its reports.
func logged(runner *confine.Runner) *confine.Runner {
	return runner.WithCallbacks(unconfined, childEnded)
}

// unconfined logs a confinement of charts and kustomizations that the kernel does not support.
func unconfined(refused string) {
	ctrl.Log.Info("charts and kustomizations are rendered with less confinement than there could be", "refused", refused)
}

// childEnded logs what a child process did, and its CPU time.
func childEnded(what string, cpu time.Duration) {
	ctrl.Log.V(1).Info("a child process has ended", "work", what, "cpu", cpu.String())
}
