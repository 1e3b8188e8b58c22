package nodes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// join is what an instance's user data tells its kubelet about joining a cluster.
type join struct {
	// Endpoint is the API server to join; empty if the user data does not contain it.
	Endpoint string
	Labels   map[string]string
	Taints   []corev1.Taint
	// MaxPods is 0 for the instance type's default.
	MaxPods int
}

// parseUserData parses the formats that Karpenter writes: a MIME archive for nodeadm (AL2023), TOML settings
// (Bottlerocket), or a script that passes flags to the kubelet (AL2, Windows, Custom). They are defined in
// karpenter-provider-aws, pkg/providers/amifamily/bootstrap.
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

// merge overlays other over j: later parts of the user data take precedence.
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
