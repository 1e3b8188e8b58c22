package allowance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// CheckTwice returns the variables that a rendered Deployment has twice: those that the chart sets and controller.env,
// too. A server-side apply merges the list by name, so that one of the two is dropped, and the release never matches
// what it was rendered to. Nothing allows it. The admission policies see only the merged list, so that this is no part
// of CheckObjects.
func CheckTwice(objects []*unstructured.Unstructured) []Refusal {
	var found []Refusal
	for _, object := range objects {
		var deployment appsv1.Deployment
		if object.GetKind() != "Deployment" || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment) != nil {
			continue // CheckObjects refuses a Deployment that cannot be decoded
		}
		for _, container := range slices.Concat(deployment.Spec.Template.Spec.InitContainers, deployment.Spec.Template.Spec.Containers) {
			times := map[string]int{}
			for _, variable := range container.Env {
				if times[variable.Name]++; times[variable.Name] != 2 {
					continue
				}
				found = append(found, Refusal{
					What: object.GetKind() + " " + object.GetName(), Rendered: true,
					Why: fmt.Sprintf("has the variable %s twice, of which the API server keeps only one: %s", variable.Name, insteadOf(variable.Name)),
				})
			}
		}
	}
	return found
}

// settingsOfVariables are the values of the chart that set a variable, if their name is not that of the variable
// (charts/karpenter/templates/deployment.yaml in karpenter-provider-aws, 1.15.0).
var settingsOfVariables = map[string]string{
	"METRICS_PORT": "controller.metrics.port", "HEALTH_PROBE_PORT": "controller.healthProbe.port",
	"CPU_REQUESTS": "controller.resources.requests.cpu", "MEMORY_LIMIT": "controller.resources.limits.memory",
	"CLUSTER_CA_BUNDLE": "settings.clusterCABundle",
}

// insteadOf describes what to do about a variable that the chart and controller.env set, or one of them twice.
func insteadOf(name string) string {
	if setting := settingOf(name); setting != "" {
		return "set values." + setting + " instead of " + variableAt(name)
	}
	return "set it only once, and not in controller.env if the chart has it"
}

// settingOf returns the value of the chart that sets a variable: "settings.featureGates" for FEATURE_GATES. Empty if
// there is none.
func settingOf(name string) string {
	if setting, ok := settingsOfVariables[name]; ok {
		return setting
	}
	flat := strings.ReplaceAll(name, "_", "")
	for _, path := range slices.Sorted(maps.Keys(open)) {
		below, inSettings := strings.CutPrefix(path, "settings.")
		first, _, nested := strings.Cut(below, ".")
		switch {
		case !strings.EqualFold(first, flat), nested && !inSettings:
		case inSettings:
			return "settings." + first
		default:
			return first
		}
	}
	return ""
}
