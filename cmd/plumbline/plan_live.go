package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	facts "github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// planNodeSync fetches what a NodeSync's source has now, and plans it.
func planNodeSync(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, name string) (*planned, error) {
	c, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	sync, err := c.nodeSync(ctx, name)
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
	karpenter, err := render.ReadKarpenter(*snapshot, sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	target := targetOf(ctx, karpenter, sync.Spec.Path, snapshot)
	validator, err := schemaFor(ctx, c, sync, karpenter, target)
	if err != nil {
		return nil, err
	}
	set, err := render.Render(ctx, *snapshot, sync.Spec.Path, karpenter, validator, render.WithConfinement(confined(ctx)))
	if err != nil {
		return nil, err
	}
	return planSet(ctx, c, sync, commit{karpenter: karpenter, path: sync.Spec.Path, files: snapshot}, set, target, validator)
}

func fetchFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, dir string) (*render.Snapshot, error) {
	git := sync.Spec.Source.Git
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

// schemaFor is what the definitions of a commit are checked against: the CRDs that
// come with it, and those in the cluster where none come or none are to be had,
// which the forecast of the upgrade then says.
func schemaFor(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, git *render.Karpenter, target targetCRDs) (*schema.Validator, error) {
	if upgrades(sync, git) {
		if crds, err := target(); err == nil {
			return schema.New(crds)
		}
	}
	return liveSchema(ctx, c)
}

// liveSchema is that of the CRDs in the cluster; before they are there, that of
// the version this program was built with.
func liveSchema(ctx context.Context, c client.Client) (*schema.Validator, error) {
	crds, err := liveCRDs(ctx, c)
	if err == nil && crds == nil {
		crds, _, err = schema.Embedded()
	}
	if err != nil {
		return nil, err
	}
	return schema.New(crds)
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

// planned is a Plan, and what an upgrade that comes with it does to nodes; nil
// where none does.
type planned struct {
	*plan.Plan
	upgrade *upgradeForecast
	// adoption is what there is of Karpenter that somebody else has installed; nil
	// where there is nothing.
	adoption *adoptReport
	// refused is why the daemon does nothing of it.
	refused []error
}

// planSet compares a Set with the cluster of a NodeSync.
func planSet(ctx context.Context, c *cluster, sync *v1alpha1.NodeSync, of commit, set *render.Set, target targetCRDs, validator *schema.Validator) (*planned, error) {
	all := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, all); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	live, err := observe.Live(ctx, c)
	if err != nil {
		return nil, explain(err, "read what lives")
	}
	live.Removals = sync.Status.Removals
	policy := plan.PolicyOf(sync, all.Items, set)
	policy.Karpenter = of.karpenter
	var unread error
	if k := sync.Status.Karpenter; k != nil && len(live.NodeClaims) > 0 {
		policy.Hosts, unread = facts.ControllerHosts(ctx, c, k.Namespace, live.NodeClaims)
	}
	made, err := plan.Make(ctx, set, live, policy, validator)
	if err != nil {
		return nil, err
	}
	whole := &planned{Plan: made}
	var warnings []string
	whole.refused, warnings = refusals(ctx, sync, all.Items, of)
	whole.Warnings = append(whole.Warnings, warnings...)
	if unread != nil {
		whole.Warnings = append(whole.Warnings, "whether a NodePool that leaves hosts Karpenter's controller is not known: "+unread.Error())
	}
	if err := whole.forecast(ctx, c, sync, &set.Karpenter, target, live); err != nil {
		return nil, err
	}
	whole.survey(ctx, c, sync, &set.Karpenter)
	return whole, nil
}

// survey looks for what is taken over, as long as charts are not brought. Who may
// not look is told so, and sees the rest of the plan.
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
