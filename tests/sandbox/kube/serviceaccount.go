package kube

import (
	"context"
	"fmt"
	"time"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenLife is longer than any sandbox lives: nothing here renews a token.
const tokenLife = 7 * 24 * time.Hour

// ServiceAccountKubeconfig writes, at path, a kubeconfig with a token of the
// ServiceAccount. With a pod, the token is bound to it as a kubelet's would
// be, and ends with it.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, path, namespace, name string, pod *corev1.Pod) error {
	seconds := int64(tokenLife.Seconds())
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a token for service account %s/%s: %w", namespace, name, err)
	}
	return writeKubeconfig(path, c.Endpoint, c.CertificateAuthority, name, token.Status.Token)
}
