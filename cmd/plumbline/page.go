package main

import (
	"context"
	"net"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/page"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
)

// addPage serves the page, on every replica: one that does not lead says which one does.
func addPage(ctx context.Context, mgr ctrl.Manager, reconciler *reconcile.Reconciler, ended *recorder.Recorder, seen *leaseSeen, o *runOptions) error {
	host, err := page.CheckURL(o.pageURL)
	if err != nil || o.pageAddr == "0" {
		return err
	}
	if err := page.CheckAddress(o.pageAddr); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(o.pageAddr)
	if err != nil {
		return err
	}
	ended.Keep()
	handler, err := page.New(page.Options{
		Cluster: page.Cluster{Cached: mgr.GetClient(), Namespace: o.namespace, Serves: reconciler.Serves, Ended: ended.Kept, Now: time.Now},
		Elected: mgr.Elected(),
		Leader:  seen.leader,
		Host:    host,
		Port:    port,
		Version: version,
		Logger:  ctrl.Log.WithName("page"),
	})
	if err != nil {
		return err
	}
	server, err := page.Server(ctx, o.pageAddr, handler)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}
