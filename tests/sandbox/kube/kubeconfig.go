package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the only context of every kubeconfig written here.
const contextName = "sandbox"

// writeKubeconfig writes a kubeconfig with a token.
func writeKubeconfig(path, endpoint string, authority []byte, user, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: user, Namespace: "default"}
	config.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// restConfig returns the administrator's client configuration. It disables client-go's default rate limits for the
// sandbox's own clients.
func restConfig(endpoint string, authority []byte, token string) *rest.Config {
	return &rest.Config{
		Host:            endpoint,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		QPS:             -1,
	}
}
