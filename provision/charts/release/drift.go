package release

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// drifted finds the objects of a release that were deleted or changed since Helm wrote
// them: those that an upgrade to the very same chart would write to.
func (h *helm) drifted(t task) ([]survey.Drift, error) {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return nil, fmt.Errorf("read the last revision: %w", err)
	}
	resources, err := h.config.KubeClient.Build(strings.NewReader(last.Manifest), false)
	if meta.IsNoMatchError(err) {
		return nil, nil // a kind that is served no more, such as a ServiceMonitor, cannot be written either
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the last revision: %w", err)
	}
	ignored := append(slices.Clone(t.ignored), survey.Replicas())
	var found []survey.Drift
	for _, info := range resources {
		drift, err := compare(info, ignored)
		if err != nil {
			return nil, err
		}
		if drift != nil {
			found = append(found, *drift)
		}
	}
	return found, nil
}

// compare compares an object with its manifest; nil where it exists, stays, and has in
// each field that is not ignored what the manifest says.
func compare(info *resource.Info, ignored []survey.Ignore) (*survey.Drift, error) {
	wanted, live, err := wantedAndLive(info)
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetDeletionTimestamp() != nil {
		return &survey.Drift{Object: describe(info), Deleted: true}, nil
	}
	if err := survey.Preserve(wanted, live, ignored); err != nil {
		return nil, err
	}
	typed := kube.AsVersioned(&resource.Info{Object: live, Mapping: info.Mapping})
	return survey.Compare(describe(info), kube.AsVersioned(info), typed, live.GetManagedFields())
}

// wantedAndLive are an object as a manifest has it, and as the cluster has it; nil where
// it has none.
func wantedAndLive(info *resource.Info) (wanted, live *unstructured.Unstructured, err error) {
	object, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", describe(info), err)
	}
	wanted, ok := info.Object.(*unstructured.Unstructured)
	live, read := object.(*unstructured.Unstructured)
	if !ok || !read {
		return nil, nil, fmt.Errorf("read %s: its manifest is a %T, and the cluster has a %T", describe(info), info.Object, object)
	}
	return wanted, live, nil
}
