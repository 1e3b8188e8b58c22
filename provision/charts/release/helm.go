package release

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

const crdKind = "CustomResourceDefinition"

// maxHistory is how many revisions of a release are kept.
const maxHistory = 5

// helm is a Helm client for one namespace. It is created for one step and then dropped: its discovery and its chart
// take megabytes.
type helm struct {
	config *action.Configuration
	kube   *kube.Client
	getter *getter
}

func newHelm(config *rest.Config, namespace string, logger logr.Logger) (*helm, error) {
	configuration := new(action.Configuration)
	// The arguments may contain the API server's response, with values of a Secret.
	log := func(format string, _ ...any) { logger.V(1).Info("helm", "says", format) }
	getter := newGetter(config, namespace)
	if err := configuration.Init(getter, namespace, "secret", log); err != nil {
		return nil, fmt.Errorf("set up Helm: %w", err)
	}
	client, ok := configuration.KubeClient.(*kube.Client)
	if !ok {
		return nil, fmt.Errorf("set up Helm: its client is a %T", configuration.KubeClient)
	}
	// The client for objects exists now. Only templates would still use this getter, and they must not reach the
	// cluster.
	configuration.RESTClientGetter = nil
	configuration.Capabilities = chartutil.DefaultCapabilities // required but not used: nothing is rendered
	return &helm{config: configuration, kube: client, getter: getter}, nil
}

// install creates the first revision. Wait, Atomic and Replace are off: a reconcile does not wait, and nothing is ever
// uninstalled. Hooks are off because Helm waits for their Jobs; Karpenter's charts have none that an install needs.
func (h *helm) install(ctx context.Context, t task, loaded *chart.Chart, labels map[string]string) error {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace = t.Name, t.namespace
	install.SkipCRDs = true
	install.DisableHooks = true
	install.DisableOpenAPIValidation = true // the rehearsal validates on the server, without its 3 MB of OpenAPI
	install.Labels = labels
	install.TakeOwnership = t.adopt // the rehearsal refuses what must not be adopted
	install.DryRunOption = dryRun(t)
	after := h.postRenderer(t, loaded, nil)
	install.PostRenderer = after
	_, err := install.RunWithContext(ctx, after.chart.Chart, t.Values)
	return cmp.Or(after.refusal, err)
}

// upgrade creates another revision, also after a failed first one: Helm compares with the last deployed revision or, if
// there is none, with the failed one (pkg/action/upgrade.go, prepareUpgrade). Atomic, CleanupOnFail and Force are off,
// because each of them can delete a CRD.
func (h *helm) upgrade(ctx context.Context, t task, loaded *chart.Chart, labels map[string]string) error {
	before, err := h.earlierObjectsWithNodes(t)
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
	upgrade.ResetValues = true // only Git's values, none of the previous release
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

// ignore makes the next upgrade leave ignored fields and paused objects unchanged.
func (h *helm) ignore(t task, loaded *chart.Chart) error {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return fmt.Errorf("read the last revision: %w", err)
	}
	ignored := t.ignored
	if !rescaled(last.Chart, last.Config, loaded, t.Values) {
		ignored = append(slices.Clone(ignored), survey.Replicas())
	}
	h.config.KubeClient = &ignoringClient{
		Client: h.kube, ignored: ignored, paused: t.paused,
		foreign: func(info *resource.Info) bool {
			return foreign(info, t.namespace, t.Name) != "" || t.leaves(info.Mapping.GroupVersionKind.Kind, info.Name)
		},
	}
	return nil
}

// dryRun returns Helm's option for a server-side dry run, or for none.
func dryRun(t task) string {
	if t.dry {
		return "server"
	}
	return "none"
}

// markFailed marks an unfinished last revision as failed, so that Helm upgrades over it. What it wrote stays.
func (h *helm) markFailed(name string) error {
	last, err := h.config.Releases.Last(name)
	if err != nil {
		return fmt.Errorf("read the last revision: %w", err)
	}
	if last.Info.Status == helmrelease.StatusDeployed {
		return nil // a later revision that could not be read left nothing behind
	}
	last.SetStatus(helmrelease.StatusFailed, "interrupted: marked as failed by plumbline to upgrade over it")
	if err := h.config.Releases.Update(last); err != nil {
		return fmt.Errorf("mark revision %d failed: %w", last.Version, err)
	}
	return nil
}

