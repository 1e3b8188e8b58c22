package charts

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
)

// yielding is Helm's way to the API server. What Helm is about to write agrees
// with what lives where a field is somebody else's: Helm would set every field of
// the manifest that is otherwise in the cluster, at each upgrade. The manifest of
// the release stays as the chart has it.
type yielding struct {
	*kube.Client
	ignored []Ignore
	fought  []Move
}

// Update is Helm's, but for what is ignored.
func (y *yielding) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := y.yield(target); err != nil {
		return nil, err
	}
	return y.Client.Update(original, target, force)
}

// UpdateThreeWayMerge is Helm's, but for what is ignored.
func (y *yielding) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := y.yield(target); err != nil {
		return nil, err
	}
	return y.Client.UpdateThreeWayMerge(original, target, force)
}

func (y *yielding) yield(target kube.ResourceList) error {
	for _, info := range target {
		wanted, has, err := wantedAndLive(info)
		if err != nil {
			return err
		}
		if has == nil {
			continue
		}
		if slices.ContainsFunc(y.fought, func(m Move) bool { return m.Object == describe(info) }) {
			wanted.Object = has.DeepCopy().Object
			wanted.SetResourceVersion("")
			wanted.SetManagedFields(nil)
			continue
		}
		if err := yield(wanted, has, y.ignored); err != nil {
			return err
		}
	}
	return nil
}

// rescaled says whether the number of replicas is another than the revision before
// was made with. Where it is not, it is left to whoever scales.
func rescaled(before *chart.Chart, was map[string]any, next *chart.Chart, is map[string]any) bool {
	count := func(c *chart.Chart, values map[string]any) string {
		if given, ok := values["replicas"]; ok {
			return fmt.Sprint(given)
		}
		return fmt.Sprint(c.Values["replicas"])
	}
	return count(before, was) != count(next, is)
}
