package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

const crdKind = "CustomResourceDefinition"

// maxHistory is how many revisions of a release are kept.
const maxHistory = 5

// helm is Helm at work on one namespace. It is made for one step and dropped
// after it: its discovery and its chart are worth megabytes.
type helm struct {
	config *action.Configuration
	kube   *kube.Client
	getter *getter
}

func newHelm(config *rest.Config, namespace string, logger logr.Logger) (*helm, error) {
	configuration := new(action.Configuration)
	// What Helm fills in may be the API server's answer, with a value of a Secret in it.
	log := func(format string, _ ...any) { logger.V(1).Info("helm", "says", format) }
	getter := newGetter(config, namespace)
	if err := configuration.Init(getter, namespace, "secret", log); err != nil {
		return nil, fmt.Errorf("set up Helm: %w", err)
	}
	client, ok := configuration.KubeClient.(*kube.Client)
	if !ok {
		return nil, fmt.Errorf("set up Helm: its client is a %T", configuration.KubeClient)
	}
	// The client for objects is made by now. What is left of this would be the one of
	// templates, which is to be none.
	configuration.RESTClientGetter = nil
	configuration.Capabilities = chartutil.DefaultCapabilities // asked for, and not used: nothing is rendered
	return &helm{config: configuration, kube: client, getter: getter}, nil
}

// install makes the first revision. Wait, Atomic and Replace stay off: a pass
// does not wait, and nothing is ever uninstalled. Hooks stay off because Helm
// waits for their Jobs; Karpenter's charts have none that an install needs.
func (h *helm) install(ctx context.Context, t task, loaded *chart.Chart, labels map[string]string) error {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace = t.Name, t.namespace
	install.SkipCRDs = true
	install.DisableHooks = true
	install.DisableOpenAPIValidation = true // the rehearsal has the server validate, without its 3 MB of OpenAPI
	install.Labels = labels
	install.TakeOwnership = t.adopt // what must not be adopted, the rehearsal refuses
	install.DryRunOption = dryRun(t)
	after := h.postRenderer(t, loaded, nil)
	install.PostRenderer = after
	_, err := install.RunWithContext(ctx, after.chart.Chart, t.Values)
	return cmp.Or(after.refusal, err)
}

// upgrade makes another revision, over a failed first one too: Helm compares
// with the last revision in force or, where there is none, with the failed one
// (pkg/action/upgrade.go, prepareUpgrade). Atomic, CleanupOnFail and Force stay
// off: each of them can delete a CRD.
func (h *helm) upgrade(ctx context.Context, t task, loaded *chart.Chart, labels map[string]string) error {
	before, err := h.carriedBefore(t)
	if err != nil {
		return err
	}
	if err := h.ignore(t, loaded); err != nil {
		return err
	}
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace = t.namespace
	upgrade.SkipCRDs = true
	upgrade.DisableHooks = true
	upgrade.DisableOpenAPIValidation = true
	upgrade.ResetValues = true // Git's values, and nothing left over from before
	upgrade.MaxHistory = maxHistory
	upgrade.Labels = labels
	upgrade.TakeOwnership = t.adopt
	upgrade.Description = t.description
	upgrade.DryRunOption = dryRun(t)
	after := h.postRenderer(t, loaded, before)
	upgrade.PostRenderer = after
	_, err = upgrade.RunWithContext(ctx, t.Name, after.chart.Chart, t.Values)
	return cmp.Or(after.refusal, err)
}

// ignore has the next upgrade leave ignored fields and paused objects as they are.
func (h *helm) ignore(t task, loaded *chart.Chart) error {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return fmt.Errorf("read the last revision: %w", err)
	}
	ignored := t.ignored
	if !rescaled(last.Chart, last.Config, loaded, t.Values) {
		ignored = append(slices.Clone(ignored), survey.Replicas())
	}
	h.config.KubeClient = &ignoringClient{Client: h.kube, ignored: ignored, paused: t.paused}
	return nil
}

// dryRun is Helm's word for writing nothing and asking the server all the same.
func dryRun(t task) string {
	if t.dry {
		return "server"
	}
	return "none"
}

// markFailed ends the last revision where it was never finished, so that Helm
// upgrades over it. What it wrote stays.
func (h *helm) markFailed(name string) error {
	last, err := h.config.Releases.Last(name)
	if err != nil {
		return fmt.Errorf("read the last revision: %w", err)
	}
	if last.Info.Status == helmrelease.StatusDeployed {
		return nil // of a later one that could not be read nothing is left
	}
	last.SetStatus(helmrelease.StatusFailed, "interrupted: marked as failed by plumbline to upgrade over it")
	if err := h.config.Releases.Update(last); err != nil {
		return fmt.Errorf("mark revision %d failed: %w", last.Version, err)
	}
	return nil
}

// carriedBefore is what carries nodes in the revisions that Helm would compare
// with: the last one, and the one in force. Of our main chart that is nothing; one
// of another tool may have NodePools among its templates.
func (h *helm) carriedBefore(t task) ([]string, error) {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return nil, fmt.Errorf("read the last revision: %w", err)
	}
	names := carried(last.Manifest)
	deployed, err := h.config.Releases.Deployed(t.Name)
	switch {
	case errors.Is(err, driver.ErrNoDeployedReleases):
		return names, nil
	case err != nil:
		return nil, fmt.Errorf("read the revision in force: %w", err)
	}
	return append(names, carried(deployed.Manifest)...), nil
}

// carried names the objects of a manifest whose deletion deletes nodes.
func carried(manifest string) []string {
	var names []string
	for _, document := range releaseutil.SplitManifests(manifest) {
		var object metav1.PartialObjectMetadata
		if yaml.Unmarshal([]byte(document), &object) != nil {
			continue
		}
		if name, ok := carriesNodes(object.GroupVersionKind().Group, object.Kind, object.Name); ok {
			names = append(names, name)
		}
	}
	return names
}

// carriesNodes says that nodes go with an object: with Karpenter's CRDs, and with
// objects of its kinds. Of CRDs that is the bare name.
func carriesNodes(group, kind, name string) (string, bool) {
	switch {
	case kind == crdKind:
		return name, true
	case charts.KarpenterGroup(group):
		return kind + " " + name, true
	}
	return "", false
}

func (h *helm) postRenderer(t task, loaded *chart.Chart, before []string) *postRenderer {
	return &postRenderer{
		rehearsal: &rehearsal{kube: h.kube, task: t, before: before},
		chart:     newPlaceholder(loaded), manifest: t.manifest,
	}
}
