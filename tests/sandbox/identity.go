package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// roleAnnotation is the annotation of a ServiceAccount with its role, for IRSA:
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
const roleAnnotation = "eks.amazonaws.com/role-arn"

// podIdentity writes a token of a pod's ServiceAccount into its folder and returns the variables by which an AWS SDK
// exchanges it for credentials, like EKS's webhooks: by IRSA if the ServiceAccount has a role, else by EKS Pod Identity.
func (s *Sandbox) podIdentity(ctx context.Context, dir string, pod *corev1.Pod) (map[string]string, error) {
	name := pod.Spec.ServiceAccountName
	account, err := s.Kube.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read service account %s/%s: %w", pod.Namespace, name, err)
	}
	file := filepath.Join(dir, "aws-token")
	audience, v := awssim.PodIdentityAudience, map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": s.AWSEndpoint + awssim.AgentPath, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file,
	}
	if role := account.Annotations[roleAnnotation]; role != "" {
		audience, v = "sts.amazonaws.com", map[string]string{"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": file}
	}
	token, err := s.Kube.Token(ctx, pod.Namespace, name, pod, audience)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, fmt.Errorf("write the token of pod %s: %w", pod.Name, err)
	}
	return v, nil
}
