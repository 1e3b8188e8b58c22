package main

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/render"
)

// commit is what a plan is made of, beside its definitions.
type commit struct {
	karpenter *render.Karpenter
	// path of the folder in the repository.
	path  string
	files *render.Snapshot
}

// refusals are why the daemon refuses a commit whatever its definitions are: by the same
// functions, in the same words. Of values that are in the cluster nothing is known here.
func refusals(ctx context.Context, sync *v1alpha1.NodeSync, all []v1alpha1.NodeSync, of commit) (refused []error, warnings []string) {
	renamed, err := desired.CheckFixed(sync.Status.Karpenter, of.karpenter)
	if err != nil {
		refused = append(refused, err)
	}
	if renamed != nil {
		warnings = append(warnings, "unless AWS confirms the new name of the cluster: "+renamed.Error())
	}
	if of.karpenter.Management != render.Managed {
		return refused, warnings
	}
	if err := desired.CheckManager(inNamespace(all, sync.Namespace), sync); err != nil {
		refused = append(refused, err)
	}
	values, err := valuesOf(of)
	if err != nil {
		return append(refused, err), warnings
	}
	unknown, err := desired.CheckRequest(sync, of.karpenter, values)
	switch {
	case err != nil:
		refused = append(refused, err)
	case len(unknown) > 0:
		known, err := chartValues(ctx, of)
		if err != nil {
			return refused, append(warnings, "whether the chart has each value is not known: "+err.Error())
		}
		if err := karpenter.CheckValues(values, known, inForce(sync), of.karpenter.Version); err != nil {
			refused = append(refused, err)
		}
	}
	return refused, warnings
}

func inNamespace(all []v1alpha1.NodeSync, namespace string) []v1alpha1.NodeSync {
	var found []v1alpha1.NodeSync
	for i := range all {
		if all[i].Namespace == namespace {
			found = append(found, all[i])
		}
	}
	return found
}

// inForce is the version of Karpenter in force; empty where none is known.
func inForce(sync *v1alpha1.NodeSync) string {
	if sync.Status.Karpenter == nil {
		return ""
	}
	return sync.Status.Karpenter.Version
}

// valuesOf are the values in files and in plumbline.yaml, merged.
func valuesOf(of commit) (map[string]any, error) {
	files, err := of.karpenter.ReadValues(render.NewFiles(*of.files), of.path)
	if err != nil {
		return nil, err
	}
	var layers []charts.Layer
	for i, values := range files {
		layers = append(layers, charts.Layer{Origin: of.karpenter.ValuesFiles[i], Values: values})
	}
	merged, err := charts.Merge(append(layers, charts.Layer{Origin: render.FileName, Values: of.karpenter.Values})...)
	return merged.Merged, err
}

// chartValues are the main chart's own.
func chartValues(ctx context.Context, of commit) (map[string]any, error) {
	keys, err := dockerLogin(nil)
	if err != nil {
		return nil, err
	}
	repository, _, err := of.karpenter.ChartRepository(of.path)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	err = withChart(ctx, of.karpenter, repository, charts.Access{Keys: keys, Files: render.NewFiles(*of.files)}, func(pulled *charts.Charts) (err error) {
		found, err = pulled.Values()
		return err
	})
	return found, err
}

// words are errors as a report has them.
func words(errs []error) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
