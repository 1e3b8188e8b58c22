package main

import (
	"maps"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// cacheOptions say what the daemon watches, and how what is sent of it is read.
func cacheOptions(config *rest.Config, refusals *observe.Refusals, values *render.Values, o *runOptions) (cache.Options, error) {
	informers, err := observe.NewInformers(config)
	if err != nil {
		return cache.Options{}, err
	}
	options := observe.CacheOptions(refusals, values)
	options.NewInformer = informers.New
	maps.Copy(options.ByObject, observe.Labelled(o.namespace))
	observe.Narrow(options.ByObject, o.karpenterNamespaces)
	return options, nil
}
