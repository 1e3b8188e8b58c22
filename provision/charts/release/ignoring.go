package release

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// ignoringClient is Helm's client for the API server, which leaves ignored fields and
// paused objects as they are: Helm would set every field of the manifest that is
// otherwise in the cluster, at each upgrade. The manifest of the release stays as the
// chart has it.
type ignoringClient struct {
	*kube.Client
	ignored []survey.Ignore
	paused  []survey.Drift
}

// Update is Helm's, but for what is ignored.
func (c *ignoringClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := c.preserve(target); err != nil {
		return nil, err
	}
	return c.Client.Update(original, target, force)
}

// UpdateThreeWayMerge is Helm's, but for what is ignored.
func (c *ignoringClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if err := c.preserve(target); err != nil {
		return nil, err
	}
	return c.Client.UpdateThreeWayMerge(original, target, force)
}

func (c *ignoringClient) preserve(target kube.ResourceList) error {
	for _, info := range target {
		wanted, live, err := wantedAndLive(info)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		if slices.ContainsFunc(c.paused, func(d survey.Drift) bool { return d.Object == describe(info) }) {
			wanted.Object = live.DeepCopy().Object
			wanted.SetResourceVersion("")
			wanted.SetManagedFields(nil)
			continue
		}
		if err := survey.Preserve(wanted, live, c.ignored); err != nil {
			return err
		}
	}
	return nil
}

// rescaled says whether the number of replicas is another than the revision before
// was made with. Where it is not, it is left to autoscalers and users.
func rescaled(before *chart.Chart, was map[string]any, next *chart.Chart, is map[string]any) bool {
	count := func(c *chart.Chart, values map[string]any) string {
		if given, ok := values["replicas"]; ok {
			return fmt.Sprint(given)
		}
		return fmt.Sprint(c.Values["replicas"])
	}
	return count(before, was) != count(next, is)
}
