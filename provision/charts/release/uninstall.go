package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Uninstall deletes a release of plumbline and its objects except CRDs. It deletes nothing if the API server would deny
// any of the deletions. It is for a user's teardown: no reconcile calls it. The caller checks whether anything still
// needs Karpenter. Errors: *survey.ForeignReleaseError, *BusyError, or one of the API server's.
func (i *Installer) Uninstall(ctx context.Context, namespace, name string) error {
	helm, revisions, err := i.uninstallable(ctx, namespace, name)
	if err != nil || len(revisions) == 0 {
		return err
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return fmt.Errorf("uninstall Helm release %s: %w", name, err)
	}
	if last := newest(revisions); last.Info.Status != helmrelease.StatusUninstalled {
		if err := i.delete(helm, last); err != nil {
			return err
		}
	}
	return i.deleteRecords(ctx, namespace, revisions)
}

// delete deletes the objects of a release, and keeps Helm's records: to delete them, Helm would first write them again
// without the annotation.
func (i *Installer) delete(helm *helm, last *helmrelease.Release) error {
	if i.options.Allow != "" {
		err := eachDeleted("annotate", helm, last, func(info *resource.Info) error {
			_, err := resource.NewHelper(info.Client, info.Mapping).Patch(info.Namespace, info.Name, types.MergePatchType, i.allowance(), nil)
			return client.IgnoreNotFound(err)
		})
		if err != nil {
			return err
		}
	}
	helm.config.Releases.Driver = pinned{Driver: helm.config.Releases.Driver, release: last}
	uninstall := action.NewUninstall(helm.config)
	uninstall.DisableHooks = true
	uninstall.KeepHistory = true
	if _, err := uninstall.Run(last.Name); err != nil {
		return fmt.Errorf("uninstall Helm release %s: %w", last.Name, err)
	}
	return nil
}

// pinned makes Helm uninstall the revision that was checked, and not one that another client has written since.
type pinned struct {
	driver.Driver
	release *helmrelease.Release
}

// Query returns only that revision.
func (p pinned) Query(map[string]string) ([]*helmrelease.Release, error) {
	return []*helmrelease.Release{p.release}, nil
}

// deleteRecords deletes Helm's records of a release, the newest last: the release counts as installed while one exists.
func (i *Installer) deleteRecords(ctx context.Context, namespace string, revisions []*helmrelease.Release) error {
	slices.SortFunc(revisions, func(a, b *helmrelease.Release) int { return a.Version - b.Version })
	for _, r := range revisions {
		record := recordName(r.Name, r.Version)
		if i.options.Allow != "" {
			_, err := i.records(namespace).Patch(ctx, record, types.MergePatchType, i.allowance(), metav1.PatchOptions{})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("annotate Secret %s of Helm release %s: %w", record, r.Name, err)
			}
		}
		err := i.records(namespace).Delete(ctx, record, metav1.DeleteOptions{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s of Helm release %s: %w", record, r.Name, err)
		}
	}
	return nil
}

// allowance returns a merge patch that sets the annotation.
func (i *Installer) allowance() []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, i.options.Allow)
}

// Uninstallable returns why a release cannot be uninstalled. It deletes nothing.
func (i *Installer) Uninstallable(ctx context.Context, namespace, name string) error {
	_, _, err := i.uninstallable(ctx, namespace, name)
	return err
}

