package karpenter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// variables are environment variables by name.
type variables map[string]string

// list returns the form that a process takes.
func (v variables) list() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, name+"="+v[name])
	}
	return all
}

// expand replaces $(NAME) in arguments, as a kubelet does.
func expand(args []string, env variables) []string {
	var pairs []string
	for name, value := range env {
		pairs = append(pairs, "$("+name+")", value)
	}
	replacer := strings.NewReplacer(pairs...)
	expanded := make([]string, len(args))
	for i, arg := range args {
		expanded[i] = replacer.Replace(arg)
	}
	return expanded
}

// environment returns the pod's environment: what the sandbox gives every pod, then envFrom, then env.
func (w *worker) environment(ctx context.Context) (variables, error) {
	env := variables{"PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1,localhost"}
	maps.Copy(env, w.options.Env)
	container := &w.pod.Spec.Containers[0]
	for _, from := range container.EnvFrom {
		if err := w.copyFrom(ctx, env, from); err != nil {
			return nil, err
		}
	}
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil {
			var err error
			if value, err = w.valueFrom(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("environment variable %s of pod %s: %w", e.Name, w.pod.Name, err)
			}
		}
		env[e.Name] = expand([]string{value}, env)[0]
	}
	return env, nil
}

// runtime sets what depends on where a pod runs. All pods share the machine's ports, so each gets its own, whatever the
// chart contains.
func (w *worker) runtime(env variables, home, kubeconfig string, metrics, health int) {
	env["HOME"] = home
	env["HOSTNAME"] = w.pod.Name
	env["KUBECONFIG"] = kubeconfig
	env["METRICS_PORT"] = strconv.Itoa(metrics)
	env["HEALTH_PROBE_PORT"] = strconv.Itoa(health)
	// In a pod, Karpenter reads this from the ServiceAccount's mount.
	env["LEADER_ELECTION_NAMESPACE"] = w.pod.Namespace
}

func (w *worker) copyFrom(ctx context.Context, env variables, from corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		m, err := w.options.Client.CoreV1().ConfigMaps(w.pod.Namespace).Get(ctx, from.ConfigMapRef.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the config map of envFrom: %w", err)
		}
		for name, value := range m.Data {
			env[from.Prefix+name] = value
		}
	case from.SecretRef != nil:
		s, err := w.options.Client.CoreV1().Secrets(w.pod.Namespace).Get(ctx, from.SecretRef.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the secret of envFrom: %w", err)
		}
		for name, value := range s.Data {
			env[from.Prefix+name] = string(value)
		}
	}
	return nil
}

func (w *worker) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (string, error) {
	switch {
	case from.FieldRef != nil:
		return w.field(from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return w.resource(ctx, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		m, err := w.options.Client.CoreV1().ConfigMaps(w.pod.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read the config map: %w", err)
		}
		return m.Data[from.ConfigMapKeyRef.Key], nil
	case from.SecretKeyRef != nil:
		s, err := w.options.Client.CoreV1().Secrets(w.pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read the secret: %w", err)
		}
		return string(s.Data[from.SecretKeyRef.Key]), nil
	default:
		return "", fmt.Errorf("unknown kind of valueFrom: %v", from)
	}
}

func (w *worker) field(path string) (string, error) {
	if key, ok := mapKey(path, "metadata.labels"); ok {
		return w.pod.Labels[key], nil
	}
	if key, ok := mapKey(path, "metadata.annotations"); ok {
		return w.pod.Annotations[key], nil
	}
	switch path {
	case "metadata.name":
		return w.pod.Name, nil
	case "metadata.namespace":
		return w.pod.Namespace, nil
	case "metadata.uid":
		return string(w.pod.UID), nil
	case "spec.nodeName":
		return w.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return w.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return w.status.podIP, nil
	case "status.hostIP", "status.hostIPs":
		return w.status.hostIP, nil
	default:
		return "", fmt.Errorf("unknown field %q", path)
	}
}

// mapKey returns the key of prefix['key'].
func mapKey(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resource returns a request or limit of the container, divided and rounded up. A limit that is not set is the node's
// allocatable amount.
func (w *worker) resource(ctx context.Context, ref *corev1.ResourceFieldSelector) (string, error) {
	container := &w.pod.Spec.Containers[0]
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var amount resource.Quantity
	switch kind {
	case "requests":
		amount = container.Resources.Requests[corev1.ResourceName(name)]
	case "limits":
		limit, ok := container.Resources.Limits[corev1.ResourceName(name)]
		if !ok {
			node, err := w.options.Client.CoreV1().Nodes().Get(ctx, w.pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("read what the pod's node has: %w", err)
			}
			limit = node.Status.Allocatable[corev1.ResourceName(name)]
		}
		amount = limit
	default:
		return "", fmt.Errorf("unknown resource %q", ref.Resource)
	}
	return divide(amount, ref.Divisor), nil
}

func divide(amount, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	by := divisor.MilliValue()
	return strconv.FormatInt((amount.MilliValue()+by-1)/by, 10)
}
