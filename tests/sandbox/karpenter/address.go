package karpenter

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// address returns a pod's IP. It is not reachable, but must be set and must not be a loopback address, which Endpoints
// objects reject.
func address(pod *corev1.Pod) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(pod.UID))
	n := sum.Sum32()
	return fmt.Sprintf("10.63.%d.%d", n>>8&0xff, 1+n%254)
}

// locate finds the address of the pod's node.
func (s *status) locate(ctx context.Context) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the node that pod %s is bound to: %w", s.pod.Name, err)
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			s.hostIP = a.Address
			return nil
		}
	}
	return fmt.Errorf("node %s of pod %s has no internal address", node.Name, s.pod.Name)
}
