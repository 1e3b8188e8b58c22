package charts

import (
	"fmt"
	"reflect"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// moved names the objects of a release that somebody has deleted or changed
// since Helm wrote them: those that an upgrade to the very same chart would
// write to.
func (h *helm) moved(name string) ([]string, error) {
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
	var found []string
	for _, info := range resources {
		as, err := stands(info)
		if err != nil {
			return nil, err
		}
		if !as {
			found = append(found, describe(info))
		}
	}
	return found, nil
}

// stands says whether an object is there, stays, and has in each field what its
// manifest says.
func stands(info *resource.Info) (bool, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", describe(info), err)
	}
	accessor, err := meta.Accessor(live)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", describe(info), err)
	}
	if accessor.GetDeletionTimestamp() != nil {
		return false, nil
	}
	lacks, err := lacking(kube.AsVersioned(info), kube.AsVersioned(&resource.Info{Object: live, Mapping: info.Mapping}))
	if err != nil {
		return false, fmt.Errorf("compare %s with its manifest: %w", describe(info), err)
	}
	return !lacks, nil
}

// lacking says whether a live object lacks something that its manifest has: what
// an upgrade to the same chart would write. Typed objects are compared, which
// write a quantity in one way alone. How many replicas there are is left to
// whoever scales.
func lacking(wanted, live runtime.Object) (bool, error) {
	if _, untyped := wanted.(runtime.Unstructured); untyped {
		return false, nil // Helm compares such with the last manifest alone, and would write nothing
	}
	wants, err := written(wanted)
	if err != nil {
		return false, err
	}
	has, err := written(live)
	if err != nil {
		return false, err
	}
	if _, scales := wanted.(*appsv1.Deployment); scales {
		unstructured.RemoveNestedField(wants, "spec", "replicas")
	}
	return !within(wants, has), nil
}

// within says whether all that is wanted is there. Fields that others add are no
// matter, nor are elements that others add to a list whose elements have names,
// such as containers and variables.
func within(wanted, live any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		for key, value := range wanted {
			ok = ok && (value == nil || within(value, live[key]))
		}
		return ok
	case []any:
		live, ok := live.([]any)
		names := named(live)
		if ok && names == nil && len(wanted) != len(live) {
			return false
		}
		for n, value := range wanted {
			switch {
			case !ok:
			case names == nil:
				ok = within(value, live[n])
			default:
				ok = within(value, names[name(value)])
			}
		}
		return ok
	}
	return reflect.DeepEqual(wanted, live)
}

// named are the elements of a list by their names; nil where one has none.
func named(list []any) map[string]any {
	found := map[string]any{}
	for _, value := range list {
		if name(value) == "" {
			return nil
		}
		found[name(value)] = value
	}
	return found
}

func name(value any) string {
	fields, _ := value.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// written is an object without what nobody writes: its status, and when it was
// made. A typed object has both, empty.
func written(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	return fields, nil
}
