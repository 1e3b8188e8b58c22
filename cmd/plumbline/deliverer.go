package main

import (
	"math/rand/v2"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// newDeliverer posts what the reconciler has said.
func newDeliverer(mgr ctrl.Manager, reconciler *reconcile.Reconciler, reports *queue.Queue) *queue.Deliverer {
	return &queue.Deliverer{
		Queue:       reports,
		Hosts:       &report.Hosts{Now: reconciler.Settings.Now},
		Secrets:     mgr.GetAPIReader(),
		Namespace:   reconciler.Settings.Namespace,
		Grants:      reconciler.Settings.Grants,
		StillLeader: reconciler.Settings.StillLeader,
		Trouble:     reconciler.Look,
		Now:         reconciler.Settings.Now,
		Jitter:      rand.Float64,
	}
}
