package nodesync

import (
	"bytes"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// Options specify what a NodeSync follows.
type Options struct {
	Name, Namespace string
	// Repository is the followed repository; User reads it and reports to it.
	Repository *repository.Repository
	User       githost.User
	// Charts is where Karpenter's charts may come from. Default: plumbline's default.
	Charts string
	// Settings are fields of the spec by their path (guard.maxRemovedPools), each with a value in YAML. They override
	// the defaults.
	Settings map[string]string
}

// defaults make a NodeSync fast enough for a story; removalPeriod 0s keeps the guard from adding up the removals of half
// an hour.
var defaults = map[string]string{"interval": "2s", "retryInterval": "1s", "removal.grace": "1s", "guard.removalPeriod": "0s"}

// Manifest returns the Secret and the NodeSync in YAML.
func Manifest(o Options) ([]byte, error) {
	secret := o.Name + "-git"
	sync := map[string]any{
		"apiVersion": "plumbline.dev/v1alpha1",
		"kind":       "NodeSync",
		"metadata":   map[string]any{"name": o.Name, "namespace": o.Namespace},
		"spec": map[string]any{
			"source": map[string]any{"git": map[string]any{
				"url":       o.Repository.HTTPURL,
				"secretRef": map[string]any{"name": secret},
			}},
			"report": []any{map[string]any{"provider": "gitea", "secretRef": map[string]any{"name": secret}}},
		},
	}
	settings := maps.Clone(defaults)
	if o.Charts != "" {
		settings["charts.allow.repositories"] = fmt.Sprintf("[%q]", o.Charts)
	}
	maps.Copy(settings, o.Settings)
	for path, text := range settings {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("read the value of %s: %w", path, err)
		}
		if err := unstructured.SetNestedField(sync, value, append([]string{"spec"}, strings.Split(path, ".")...)...); err != nil {
			return nil, fmt.Errorf("set %s: %w", path, err)
		}
	}
	return documents(map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata": map[string]any{
			"name": secret, "namespace": o.Namespace,
			"annotations": map[string]any{"plumbline.dev/hosts": "127.0.0.1"},
		},
		"stringData": map[string]any{"username": o.User.Name, "password": o.User.Token, "token": o.User.Token},
	}, sync)
}

func documents(objects ...map[string]any) ([]byte, error) {
	var all [][]byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("write a manifest: %w", err)
		}
		all = append(all, document)
	}
	return bytes.Join(all, []byte("---\n")), nil
}
