package daemon

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// memoryLimit is the variable that limits the memory of a Go process, without its children.
const memoryLimit = "GOMEMLIMIT"

// StartLimited starts a process with its own share of the Deployment's memory. Nothing enforces the total: see Memory.
func (d *Daemon) StartLimited(ctx context.Context, flags ...string) error {
	container, err := d.container(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == memoryLimit })
	if i < 0 {
		return fmt.Errorf("the Deployment sets no %s", memoryLimit)
	}
	shell := []string{"/bin/sh", "-c", memoryLimit + "=" + quoted(container.Env[i].Value) + ` exec "$0" "$@"`}
	return d.start(ctx, Binary(d.options.Root), shell, flags)
}

// Memory returns the memory limit of a pod of the Deployment in bytes, including child processes.
func (d *Daemon) Memory(ctx context.Context) (int64, error) {
	container, err := d.container(ctx)
	if err != nil {
		return 0, err
	}
	return container.Resources.Limits.Memory().Value(), nil
}

func (d *Daemon) container(ctx context.Context) (corev1.Container, error) {
	wanted, err := deployment(ctx, d.options.Kube, d.options.Root)
	if err != nil {
		return corev1.Container{}, err
	}
	return wanted.Spec.Template.Spec.Containers[0], nil
}
