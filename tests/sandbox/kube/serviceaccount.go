package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenLife is longer than any sandbox lives: tokens are not renewed.
const tokenLife = 7 * 24 * time.Hour

// ServiceAccountKubeconfig writes, at path, a kubeconfig with a token of the ServiceAccount. With a pod, the token is
// bound to it as a kubelet's would be, and expires with it.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, path, namespace, name string, pod *corev1.Pod) error {
	token, err := c.Token(ctx, namespace, name, pod)
	if err != nil {
		return err
	}
	return writeKubeconfig(path, c.Endpoint, c.CertificateAuthority, name, token)
}

// Token returns a token of a ServiceAccount, bound to a pod if there is one. Its audience is the API server unless
// others are given.
func (c *ControlPlane) Token(ctx context.Context, namespace, name string, pod *corev1.Pod, audiences ...string) (string, error) {
	seconds := int64(tokenLife.Seconds())
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds, Audiences: audiences}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token for service account %s/%s: %w", namespace, name, err)
	}
	return token.Status.Token, nil
}

// TokenKey returns the public key of the tokens.
func (c *ControlPlane) TokenKey() (*ecdsa.PublicKey, error) {
	data, err := os.ReadFile(c.pki(accountPubFile))
	if err != nil {
		return nil, fmt.Errorf("read the key of tokens: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("read the key of tokens: %s holds no PEM block", accountPubFile)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key of tokens: %w", err)
	}
	public, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("read the key of tokens: it is a %T", key)
	}
	return public, nil
}
