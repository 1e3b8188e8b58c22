package daemon

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// RunPod runs the container of a Pod until it exits, in the environment in which StartDeployed runs the Deployment's,
// and returns its output. It requires root.
func (d *Daemon) RunPod(ctx context.Context, manifest []byte) (string, error) {
	wanted := &corev1.Pod{}
	if err := yaml.Unmarshal(manifest, wanted); err != nil {
		return "", fmt.Errorf("read the Pod: %w", err)
	}
	own := d.options
	own.Dir = filepath.Join(d.options.Dir, "pods", wanted.Name)
	api, err := url.Parse(own.Kube.Endpoint)
	if err != nil {
		return "", fmt.Errorf("read the API server's address: %w", err)
	}
	node, err := nodeFor(ctx, own.Kube, 0)
	if err != nil {
		return "", err
	}
	template := &appsv1.Deployment{}
	template.Namespace, template.Spec.Template.Spec = wanted.Namespace, wanted.Spec
	p, err := podOf(template, place{name: wanted.Name, ip: loopback(), node: node, api: [2]string{api.Hostname(), api.Port()}, aws: own.AWS})
	if err != nil {
		return "", err
	}
	j, err := New(own).furnish(ctx, p, wanted.Spec.ServiceAccountName)
	if err != nil {
		return "", err
	}
	command, err := j.command(p)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("pod %s failed: %w: %s", wanted.Name, err, out)
	}
	return string(out), nil
}