// uninstallable returns the revisions of a release that can be uninstalled; none if there is no release.
func (i *Installer) uninstallable(ctx context.Context, namespace, name string) (*helm, []*helmrelease.Release, error) {
	state, err := i.State(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	r := state.of(name)
	switch {
	case r.Status == Absent:
		return nil, nil, nil
	case r.Foreign:
		return nil, nil, &survey.ForeignReleaseError{Release: name, Revision: r.Revision}
	}
	helm, err := newHelm(i.config, namespace, i.options.Logger)
	if err != nil {
		return nil, nil, err
	}
	revisions, err := helm.config.Releases.History(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read the history of Helm release %s: %w", name, err)
	}
	last := newest(revisions)
	if until := r.Since.Add(pendingTimeout); r.Status == Pending && r.Edited && last.Info.Status != helmrelease.StatusUninstalling &&
		i.options.Now().Before(until) {
		return nil, nil, &BusyError{Release: name, Revision: r.Revision, Until: until}
	}
	return helm, revisions, i.rehearseUninstall(ctx, helm, namespace, last)
}

// rehearseUninstall does a dry run of the deletion of each object, and of Helm's last record.
func (i *Installer) rehearseUninstall(ctx context.Context, helm *helm, namespace string, last *helmrelease.Release) error {
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	err := eachDeleted("delete", helm, last, func(info *resource.Info) error {
		_, err := resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, &dry)
		return i.unlessAllowed(err)
	})
	if err != nil {
		return err
	}
	record := recordName(last.Name, last.Version)
	if err := i.unlessAllowed(i.records(namespace).Delete(ctx, record, dry)); err != nil {
		return fmt.Errorf("delete Secret %s of Helm release %s: %w", record, last.Name, err)
	}
	return nil
}

// unlessAllowed returns the error of a deletion, but nil if the object does not exist or only the annotation is
// missing.
func (i *Installer) unlessAllowed(err error) error {
	denied := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if apierrors.IsNotFound(err) || i.options.Allow != "" && denied && strings.Contains(err.Error(), i.options.Allow+"=true") {
		return nil
	}
	return err
}

// foreign returns why an object of a release is not from Karpenter's charts; empty if it is. The objects of a release
// are read from Helm's record. The daemon's ServiceAccount may write that record, so it could contain any object.
func foreign(info *resource.Info, namespace, release string) string {
	named := allowance.Named{Kind: info.Mapping.GroupVersionKind.GroupKind(), Name: info.Name}
	if info.Namespaced() {
		named.Namespace = info.Namespace
	}
	return allowance.FromCharts().Foreign(named, namespace, release == charts.CRDChart)
}

// eachDeleted calls do with each object that is deleted with a release; what is the verb for messages.
func eachDeleted(what string, helm *helm, of *helmrelease.Release, do func(*resource.Info) error) error {
	resources, err := helm.kube.Build(strings.NewReader(of.Manifest), false)
	if err != nil {
		return fmt.Errorf("read what Helm release %s made: %w", of.Name, err)
	}
	for _, info := range resources {
		kept, err := keeps(info)
		if err != nil {
			return err
		}
		if kept {
			continue
		}
		if why := foreign(info, of.Namespace, of.Name); why != "" {
			return fmt.Errorf("uninstalling Helm release %s would delete %s with it, which %s: nothing was deleted; see who has changed the release's record (helm get manifest %s -n %s)",
				of.Name, describe(info), why, of.Name, of.Namespace)
		}
		if err := do(info); err != nil {
			return fmt.Errorf("%s %s %s of Helm release %s: %w", what, info.Mapping.GroupVersionKind.Kind, info.Name, of.Name, err)
		}
	}
	return nil
}

// keeps reports whether Helm keeps an object. It returns an error if the object carries nodes and is not kept.
func keeps(info *resource.Info) (bool, error) {
	kind := info.Mapping.GroupVersionKind
	annotations, err := meta.NewAccessor().Annotations(info.Object)
	if err != nil {
		return false, fmt.Errorf("read the annotations of %s %s: %w", kind.Kind, info.Name, err)
	}
	kept := annotations[kube.ResourcePolicyAnno] == kube.KeepPolicy
	if _, carries := deletionDeletesNodes(kind.Group, kind.Kind, info.Name); carries && !kept {
		return false, fmt.Errorf("%s %s is in the release, and would be deleted with it and take nodes along: nothing was deleted",
			kind.Kind, info.Name)
	}
	return kept, nil
}
