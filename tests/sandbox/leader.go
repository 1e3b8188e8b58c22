package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// leaseName is the name of Karpenter's Lease; its holder's identity starts with the name of its pod.
const leaseName = "karpenter-leader-election"

// Leads returns an error unless the rollout of Karpenter's Deployment is complete and its leader is a pod with the image
// of this version.
func (s *Sandbox) Leads(ctx context.Context, version string) error {
	d, err := s.Kube.Client.AppsV1().Deployments(ChartNamespace).Get(ctx, charts.MainChart, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want, got := *d.Spec.Replicas, d.Status
	if got.ObservedGeneration != d.Generation || got.Replicas != want || got.UpdatedReplicas != want || got.AvailableReplicas != want {
		return fmt.Errorf("the rollout is not complete: %d pods of %d, %d updated, %d available", got.Replicas, want, got.UpdatedReplicas, got.AvailableReplicas)
	}
	lease, err := s.Kube.Client.CoordinationV1().Leases(ChartNamespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil {
		return errors.New("nobody holds the lease " + leaseName)
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pod, err := s.Kube.Client.CoreV1().Pods(ChartNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the pod that holds the lease: %w", err)
	}
	if image := pod.Spec.Containers[0].Image; !strings.Contains(image, ":"+version+"@") {
		return fmt.Errorf("the lease is held by a pod of %s", image)
	}
	return nil
}
