package main

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/pulls"
	"github.com/plumbline-dev/plumbline/reconcile/webhook"
)

// addWebhook serves the receiver of what Git hosts tell, on every replica.
func addWebhook(ctx context.Context, mgr ctrl.Manager, reconciler *reconcile.Reconciler, followed *pulls.Follower, o *runOptions) error {
	if o.webhookAddr == "0" {
		return nil
	}
	server, err := webhook.Server(ctx, o.webhookAddr, webhook.New(webhook.Options{
		NodeSyncs:      mgr.GetClient(),
		Secrets:        mgr.GetAPIReader(),
		Namespace:      o.namespace,
		Secret:         o.webhookSecret,
		TrustedProxies: o.webhookProxies,
		Waker:          reconciler,
		Pulls:          followed,
		Now:            time.Now,
		Logger:         ctrl.Log.WithName("webhook"),
		Answered:       reconciler.Meter.Answered,
	}))
	if err != nil {
		return err
	}
	return mgr.Add(server)
}
