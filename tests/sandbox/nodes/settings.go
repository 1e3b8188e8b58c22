package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// settings is the relevant part of Bottlerocket's: https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
type settings struct {
	Settings struct {
		Kubernetes struct {
			APIServer  string              `toml:"api-server"`
			MaxPods    int                 `toml:"max-pods"`
			NodeLabels map[string]string   `toml:"node-labels"`
			NodeTaints map[string][]string `toml:"node-taints"`
		} `toml:"kubernetes"`
	} `toml:"settings"`
}

func parseSettings(text string) (join, error) {
	var parsed settings
	if err := toml.Unmarshal([]byte(text), &parsed); err != nil {
		return join{}, fmt.Errorf("read user data as Bottlerocket's settings: %w", err)
	}
	kubernetes := parsed.Settings.Kubernetes
	found := join{Endpoint: kubernetes.APIServer, Labels: kubernetes.NodeLabels, MaxPods: kubernetes.MaxPods}
	for _, key := range slices.Sorted(maps.Keys(kubernetes.NodeTaints)) {
		for _, text := range kubernetes.NodeTaints[key] { // value:Effect
			value, effect, ok := strings.Cut(text, ":")
			if !ok {
				return join{}, fmt.Errorf("read taint %s in Bottlerocket's settings: %q has no effect", key, text)
			}
			found.Taints = append(found.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return found, nil
}
