package charts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/releaseutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// moved finds the objects of a release that somebody has deleted or changed since
// Helm wrote them: those that an upgrade to the very same chart would write to.
func (h *helm) moved(t task) ([]Move, error) {
	last, err := h.config.Releases.Last(t.name)
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
	ignored := append(slices.Clone(t.ignored), replicas())
	var found []Move
	for _, info := range resources {
		move, err := movedFrom(info, ignored)
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
// and has in each field what the manifest says, or what is somebody else's.
func movedFrom(info *resource.Info, ignored []Ignore) (*Move, error) {
	wanted, has, err := wantedAndLive(info)
	if err != nil {
		return nil, err
	}
	if has == nil || has.GetDeletionTimestamp() != nil {
		return &Move{Object: describe(info), Deleted: true}, nil
	}
	if err := yield(wanted, has, ignored); err != nil {
		return nil, err
	}
	fields, err := lacking(kube.AsVersioned(info), kube.AsVersioned(&resource.Info{Object: has, Mapping: info.Mapping}))
	if err != nil {
		return nil, fmt.Errorf("compare %s with its manifest: %w", describe(info), err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	move, err := edited(describe(info), fields, has.GetManagedFields())
	return &move, err
}

// repairs are when each object was put right by the last revisions.
func (h *helm) repairs(name string) (map[string][]time.Time, error) {
	history, err := h.config.Releases.History(name)
	if err != nil {
		return nil, fmt.Errorf("read its revisions: %w", err)
	}
	releaseutil.Reverse(history, releaseutil.SortByRevision)
	return repairs(history), nil
}

// wantedAndLive are an object as a manifest has it, and as it lives; nil where it
// does not live.
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
		return nil, nil, fmt.Errorf("read %s: it is a %T, and lives as a %T", describe(info), info.Object, object)
	}
	return wanted, live, nil
}
