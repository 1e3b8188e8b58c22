package release

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// ServerVersion is the cluster's version of Kubernetes, such as
// v1.33.4-eks-99d6cc0; of an API server that emulates an older one, that one.
func (i *Installer) ServerVersion(context.Context) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(i.config)
	if err != nil {
		return "", fmt.Errorf("create a discovery client: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	if version.EmulationMajor != "" && version.EmulationMinor != "" {
		return "v" + version.EmulationMajor + "." + version.EmulationMinor, nil
	}
	return version.GitVersion, nil
}

// Rehearse finds out, before anything is written, whether both charts could be
// installed: the API server is asked to try each object, so that a missing permission,
// an invalid value and an existing object are known while nothing has changed. Errors: those of EnsureCRDs and EnsureController.
func (i *Installer) Rehearse(ctx context.Context, c *charts.Charts, request Request) error {
	crds, err := newTask(charts.CRDChart, c, request)
	if err != nil {
		return err
	}
	controller, err := newTask(charts.ControllerChart, c, request)
	if err != nil {
		return err
	}
	state, err := i.State(ctx, request.Namespace)
	if err != nil {
		return err
	}
	for _, t := range []task{crds, controller} {
		want, err := t.mark()
		if err != nil {
			return err
		}
		r, step, err := i.decide(t, state, want)
		if err != nil {
			return err
		}
		if step == Keep || step == Recover { // Helm rehearses nothing over a revision that was never finished
			continue
		}
		t.dry = true
		if err := i.carryOut(ctx, t, step, r, want); err != nil {
			return fmt.Errorf("rehearse helm release %s at version %s: %w", t.Name, t.Version, err)
		}
	}
	return nil
}