// earlierObjectsWithNodes returns what carries nodes in the revisions that Helm would compare with: the last and the
// deployed one. Karpenter's main chart has nothing of that kind, but one of another tool may have NodePools among its
// templates.
func (h *helm) earlierObjectsWithNodes(t task) ([]string, error) {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return nil, fmt.Errorf("read the last revision: %w", err)
	}
	names := objectsWithNodes(last.Manifest)
	deployed, err := h.config.Releases.Deployed(t.Name)
	switch {
	case errors.Is(err, driver.ErrNoDeployedReleases):
		return names, nil
	case err != nil:
		return nil, fmt.Errorf("read the revision in force: %w", err)
	}
	return append(names, objectsWithNodes(deployed.Manifest)...), nil
}

// objectsWithNodes returns the objects of a manifest whose deletion deletes nodes.
func objectsWithNodes(manifest string) []string {
	var names []string
	for _, document := range releaseutil.SplitManifests(manifest) {
		var object metav1.PartialObjectMetadata
		if yaml.Unmarshal([]byte(document), &object) != nil {
			continue
		}
		if name, ok := deletionDeletesNodes(object.GroupVersionKind().Group, object.Kind, object.Name); ok {
			names = append(names, name)
		}
	}
	return names
}

// deletionDeletesNodes reports whether deleting an object deletes nodes: true for CRDs and for objects of Karpenter's
// kinds. It also returns its name for messages, which is the plain name for a CRD.
func deletionDeletesNodes(group, kind, name string) (string, bool) {
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

// getter provides a rest.Config to Helm, which would otherwise look for a kubeconfig. It implements
// genericclioptions.RESTClientGetter.
type getter struct {
	config    *rest.Config
	namespace string
	discovery discovery.CachedDiscoveryInterface
}

func newGetter(config *rest.Config, namespace string) *getter {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100 // a step sends some 60 requests, and then there are none for days
	return &getter{config: config, namespace: namespace}
}

// ToRESTConfig returns the config.
func (g *getter) ToRESTConfig() (*rest.Config, error) { return g.config, nil }

// ToDiscoveryClient returns one client for the lifetime of the getter.
func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if g.discovery == nil {
		client, err := discovery.NewDiscoveryClientForConfig(g.config)
		if err != nil {
			return nil, fmt.Errorf("create a discovery client: %w", err)
		}
		g.discovery = memory.NewMemCacheClient(client)
	}
	return g.discovery, nil
}

// ToRESTMapper maps kinds by discovery.
func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

// ToRawKubeConfigLoader is only used for the namespace.
func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, overrides)
}

// Request describes what a cluster should have, and which changes are allowed.
type Request struct {
	charts.Installation

	// Adopt takes ownership of what another tool or a user installed.
	Adopt bool
	// Ignored are the fields that other controllers and users may change.
	Ignored []survey.Ignore
	// CorrectPaused also corrects the objects whose correction is paused, at a user's request.
	CorrectPaused bool
	// Permit is called with each rendered chart before the API server checks it; its error stops the step. It also applies
	// to repairs and rollbacks, because what was permitted before may no longer be. Default: everything is permitted.
	Permit func(Rendered) error
}

// task is the desired state of one release.
type task struct {
	charts.Chart

	namespace string
	// ignored are the fields that other controllers and users may change.
	ignored []survey.Ignore
	// paused are objects whose correction is paused: they are not changed.
	paused []survey.Drift
	// correctPaused corrects even those.
	correctPaused bool
	// description of the revision; if empty, Helm's own.
	description string
	// adopt takes ownership of what plumbline has not installed.
	adopt bool
	// sealed reports whether values come from Secrets.
	sealed bool
	// dry reports whether nothing may be written.
	dry bool
	// permit is called with the rendered chart; if nil, everything is permitted.
	permit func(Rendered) error
	// left are the CRDs that EKS keeps up to date: they are not part of the release.
	left []string
	// earlier reports whether the chart is that of an earlier revision, read from the cluster.
	earlier bool
	// manifest is the rendered chart.
	manifest string
}

// newTask returns the task for a chart, by its name.
func (i *Installer) newTask(ctx context.Context, name string, c *charts.Charts, want Request) (task, error) {
	one, err := c.Chart(name, want.Installation)
	if err != nil {
		return task{}, err
	}
	t := task{
		Chart: one, namespace: want.Namespace,
		adopt: want.Adopt, ignored: want.Ignored, correctPaused: want.CorrectPaused, permit: want.Permit,
		sealed: want.Sealed != "",
	}
	if name == charts.CRDChart {
		crds, err := i.listCRDs(ctx)
		if err != nil {
			return task{}, err
		}
		t.left = survey.ServedByEKS(crds)
	}
	return t, nil
}

// leaves reports whether an object is a CRD that is left to EKS.
func (t task) leaves(kind, name string) bool {
	return kind == crdKind && slices.Contains(t.left, name)
}

