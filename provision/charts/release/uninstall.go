package release

import (
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Uninstall deletes a release of plumbline's, and what it made but CRDs: those stay. Nothing is
// deleted where the API server refuses any of it. It is for a person's teardown: no pass calls it.
// Whether anything still needs Karpenter is for the caller to know. Errors: *survey.ForeignReleaseError,
// *BusyError, or one of the API server's.
func (i *Installer) Uninstall(ctx context.Context, namespace, name string) error {
	r, helm, err := i.uninstallable(ctx, namespace, name)
	if err != nil || r.Status == Absent {
		return err
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return fmt.Errorf("uninstall helm release %s: %w", name, err)
	}
	uninstall := action.NewUninstall(helm.config)
	uninstall.DisableHooks = true
	if _, err := uninstall.Run(name); err != nil {
		return fmt.Errorf("uninstall helm release %s: %w", name, err)
	}
	return nil
}

// Uninstallable reads a release, and says why it could not be uninstalled. Nothing is deleted.
func (i *Installer) Uninstallable(ctx context.Context, namespace, name string) (Release, error) {
	r, _, err := i.uninstallable(ctx, namespace, name)
	return r, err
}

func (i *Installer) uninstallable(ctx context.Context, namespace, name string) (Release, *helm, error) {
	state, err := i.State(ctx, namespace)
	if err != nil {
		return Release{}, nil, err
	}
	r := state.of(name)
	switch {
	case r.Status == Absent:
		return r, nil, nil
	case r.Foreign:
		return r, nil, &survey.ForeignReleaseError{Release: name, Revision: r.Revision}
	}
	helm, err := newHelm(i.config, namespace, i.options.Logger)
	if err != nil {
		return r, nil, err
	}
	last, err := helm.config.Releases.Last(name)
	if err != nil {
		return r, nil, fmt.Errorf("read the last revision of helm release %s: %w", name, err)
	}
	if until := r.Since.Add(patience); r.Status == Pending && r.Edited && last.Info.Status != helmrelease.StatusUninstalling && i.options.Now().Before(until) {
		return r, nil, &BusyError{Release: name, Revision: r.Revision, Until: until}
	}
	return r, helm, i.rehearseUninstall(ctx, helm, namespace, last)
}

// rehearseUninstall has the API server say of each object, and of Helm's record, whether it would be deleted.
func (i *Installer) rehearseUninstall(ctx context.Context, helm *helm, namespace string, last *helmrelease.Release) error {
	resources, err := helm.kube.Build(strings.NewReader(last.Manifest), false)
	if err != nil {
		return fmt.Errorf("read what helm release %s made: %w", last.Name, err)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	for _, info := range resources {
		kept, err := keeps(info)
		if err != nil {
			return err
		}
		if kept {
			continue
		}
		_, err = resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, &dry)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s of helm release %s: %w", info.Mapping.GroupVersionKind.Kind, info.Name, last.Name, err)
		}
	}
	record := fmt.Sprintf("sh.helm.release.v1.%s.v%d", last.Name, last.Version)
	err = i.objects.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).Delete(ctx, record, dry)
	if err != nil {
		return fmt.Errorf("delete Secret %s of helm release %s: %w", record, last.Name, err)
	}
	return nil
}

// keeps says whether Helm keeps an object. One that carries nodes has to be kept.
func keeps(info *resource.Info) (bool, error) {
	kind := info.Mapping.GroupVersionKind
	annotations, err := meta.NewAccessor().Annotations(info.Object)
	if err != nil {
		return false, fmt.Errorf("read the annotations of %s %s: %w", kind.Kind, info.Name, err)
	}
	kept := annotations[kube.ResourcePolicyAnno] == kube.KeepPolicy
	if _, carries := carriesNodes(kind.Group, kind.Kind, info.Name); carries && !kept {
		return false, fmt.Errorf("%s %s is in the release, and would be deleted with it and take nodes along: nothing was deleted", kind.Kind, info.Name)
	}
	return kept, nil
}
