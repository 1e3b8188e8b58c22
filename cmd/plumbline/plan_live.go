package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/landing"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/flux"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// planNodeSync fetches what a NodeSync's source has now, and plans it.
func (o *planOptions) planNodeSync(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, name string) (*planned, error) {
	c, sync, err := nodeSyncOf(ctx, kubeconfig, name)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plumbline-plan-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the fetch: %w", err)
	}
	defer os.RemoveAll(dir)
	snapshot, err := fetchFor(ctx, c, sync, dir)
	if err != nil {
		return nil, err
	}
	return o.planCommit(ctx, c, sync, snapshot)
}

// planFolder plans a folder on disk as the commit that it would be.
func (o *planOptions) planFolder(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, folder string) (*planned, error) {
	root, name, err := repositoryOf(folder)
	if err != nil {
		return nil, err
	}
	if err := hasCluster(folder); err != nil {
		return nil, err
	}
	snapshot, err := source.Folder(root)
	if err != nil {
		return nil, err
	}
	snapshot.Revision = "folder"
	c, sync, err := nodeSyncOf(ctx, kubeconfig, o.against)
	if err != nil {
		return nil, err
	}
	sync.Spec.Path = name
	whole, err := o.planCommit(ctx, c, sync, snapshot)
	if err != nil {
		return nil, err
	}
	whole.Warnings = append(whole.Warnings, untracked(root, name)...)
	return whole, nil
}

func nodeSyncOf(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, name string) (*cluster, *v1alpha1.NodeSync, error) {
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	sync, err := c.nodeSync(ctx, name)
	return c, sync, err
}

func fetchFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, dir string) (*render.Snapshot, error) {
	git := sync.Spec.Source.Git
	if git == nil {
		return artifactFor(ctx, c, sync, dir)
	}
	request := source.Request{Key: sync.Namespace + "/" + sync.Name, URL: git.URL, Ref: git.Ref, Path: sync.Spec.Path}
	if git.SecretRef != nil {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: sync.Namespace, Name: git.SecretRef.Name}, secret); err != nil {
			return nil, explain(err, "read secret "+git.SecretRef.Name)
		}
		// Who reads the Secret with rights of their own is believed where it says nothing.
		own := grant.Policy{Unannotated: true}
		if err := own.Check(secret, grant.Use{NodeSync: sync.Name, Address: git.URL}); err != nil {
			return nil, err
		}
		credentials, err := source.CredentialsFromSecret(secret.Data)
		if err != nil {
			return nil, fmt.Errorf("read secret %s: %w", git.SecretRef.Name, err)
		}
		request.Credentials = credentials
	}
	snapshot, _, err := source.NewGit(source.Options{Dir: dir}).Fetch(ctx, request)
	return snapshot, err
}

// artifactFor reads what Flux has fetched, where that is within reach from here: source-controller is reached in the cluster.
func artifactFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, dir string) (*render.Snapshot, error) {
	ref := sync.SourceRef()
	sources := &flux.Sources{Reader: c, Namespaces: []string{ref.Namespace}}
	a, err := sources.Artifact(ctx, client.ObjectKeyFromObject(sync), *ref)
	if err != nil {
		return nil, err
	}
	snapshot, _, err := flux.NewStore(flux.Options{Dir: dir}).Fetch(ctx, sync.Name, *a)
	if snapshot == nil {
		return nil, fmt.Errorf("%w: from outside of the cluster, plan a checkout: plumbline plan FOLDER --against %s", err, sync.Name)
	}
	return snapshot, nil
}

// planned is a Plan, and what it says beside definitions.
type planned struct {
	*plan.Plan
	// upgrade is what a change of Karpenter's version does to nodes; nil where there is none.
	upgrade *upgradeForecast
	// adoption is what there is of Karpenter that another tool has installed; nil where there
	// is nothing.
	adoption *adoptReport
	// stopped is why the daemon does nothing of the commit, and waits says that it goes on by
	// itself. chartsRefused is why it leaves the charts as they are and applies the definitions.
	stopped, chartsRefused string
	// charts is what is done with the charts; empty where nothing is.
	charts string
	waits  bool
	// approve is the digest of what is held and people may approve, and approval says how.
	approve, approval string
	// live is what there is; nothing where the comparison is with nothing, and offline says so.
	live    plan.Live
	offline bool
	// removal is how entries leave that the commit removes.
	removal v1alpha1.RemovalPolicy
	// pods are those on the nodes that are touched, by object.
	pods []podsReport
	// taken is the snapshot that the comparison is with; nil where it is with a cluster.
	taken *capture.Capture
	// whatIf is where pods would go; nil where nobody asks.
	whatIf *whatIfReport
}