// mark identifies what the release is made from. A release without the CRDs that EKS keeps is another one than the whole
// chart, so that it is upgraded once EKS keeps more of them, or fewer.
func (t task) mark() (Mark, error) {
	values, err := t.Fingerprint()
	if err != nil {
		return Mark{}, err
	}
	if len(t.left) > 0 {
		sum := sha256.Sum256([]byte(values + " without " + strings.Join(t.left, " ")))
		values = hex.EncodeToString(sum[:len(values)/2])
	}
	_, digest, ok := strings.Cut(t.Digest, ":")
	if !ok || len(digest) < 32 {
		return Mark{}, fmt.Errorf("chart %s %s has no digest: only charts out of a Store can be installed", t.Name, t.Version)
	}
	return Mark{Version: charts.Label(t.Version), Digest: digest[:32], Values: values}, nil
}

// ignoringClient is Helm's client for the API server, but it leaves ignored fields and paused objects unchanged: on
// each upgrade, Helm would set every field of the manifest that differs in the cluster. The manifest in the release
// remains that of the chart.
type ignoringClient struct {
	*kube.Client
	ignored []survey.Ignore
	paused  []survey.Drift
	// foreign reports whether an object is not from Karpenter's charts, or left to EKS.
	foreign func(*resource.Info) bool
}

// Update is Helm's Update except for what is ignored.
func (c *ignoringClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := c.preserve(target); err != nil {
		return nil, err
	}
	return c.Client.Update(c.ours(original, target), target, force)
}

// UpdateThreeWayMerge is Helm's, except for what is ignored.
func (c *ignoringClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := c.preserve(target); err != nil {
		return nil, err
	}
	return c.Client.UpdateThreeWayMerge(c.ours(original, target), target, force)
}

// ours returns the objects of a revision that belong to Karpenter's charts or to the next revision. Helm deletes those
// that the next one no longer has; anything else in its record, such as a CRD that EKS keeps since, is not touched.
func (c *ignoringClient) ours(original, target kube.ResourceList) kube.ResourceList {
	return original.Filter(func(info *resource.Info) bool { return target.Contains(info) || !c.foreign(info) })
}

func (c *ignoringClient) preserve(target kube.ResourceList) error {
	for _, info := range target {
		wanted, live, err := wantedAndLive(info)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		if slices.ContainsFunc(c.paused, func(d survey.Drift) bool { return d.Object == describe(info) }) {
			wanted.Object = live.DeepCopy().Object
			wanted.SetResourceVersion("")
			wanted.SetManagedFields(nil)
			continue
		}
		if err := survey.Preserve(wanted, live, c.ignored); err != nil {
			return err
		}
	}
	return nil
}

// rescaled reports whether the chart's number of replicas differs from the previous revision's. If it does not, it is
// left to autoscalers and users.
func rescaled(before *chart.Chart, was map[string]any, next *chart.Chart, is map[string]any) bool {
	count := func(c *chart.Chart, values map[string]any) string {
		if given, ok := values["replicas"]; ok {
			return fmt.Sprint(given)
		}
		return fmt.Sprint(c.Values["replicas"])
	}
	return count(before, was) != count(next, is)
}

// placeholder is a chart with nothing that Helm would render or validate, together with the chart that Helm stores
// instead. Install and upgrade render with a client for templates that call lookup and a loader for schemas that
// reference URLs. So Helm gets nothing to render, and the rendered chart is the output of its post-renderer.
type placeholder struct {
	*chart.Chart
	full *chart.Chart
}

func newPlaceholder(full *chart.Chart) placeholder {
	metadata := *full.Metadata
	metadata.Dependencies, metadata.KubeVersion = nil, ""
	return placeholder{Chart: &chart.Chart{Metadata: &metadata}, full: full}
}

// fill turns it into the chart that Helm stores in the release.
func (p placeholder) fill() { *p.Chart = *p.full }

// postRenderer passes the rendered chart to Helm if the rehearsal accepts it. It is a postrender.PostRenderer.
type postRenderer struct {
	*rehearsal

	chart    placeholder
	manifest string
}

// Run returns the manifest, or why it must not be written.
func (p *postRenderer) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	p.chart.fill()
	return p.rehearsal.Run(bytes.NewBufferString(p.manifest))
}

// capabilities returns the cluster's capabilities as Helm would discover them.
func (h *helm) capabilities() (charts.Capabilities, error) {
	client, err := h.getter.ToDiscoveryClient()
	if err != nil {
		return charts.Capabilities{}, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return charts.Capabilities{}, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	apis, err := action.GetVersionSet(client)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return charts.Capabilities{}, fmt.Errorf("read the API versions of the cluster: %w", err)
	}
	slices.Sort(apis) // they come from a map
	return charts.Capabilities{Version: version.GitVersion, Major: version.Major, Minor: version.Minor, APIs: apis}, nil
}
