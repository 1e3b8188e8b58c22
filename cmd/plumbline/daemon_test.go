package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/runtime/metrics"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// sink accepts events like the API server.
type sink chan string

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	s <- e.Message
	return e, nil
}
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) { return s.Create(e) }
func (s sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(e)
}

// TestEventsOfALargeCommit: all of them arrive.
func TestEventsOfALargeCommit(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	broadcaster, sent := newBroadcaster(), make(sink)
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sent)
	var recorder record.EventRecorder = broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "plumbline"})
	const many = 90
	for i := range many {
		recorder.Event(nodeSync("prod"), corev1.EventTypeNormal, "Removed", fmt.Sprintf("NodePool/%d is gone", i))
	}
	for i := range many {
		if got, want := <-sent, fmt.Sprintf("NodePool/%d is gone", i); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// TestPullRequestsHaveAChartStoreOfTheirOwn: their charts evict none that a NodeSync needs.
func TestPullRequestsHaveAChartStoreOfTheirOwn(t *testing.T) {
	_, kubeconfig := serve(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	o := standInOptions(nodeSync("prod"), t.TempDir())
	d, err := newDaemon(t.Context(), config, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range append(metrics.NewRecorder().Collectors(), d.reconciler.Meter) {
			ctrlmetrics.Registry.Unregister(c)
		}
	}()
	followed := newFollower(d.mgr, d.reconciler, d.reports, d.space, o)
	checkout := fstest.MapFS{
		"charts/karpenter-1.14.1.tgz":     {Data: chartstest.Controller(t, "1.14.1")},
		"charts/karpenter-crd-1.14.1.tgz": {Data: chartstest.CRDs(t, "1.14.1")},
	}
	for _, resolve := range []func(context.Context, charts.Ref, charts.Access) (*charts.Charts, error){d.reconciler.Charts.Resolve, followed.Preview.Store.Resolve} {
		if _, err := resolve(t.Context(), charts.Ref{Repository: "charts", Version: "1.14.1"}, charts.Access{Files: checkout}); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(o.cacheDir, "*", "versions", "*.json"))
	if err != nil || len(kept) != 2 {
		t.Errorf("the stores keep %q, want the version in a folder each: %v", kept, err)
	}
}
