package charts

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
)

// moved finds the objects of a release that somebody has deleted or changed since
// Helm wrote them: those that an upgrade to the very same chart would write to.
func (h *helm) moved(name string) ([]Move, error) {
	last, err := h.config.Releases.Last(name)
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
	var found []Move
	for _, info := range resources {
		move, err := movedFrom(info)
		if err != nil {
			return nil, err
		}
		if move != nil {
			found = append(found, *move)
		}
	}
	return found, nil
}

// movedFrom compares an object with its manifest; nil where it is there, stays,
// and has in each field what the manifest says.
func movedFrom(info *resource.Info) (*Move, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return &Move{Object: describe(info), Deleted: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(info), err)
	}
	accessor, err := meta.Accessor(live)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(info), err)
	}
	if accessor.GetDeletionTimestamp() != nil {
		return &Move{Object: describe(info), Deleted: true}, nil
	}
	fields, err := lacking(kube.AsVersioned(info), kube.AsVersioned(&resource.Info{Object: live, Mapping: info.Mapping}))
	if err != nil {
		return nil, fmt.Errorf("compare %s with its manifest: %w", describe(info), err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	move, err := edited(describe(info), fields, accessor.GetManagedFields())
	return &move, err
}
