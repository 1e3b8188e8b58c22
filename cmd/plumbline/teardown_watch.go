package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// watch waits until the NodeSync, or its nodes, are gone.
func (t *teardownCommand) watch(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan) error {
	all, answers := l.Departures(), contact{at: t.v.now()}
	moved, version, message := t.v.now(), "", ""
	defer t.show.end()
	for {
		if err := t.standIn.over(); err != nil {
			return fmt.Errorf("%w; %s", err, t.howToContinue())
		}
		seen, err := t.reread(ctx, sync)
		switch {
		case answers.lost(err, t.v.now()):
			t.show.sentence("the cluster cannot be reached; trying again")
		case err != nil || seen == nil:
			return err
		case seen.ResourceVersion != version:
			version, moved = seen.ResourceVersion, t.v.now()
			if seen.Status.ObservedGeneration < seen.Generation {
				break // its status is from before the deletion
			}
			all, message = all.Next(seen.Status.Removals), conditions.GetMessage(seen, meta.ReadyCondition)
			t.show.progress(all, message)
			if t.downTo.Complete(seen) {
				return nil
			}
		case t.v.now().Sub(moved) > printEvery:
			moved = t.v.now()
			t.awaitDaemon(ctx, sync, l)
		}
		if err := t.terminateStranded(ctx, sync, l); err != nil {
			return err
		}
		if !t.v.now().Before(t.until) {
			return t.timedOut(answers, message)
		}
		if err := pause.For(ctx, min(askEvery, t.v.pause)); err != nil {
			return err
		}
	}
}

// awaitDaemon terminates the nodes in this process if the daemon has stopped in the meantime.
func (t *teardownCommand) awaitDaemon(ctx context.Context, sync *v1alpha1.NodeSync, l *teardown.Plan) {
	if t.standIn != nil {
		return
	}
	why := t.c.withoutDaemon(ctx, t.v.now)
	if why == "" {
		return
	}
	err := t.chooseIdentity(ctx, sync, l)
	if err == nil {
		err = t.startStandIn(ctx, sync, false)
	}
	if err != nil {
		t.show.sentence(fmt.Sprintf("%s; the teardown continues as soon as one does: %v", why, err))
		return
	}
	t.show.sentence(why + "; this command terminates the nodes now")
}

// reread reads the NodeSync again; nil if it is gone.
func (t *teardownCommand) reread(ctx context.Context, sync *v1alpha1.NodeSync) (*v1alpha1.NodeSync, error) {
	ctx, stop := context.WithTimeout(ctx, readTime)
	defer stop()
	seen := &v1alpha1.NodeSync{}
	err := t.c.Get(ctx, client.ObjectKeyFromObject(sync), seen)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, explain(err, "read NodeSync "+sync.Name)
	}
	return seen, t.downTo.Undone(sync, seen)
}

// timedOut returns a timeout error that tells what was waited for.
func (t *teardownCommand) timedOut(answers contact, message string) error {
	if answers.err != nil {
		return answers.err
	}
	t.show.end()
	message = cmp.Or(message, "the NodeSync does not report yet what it waits for: the reconcile in progress may wait for a Git host that does not respond: see plumbline logs "+t.name)
	return &exitError{code: exitStalled, message: fmt.Sprintf("%s is not %s after %s: %s; %s",
		nodeSyncWord(t.name), map[bool]string{true: "drained", false: "gone"}[t.downTo.Keeps()], short(t.timeout.Round(time.Millisecond)), oneLine(message), t.howToContinue())}
}

// standIn runs the daemon's reconciles in this process if no daemon leads: the same reconciles, with the same lease,
// for only one NodeSync that is deleted.
type standIn struct {
	stop context.CancelFunc
	// installed makes reconciles terminate the nodes from now on, instead of only installing Karpenter's charts.
	installed func()
	// ended is closed when reconciles have stopped and the lease is released; err is the reason.
	ended chan struct{}
	err   error
}

