package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
)

// deploymentName is the Deployment's name in Namespace.
const deploymentName = "plumbline"

// Where a pod's tokens are: that of its ServiceAccount, and that of EKS Pod Identity.
const (
	accountMount  = "/var/run/secrets/kubernetes.io/serviceaccount"
	identityMount = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
	identityToken = "eks-pod-identity-token"
)

// deployment returns the daemon's Deployment: the cluster's if it was installed with Helm, otherwise that in the
// manifests of the checkout.
func deployment(ctx context.Context, c *kube.ControlPlane, root string) (*appsv1.Deployment, error) {
	installed, err := c.Client.AppsV1().Deployments(Namespace).Get(ctx, deploymentName, metav1.GetOptions{})
	switch {
	case err == nil:
		return installed, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("find the daemon's Deployment: %w", err)
	}
	built, err := c.Kubectl(ctx, nil, "kustomize", path.Join(root, "manifests"))
	if err != nil {
		return nil, fmt.Errorf("build the manifests: %w", err)
	}
	for _, document := range bytes.Split(built, []byte("\n---\n")) {
		found := &appsv1.Deployment{}
		if err := yaml.Unmarshal(document, found); err != nil {
			return nil, fmt.Errorf("read the built manifests: %w", err)
		}
		if found.Kind == "Deployment" {
			return found, nil
		}
	}
	return nil, errors.New("the manifests have no Deployment")
}

// nodeFor returns the node of the managed node group for a replica.
func nodeFor(ctx context.Context, c *kube.ControlPlane, replica int) (string, error) {
	found, err := c.Kubectl(ctx, nil, "get", "nodes", "--selector="+nodes.SystemSelector, "--output=name")
	if err != nil {
		return "", fmt.Errorf("find the nodes of the managed node group: %w", err)
	}
	names := strings.Fields(string(found))
	if len(names) == 0 {
		return "", errors.New("there is no node of the managed node group")
	}
	return strings.TrimPrefix(names[replica%len(names)], "node/"), nil
}

// pod is what a kubelet would create from a Deployment's template for one replica.
type pod struct {
	args     []string
	env      []string
	user     int64
	group    int64
	fsGroup  *int64
	readOnly bool
	// scratch are the paths of initially empty volumes.
	scratch []string
}

// place contains what depends on where a pod runs.
type place struct {
	name, ip string
	// node is a node of the managed node group.
	node string
	// api is the host and the port of the API server.
	api [2]string
	// aws are variables for the endpoint of AWS, which a real pod does not need.
	aws map[string]string
}

// podOf reads the template. It returns an error for fields that it does not support.
func podOf(d *appsv1.Deployment, at place) (pod, error) {
	spec := d.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		return pod{}, fmt.Errorf("the Deployment has %d containers, want 1", len(spec.Containers))
	}
	container := spec.Containers[0]
	p := pod{args: addressed(container, at.ip)}
	if err := p.runAs(spec.SecurityContext, container.SecurityContext); err != nil {
		return pod{}, err
	}
	env := map[string]string{
		"HOME": "/home/nonroot", "HOSTNAME": at.name, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"KUBERNETES_SERVICE_HOST": at.api[0], "KUBERNETES_SERVICE_PORT": at.api[1],
		// The EKS Pod Identity webhook adds these.
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": path.Join(identityMount, identityToken),
		"AWS_CONTAINER_CREDENTIALS_FULL_URI":     at.aws["AWS_ENDPOINT_URL"] + awssim.AgentPath,
		"AWS_REGION":                             at.aws["AWS_REGION"],
		"AWS_ENDPOINT_URL":                       at.aws["AWS_ENDPOINT_URL"],
	}
	for _, variable := range container.Env {
		value, err := valueOf(variable, d.Namespace, at)
		if err != nil {
			return pod{}, err
		}
		env[variable.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		p.env = append(p.env, name+"="+env[name])
	}
	for _, mount := range container.VolumeMounts {
		volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if volume < 0 || spec.Volumes[volume].EmptyDir == nil {
			return pod{}, fmt.Errorf("the volume %s is not an emptyDir, which is all that is known here", mount.Name)
		}
		p.scratch = append(p.scratch, mount.MountPath)
	}
	return p, nil
}

// imageUser is the image's user (manifests/image).
const imageUser = 65532

func (p *pod) runAs(of *corev1.PodSecurityContext, own *corev1.SecurityContext) error {
	p.user, p.group = imageUser, imageUser
	if of != nil {
		p.fsGroup = of.FSGroup
		if of.RunAsUser != nil {
			p.user = *of.RunAsUser
		}
		if of.RunAsGroup != nil {
			p.group = *of.RunAsGroup
		}
	}
	p.readOnly = own != nil && own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	if p.user == 0 {
		return errors.New("the Deployment runs the daemon as root")
	}
	return nil
}

func valueOf(v corev1.EnvVar, namespace string, at place) (string, error) {
	if v.ValueFrom == nil {
		return v.Value, nil
	}
	if v.ValueFrom.FieldRef != nil {
		switch v.ValueFrom.FieldRef.FieldPath {
		case "metadata.namespace":
			return namespace, nil
		case "metadata.name":
			return at.name, nil
		case "spec.nodeName":
			return at.node, nil
		case "status.podIP":
			return at.ip, nil
		}
	}
	return "", fmt.Errorf("the environment variable %s comes from %v, which is not known here", v.Name, v.ValueFrom)
}

// addressed returns the container's arguments with the pod's own address before each port that the daemon listens on.
// In a cluster, each pod has all ports to itself; here all pods share one machine.
func addressed(container corev1.Container, ip string) []string {
	var args []string
	for _, arg := range container.Args {
		name, value, ok := strings.Cut(arg, "=:")
		if _, err := strconv.Atoi(value); ok && err == nil {
			arg = name + "=" + ip + ":" + value
		}
		args = append(args, arg)
	}
	for _, port := range container.Ports {
		flag := "--" + port.Name + "-addr"
		if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") }) {
			args = append(args, fmt.Sprintf("%s=%s:%d", flag, ip, port.ContainerPort))
		}
	}
	return args
}

// probe returns the URL of a pod's probe at an address.
func probe(container corev1.Container, p *corev1.Probe, ip string) (string, error) {
	if p == nil || p.HTTPGet == nil {
		return "", errors.New("the Deployment lacks a probe by HTTP")
	}
	for _, port := range container.Ports {
		if port.Name == p.HTTPGet.Port.StrVal || port.ContainerPort == p.HTTPGet.Port.IntVal {
			return fmt.Sprintf("http://%s:%d%s", ip, port.ContainerPort, p.HTTPGet.Path), nil
		}
	}
	return "", fmt.Errorf("the Deployment probes the port %s, which it does not name", p.HTTPGet.Port.String())
}
