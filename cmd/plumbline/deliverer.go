package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/plumbline-dev/plumbline/reconcile"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/reconcile/pulls"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// addBeside adds what runs beside the passes: what posts commit statuses, records ended nodes,
// releases memory, and keeps on disk what was fetched and rendered. It returns what records.
func (d *daemon) addBeside() (*recorder.Recorder, error) {
	ended := recorder.New(recorder.Options{
		Cached: d.mgr.GetClient(), Uncached: d.mgr.GetAPIReader(), Writer: d.mgr.GetClient(),
		Namespace: d.reconciler.Settings.Namespace, Now: d.reconciler.Settings.Now,
		EC2: func(ctx context.Context, region string) (recorder.EC2, error) {
			return d.reconciler.Clouds.Within(awsPatience)(ctx, region)
		},
	})
	d.reconciler.Nodes.Ends = ended
	for what, runs := range map[string]manager.Runnable{
		"posts commit statuses": newDeliverer(d.mgr, d.reconciler, d.reports), "records ended nodes": ended, "releases memory": &releaser{elected: d.mgr.Elected()},
		"keeps what a restart need not do once more": keeper{"fetched": d.git, "rendered": d.reconciler.Disk},
	} {
		if err := d.mgr.Add(runs); err != nil {
			return nil, fmt.Errorf("add what %s: %w", what, err)
		}
	}
	return ended, nil
}

// newFollower says on pull requests what they would do, by what the reconciler works with.
// The charts that pull requests ask for are in a store of their own, in which they evict none that a NodeSync needs.
func newFollower(mgr ctrl.Manager, reconciler *reconcile.Reconciler, reports *queue.Queue, space *source.Space, o *runOptions) *pulls.Follower {
	schemas, definitions := reconciler.Shared()
	settings := reconciler.Settings
	// Pull requests, from forks too, take no more than half of the space, so that NodeSyncs can always fetch.
	git := source.NewGit(source.Options{
		Dir: filepath.Join(o.cacheDir, "git-of-pull-requests"), MaxBytes: o.storeLimit / 2, Space: &source.Space{Limit: o.storeLimit / 2, Of: space},
		OnFetch: func(s source.FetchStats) { reconciler.Meter.Fetched(s.Received) },
	})
	return pulls.New(pulls.Options{
		Cached: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Namespace: settings.Namespace,
		Hosts: &report.Hosts{Now: settings.Now}, Source: git, Queue: reports,
		Preview: preview.Tools{
			Client: reconciler.Uncached, Cached: reconciler.Client, Nodes: reconciler.Nodes.Uncached, CachedNodes: reconciler.Nodes.Client, Definitions: definitions, Store: newChartStore("charts-of-pull-requests", reconciler.Confine, o), Helm: reconciler.Install,
			CRDs: (&planOptions{}).knownCRDs, Schemas: schemas, Confine: reconciler.Confine,
			CABundle: settings.CABundle(), Ask: ask(reconciler.Clouds.Within(awsPatience), settings.CertificateAuthority), Own: &settings.Own, Grants: &settings.Grants,
		},
		Grants: settings.Grants, StillLeader: settings.StillLeader, Trouble: reconciler.Look, Now: settings.Now,
	})
}

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