// startStandIn starts the reconciles; if installs is set, they first only install Karpenter's charts. It waits for the
// lease.
func startStandIn(
	ctx context.Context, config *rest.Config, sync *v1alpha1.NodeSync, installs bool, steps steppoint.Options,
) (*standIn, error) {
	logger.SetLogger(logr.Discard()) // the NodeSync's status contains what the reconciles report
	dir, err := os.MkdirTemp("", "plumbline-teardown-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the reconciles: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	o, only := standInOptions(sync, dir), &atomic.Bool{}
	o.steps = steps
	d, err := newDaemon(ctx, config, o)
	if err == nil {
		only.Store(installs)
		d.reconciler.Settings.OnlyNodeSync, d.reconciler.Settings.Installs = sync.UID, only.Load
		_, err = d.addBeside()
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &standIn{stop: stop, ended: make(chan struct{}), installed: func() {
		only.Store(false)
		d.reconciler.Enqueue(client.ObjectKeyFromObject(sync))
	}}
	go func() {
		defer close(s.ended)
		s.err = errors.Join(d.run(ctx, o.concurrent), os.RemoveAll(dir))
	}()
	return s, nil
}

// standInOptions returns the daemon's flags, without any server, and following nothing but NodeSyncs.
func standInOptions(sync *v1alpha1.NodeSync, dir string) *runOptions {
	// As the daemon's ServiceAccount, it may read Karpenter's objects only in Karpenter's namespace.
	var karpenter []string
	if k := sync.Status.Karpenter; k != nil {
		karpenter = []string{k.Namespace}
	}
	return &runOptions{
		namespace: sync.Namespace, karpenterNamespaces: karpenter, cacheDir: dir, leaderElect: true, concurrent: 4,
		metricsAddr: "0", profilingAddr: "0", healthAddr: "0", webhookAddr: "0", pageAddr: "0",
		cloudInterval: 10 * time.Second, storeLimit: 1 << 30,
	}
}

// over reports whether the reconciles have stopped on their own, and why.
func (s *standIn) over() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.ended:
		if s.err == nil {
			return errors.New("the reconciles have stopped")
		}
		return s.err
	default:
		return nil
	}
}

// end stops the reconciles, and waits until the lease is released.
func (s *standIn) end() {
	if s != nil {
		s.stop()
		<-s.ended
	}
}

// terminatesNodes makes it terminate the nodes, once Karpenter's charts are installed.
func (s *standIn) terminatesNodes() {
	if s.installed != nil {
		s.installed()
	}
}

// startStandIn terminates the nodes in this process, or first only installs Karpenter's charts, as the user or as the
// daemon.
func (t *teardownCommand) startStandIn(ctx context.Context, sync *v1alpha1.NodeSync, installs bool) error {
	if t.standIn != nil {
		return nil
	}
	config, err := t.kubeconfig.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.UserAgent = -1, controllerName+"/"+version
	if t.as != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: t.as}
	}
	t.standIn, err = t.startReconciles(ctx, config, sync, installs, t.steps)
	return err
}

// chooseIdentity determines the identity for the last steps: the user, or, if the deletion guard allows only the daemon
// to delete definitions, its ServiceAccount. It tries each with a dry run.
func (t *teardownCommand) chooseIdentity(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	refused := dryRunDeletion(ctx, t.c, sync, leaves)
	if !apierrors.IsForbidden(refused) {
		return refused
	}
	as := t.daemonUser(ctx)
	config := rest.CopyConfig(t.c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: as}
	daemon, err := client.New(config, client.Options{Scheme: t.c.Scheme(), Mapper: t.c.RESTMapper()})
	if err != nil {
		return explain(err, "connect as "+as)
	}
	if err := dryRunDeletion(ctx, daemon, sync, leaves); err != nil {
		return fmt.Errorf("no plumbline daemon holds the leader lease, and you are not allowed to terminate the nodes yourself (%w) or to impersonate its ServiceAccount (%w); nothing was changed. Start the daemon, or get permission to impersonate serviceaccounts/%s in namespace %s",
			refused, err, daemonAccount, sync.Namespace)
	}
	t.as = as
	return nil
}

// daemonUser returns the daemon's user name for the API server.
func (t *teardownCommand) daemonUser(ctx context.Context) string {
	return "system:serviceaccount:" + t.c.namespaceOfNodeSyncs(ctx) + ":" + daemonAccount
}

// daemonAccount is the daemon's ServiceAccount, which the deletion guard recognizes.
const daemonAccount = "plumbline"

// dryRunDeletion sends dry runs to delete one definition of each kind, and to remove plumbline's finalizer from the
// NodeSync.
func dryRunDeletion(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	tried := map[string]bool{}
	for _, leaving := range leaves.Objects {
		_, known := render.KindOf(leaving.Kind)
		if tried[leaving.Kind] || leaving.Gone || !known {
			continue
		}
		tried[leaving.Kind] = true
		object := render.Ref{Kind: leaving.Kind, Name: leaving.Name}.Empty()
		if err := c.Delete(ctx, object, client.DryRunAll); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s/%s: %w", leaving.Kind, leaving.Name, err)
		}
	}
	bare := sync.DeepCopy()
	bare.Finalizers = slices.DeleteFunc(bare.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	if err := c.Patch(ctx, bare, client.MergeFrom(sync), client.DryRunAll); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer from NodeSync %s: %w", sync.Name, err)
	}
	return nil
}
