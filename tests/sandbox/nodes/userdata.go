package nodes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// join is what an instance's user data tells its kubelet about joining a cluster.
type join struct {
	// Endpoint is the API server that is joined; empty if the user data does not say.
	Endpoint string
	Labels   map[string]string
	Taints   []corev1.Taint
	// MaxPods is 0 if the instance type's default counts.
	MaxPods int
}

// parseUserData reads the forms that Karpenter writes: a MIME archive for nodeadm (AL2023), TOML settings (Bottlerocket), or
// a script that hands flags to the kubelet (AL2, Windows, Custom).
// Their shapes are in karpenter-provider-aws, pkg/providers/amifamily/bootstrap.
func parseUserData(userData string) (join, error) {
	text := strings.TrimSpace(userData)
	switch {
	case strings.HasPrefix(text, "MIME-Version:"), strings.HasPrefix(text, "Content-Type:"):
		return parseArchive(text)
	case strings.HasPrefix(text, "["):
		return parseSettings(text)
	default:
		return parseScript(text)
	}
}

// merge lays other over j, as a later part of the user data counts over an earlier one.
func (j *join) merge(other join) {
	if other.Endpoint != "" {
		j.Endpoint = other.Endpoint
	}
	if other.MaxPods != 0 {
		j.MaxPods = other.MaxPods
	}
	if other.Taints != nil {
		j.Taints = other.Taints
	}
	for key, value := range other.Labels {
		if j.Labels == nil {
			j.Labels = map[string]string{}
		}
		j.Labels[key] = value
	}
}
