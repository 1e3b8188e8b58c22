package main

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/reconcile/source/flux"
)

// eitherSource is where definitions come from: Git hosts, and the artifacts of Flux.
func (d *daemon) eitherSource(config *rest.Config, o *runOptions) (flux.Either, error) {
	watcher, err := dynamic.NewForConfig(config)
	if err != nil {
		return flux.Either{}, fmt.Errorf("make the client that watches sources of Flux: %w", err)
	}
	sources := &flux.Sources{Reader: d.mgr.GetAPIReader(), Watcher: watcher, Namespaces: o.sourceNamespaces, Wake: d.reconciler.Wake}
	artifacts := flux.NewStore(flux.Options{Dir: filepath.Join(o.cacheDir, "artifacts"), MaxBytes: o.storeLimit, Space: d.space})
	return flux.Either{Git: d.git, Sources: sources, Artifacts: artifacts}, nil
}
