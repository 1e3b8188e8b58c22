package capture

import (
	"context"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// settings reads those of Karpenter's controller off its Deployment, of whose variables it keeps
// these and no other one.
func (r *reading) settings(ctx context.Context, namespaces []string) error {
	r.into.Settings = Settings{Settings: offers.Defaults()}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		found := &appsv1.DeploymentList{}
		err := r.reader.List(ctx, found, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: observe.ControllerLabels().AsSelector()})
		if err != nil {
			return r.may("deployments.apps", "the settings of Karpenter's controller, for which its defaults are taken", err)
		}
		for i := range found.Items {
			for _, container := range found.Items[i].Spec.Template.Spec.Containers {
				r.into.Settings.take(container.Env)
			}
		}
	}
	return nil
}

// take reads the variables of charts/karpenter/templates/deployment.yaml in
// karpenter-provider-aws, 1.14.1. What cannot be read keeps its default, as Karpenter does not
// start with it.
func (s *Settings) take(variables []corev1.EnvVar) {
	for _, v := range variables {
		switch v.Name {
		case "VM_MEMORY_OVERHEAD_PERCENT":
			if percent, err := strconv.ParseFloat(v.Value, 64); err == nil {
				s.VMMemoryOverheadPercent = percent
			}
		case "RESERVED_ENIS":
			if n, err := strconv.Atoi(v.Value); err == nil {
				s.ReservedENIs = n
			}
		case "PREFERENCE_POLICY":
			s.IgnorePreferences = v.Value == "Ignore"
		case "MIN_VALUES_POLICY":
			s.RelaxMinValues = v.Value == "BestEffort"
		case "FEATURE_GATES":
			s.NodeOverlay, s.CapacityBuffer = open(v.Value, "NodeOverlay"), open(v.Value, "CapacityBuffer")
		}
	}
}

// open says whether a feature gate is.
func open(gates, name string) bool {
	for gate := range strings.SplitSeq(gates, ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(gate), "="); key == name {
			return value == "true"
		}
	}
	return false
}

// Region is that of the cluster's nodes; empty where none says it.
func (c *Capture) Region() string {
	for i := range c.Nodes {
		if region := c.Nodes[i].Labels[corev1.LabelTopologyRegion]; region != "" {
			return region
		}
	}
	return ""
}