// planCommit compares a commit with the cluster of a NodeSync.
func (o *planOptions) planCommit(ctx context.Context, c *cluster, sync *v1alpha1.NodeSync, snapshot *render.Snapshot) (*planned, error) {
	dir, err := os.MkdirTemp("", "plumbline-charts-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the charts: %w", err)
	}
	defer os.RemoveAll(dir)
	store, err := newLoginStore(ctx, dir)
	if err != nil {
		return nil, err
	}
	helm, err := release.NewInstaller(release.InstallerOptions{Config: c.config, Logger: logr.FromContextOrDiscard(ctx), Confine: confined(ctx)})
	if err != nil {
		return nil, err
	}
	authority, err := certificateAuthority(c.config)
	if err != nil {
		return nil, err
	}
	hidden := redact.Redactor{}
	step := &preview.Step{
		Tools: preview.Tools{Client: c, Store: store, Helm: helm, CRDs: o.knownCRDs, Schemas: &schema.Cache{}, Confine: confined(ctx), CABundle: plan.CABundle(authority)},
		Sync:  sync, Snapshot: snapshot, Now: time.Now(),
		HideValues:     func(values []string) { hidden = hidden.And(redact.Values(values...)) },
		HideCredential: func(password string) { hidden = hidden.And(redact.Credentials(password)) },
	}
	o.asks(step, c, authority)
	seen, err := step.Make(ctx)
	if err != nil {
		return nil, explain(hidden.Error(err), "plan with NodeSync "+sync.Name)
	}
	whole := &planned{Plan: seen.Plan, stopped: words(seen.Stopped, hidden), chartsRefused: words(seen.ChartsRefused, hidden), charts: hidden.Hide(seen.ChartsChange), waits: waits(seen.Stopped), live: seen.Live, removal: seen.Removal}
	if seen.Plan != nil {
		whole.seePods(ctx, c, step.Now)
		whole.noteLanding(sync.Spec.Guard, o.whatIf.on && o.aws)
		whole.seeHeld(sync)
	}
	if whole.Plan == nil {
		whole.Plan = &plan.Plan{Revision: snapshot.Revision, NodeSync: plan.OwnerOf(sync.Namespace, sync.Name).String()}
	}
	for _, warning := range seen.Warnings {
		whole.Warnings = append(whole.Warnings, hidden.Hide(warning))
	}
	if err := o.simulate(ctx, c, whole); err != nil {
		return nil, err
	}
	if o.aws && !o.whatIf.on {
		_, region := seen.Cluster(sync.Status.Karpenter)
		whole.seeInstanceTypes(ctx, region, catalogOf)
	}
	if seen.Karpenter == nil {
		return whole, nil
	}
	if err := whole.forecast(ctx, c, sync, seen, o.knownCRDs); err != nil {
		return nil, err
	}
	whole.survey(ctx, c, sync, seen.Karpenter)
	return whole, nil
}

// asks has a preview ask AWS, as far as the user says so.
func (o *planOptions) asks(step *preview.Step, c *cluster, authority []byte) {
	if step.NotAsked = notAsked; !o.aws {
		return
	}
	step.Ask = askAWS(authority)
	if o.whatIf.on {
		step.Landing = (&landing.Simulator{Reader: c, Catalogs: &landing.Catalogs{Ask: catalogOf}, Now: time.Now}).Ask
	}
}

// knownCRDs are those of a version that need no registry: those that --crds gives, or that
// this program was built with.
func (o *planOptions) knownCRDs(version string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if o.crds != "" {
		return crdsInFolder(o.crds)
	}
	if version != schema.EmbeddedVersion {
		return nil, fmt.Errorf("this plumbline has only the CRDs of Karpenter %s", schema.EmbeddedVersion)
	}
	crds, _, err := schema.Embedded()
	return crds, err
}

// liveCRDs are those of all kinds that are ours; none where one is not there.
func liveCRDs(ctx context.Context, c client.Client) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range render.Kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, explain(err, "read crd "+kind.CRD)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// survey looks for what is adopted, as long as no charts are installed. A user who may not
// read that gets a warning, and the rest of the plan.
func (p *planned) survey(ctx context.Context, c *cluster, sync *v1alpha1.NodeSync, git *render.Karpenter) {
	if k := sync.Status.Karpenter; git.Management != render.Managed || k != nil && k.Identity != "" {
		return
	}
	report, err := surveyFor(ctx, c, git)
	switch {
	case err != nil:
		p.Warnings = append(p.Warnings, "whether Karpenter is there already is not known: "+err.Error())
	case !report.Empty():
		p.adoption = report
	}
}

// waits says that what stopped a pass goes by itself.
func waits(err error) bool {
	f := fault.Classify(err)
	return f != nil && f.Class == fault.Waiting
}

// words are those of an error as the daemon says it; empty for none.
func words(err error, hidden redact.Redactor) string {
	if err == nil {
		return ""
	}
	found := fault.Classify(err)
	if found.OnlyGit() {
		return found.Error() // hiding a value in it would confirm that it is a Secret's
	}
	return hidden.Hide(found.Error())
}
