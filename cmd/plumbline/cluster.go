package main

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newClient speaks to the cluster of the kubeconfig flags, uncached.
func newClient(kubeconfig *genericclioptions.ConfigFlags) (client.Client, error) {
	config, err := kubeconfig.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (--kubeconfig, --context): %w", err)
	}
	config.UserAgent = "plumbline-cli/" + version
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return c, nil
}

// namespaceOf is the namespace of -n, or of the kubeconfig's context.
func namespaceOf(kubeconfig *genericclioptions.ConfigFlags) (string, error) {
	namespace, _, err := kubeconfig.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the namespace of the kubeconfig's context: %w", err)
	}
	return namespace, nil
}
