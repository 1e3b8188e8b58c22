package upgrade

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// container is the controller's in its pod (charts/karpenter/templates/deployment.yaml).
const container = "controller"

// readReplicas reads a Deployment whole, of which the cache keeps no pod template, and
// its pods.
func readReplicas(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (*appsv1.Deployment, []corev1.Pod, error) {
	whole := &appsv1.Deployment{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(deployment), whole); err != nil {
		return nil, nil, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	pods := &corev1.PodList{}
	if whole.Spec.Selector == nil {
		return whole, nil, nil
	}
	if err := reader.List(ctx, pods, client.InNamespace(whole.Namespace), client.MatchingLabels(whole.Spec.Selector.MatchLabels)); err != nil {
		return nil, nil, fmt.Errorf("read the pods of deployment/%s: %w", deployment.Name, err)
	}
	return whole, pods.Items, nil
}

// The option that switches the election of a leader off, as a flag and as a variable
// (sigs.k8s.io/karpenter pkg/operator/options/options.go).
const (
	electionFlag     = "disable-leader-election"
	electionVariable = "DISABLE_LEADER_ELECTION"
)

// electsNone says whether the replicas of a controller elect no leader.
func electsNone(deployment *appsv1.Deployment) bool {
	c := controllerOf(deployment.Spec.Template.Spec.Containers)
	return c != nil && disablesElection(c)
}

// disablesElection says whether a container has the election of a leader off. A flag
// goes before the variable.
func disablesElection(c *corev1.Container) bool {
	off := false
	for _, variable := range c.Env {
		if variable.Name == electionVariable {
			off = isTrue(variable.Value)
		}
	}
	for _, argument := range append(append([]string{}, c.Command...), c.Args...) {
		flag, value, given := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if flag == electionFlag && strings.HasPrefix(argument, "-") {
			off = !given || isTrue(value)
		}
	}
	return off
}

func isTrue(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && is
}

func controllerOf(containers []corev1.Container) *corev1.Container {
	for i := range containers {
		if containers[i].Name == container {
			return &containers[i]
		}
	}
	return nil
}

// image of the controller, by tag or digest.
func image(containers []corev1.Container) string {
	if c := controllerOf(containers); c != nil {
		return c.Image
	}
	return ""
}

// Tag of the controller's image: its version as a rule, and "unknown" where the
// image has none.
func Tag(containers []corev1.Container) string {
	reference, _, _ := strings.Cut(image(containers), "@")
	name := reference[strings.LastIndex(reference, "/")+1:]
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return "unknown"
}

// ClusterName is the name by which the controller tags and finds its instances;
// empty where its environment does not have it in plain text.
func ClusterName(containers []corev1.Container) string {
	c := controllerOf(containers)
	if c == nil {
		return ""
	}
	return plainVariable(c, "CLUSTER_NAME")
}

// FeatureGate says whether the controller's environment switches one of Karpenter's
// feature gates on, as Name=true in a list; known is false where it does not name it.
func FeatureGate(containers []corev1.Container, name string) (on, known bool) {
	c := controllerOf(containers)
	if c == nil {
		return false, false
	}
	for pair := range strings.SplitSeq(plainVariable(c, "FEATURE_GATES"), ",") {
		if gate, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && gate == name {
			on, err := strconv.ParseBool(value)
			return on, err == nil
		}
	}
	return false, false
}

func plainVariable(c *corev1.Container, name string) string {
	for _, variable := range c.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}
