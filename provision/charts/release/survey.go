package release

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// controllerLabel is what Karpenter's chart labels its controller with.
const controllerLabel = "app.kubernetes.io/name=karpenter"

// Survey lists what there is of Karpenter, in all namespaces, that plumbline has not
// installed. It reads the releases of other namespaces where it may.
func (i *Installer) Survey(ctx context.Context, namespace string) (survey.Found, error) {
	state, err := i.State(ctx, namespace)
	if err != nil {
		return survey.Found{}, err
	}
	listed := survey.Listed{Namespace: namespace, Foreign: map[string]int{}}
	for _, release := range []Release{state.CRDs, state.Controller} {
		if release.Foreign {
			listed.Foreign[release.Name] = release.Revision
		}
	}
	if listed.CRDs, err = i.list(ctx, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), ""); err != nil {
		return survey.Found{}, fmt.Errorf("list the CRDs: %w", err)
	}
	if listed.Deployments, err = i.list(ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), controllerLabel); err != nil {
		return survey.Found{}, fmt.Errorf("list the Deployments of Karpenter's controller: %w", err)
	}
	found := survey.Find(listed)
	for n, named := range found.Releases {
		if found.Releases[n], err = i.readRelease(named); err != nil {
			return survey.Found{}, err
		}
	}
	return found, nil
}

func (i *Installer) list(ctx context.Context, resource schema.GroupVersionResource, selector string) ([]metav1.PartialObjectMetadata, error) {
	list, err := i.objects.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// readRelease adds what the last revision says. The daemon may only read those of its
// own namespace, and a revision may be missing or unreadable: then the release is known
// by its name only.
func (i *Installer) readRelease(named survey.Release) (survey.Release, error) {
	helm, err := newHelm(i.config, named.Namespace, i.options.Logger)
	if err != nil {
		return survey.Release{}, err
	}
	history, err := helm.readable(named.Name)
	if apierrors.IsForbidden(err) {
		return named, nil
	}
	if err != nil {
		return survey.Release{}, err
	}
	last := newest(history)
	if last == nil {
		return named, nil
	}
	named.Revision, named.Values = last.Version, last.Config
	if last.Chart != nil && last.Chart.Metadata != nil {
		named.Chart, named.Version = last.Chart.Metadata.Name, last.Chart.Metadata.Version
	}
	return named, nil
}
