package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the one context of every kubeconfig written here.
const contextName = "sandbox"

// writeKubeconfig writes a kubeconfig that identifies by a token.
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

// restConfig is the administrator's client configuration. The sandbox's own
// clients are not to be slowed down by client-go's default limits.
func restConfig(endpoint string, authority []byte, token string) *rest.Config {
	return &rest.Config{
		Host:            endpoint,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		QPS:             -1,
	}
}
