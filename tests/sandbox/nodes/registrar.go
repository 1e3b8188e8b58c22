package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

// retryEvery is the interval for retrying what the API server rejected.
const retryEvery = 250 * time.Millisecond

// registrar writes Nodes. It retries until it succeeds or the context is done: a kubelet and a cloud-controller-manager
// would not give up either.
type registrar struct {
	nodes  typed.NodeInterface
	logger *slog.Logger
}

// create registers a machine in one POST. If another machine still has the name, it waits; the Node of a stopped
// machine gets its kubelet back.
func (r registrar) create(ctx context.Context, m machine) *corev1.Node {
	var created *corev1.Node
	r.insist(ctx, "register", m.Name, func(ctx context.Context) error {
		var err error
		created, err = r.nodes.Create(ctx, m.node(metav1.Now()), metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if created, err = r.nodes.Get(ctx, m.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if created.Spec.ProviderID != m.providerID() {
			return fmt.Errorf("the name belongs to %s", created.Spec.ProviderID)
		}
		return r.patch(ctx, created, types.MergePatchType, map[string]any{"metadata": map[string]any{
			"uid":         created.UID,
			"annotations": map[string]any{kwokAnnotation: kwokValue},
		}})
	})
	return created
}

// silence removes a Node from kwok, so that its heartbeats stop.
func (r registrar) silence(ctx context.Context, node *corev1.Node) {
	if node == nil {
		return
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid":         node.UID,
		"annotations": map[string]any{kwokAnnotation: nil},
	}}
	r.insist(ctx, "stop the kubelet of", node.Name, func(ctx context.Context) error {
		return r.patch(ctx, node, types.MergePatchType, patch)
	})
}

// remove does what the node controller and a cloud-controller-manager do with the Node of a terminated instance: it
// sets its readiness to unknown, and deletes it. It does not wait for finalizers.
func (r registrar) remove(ctx context.Context, node *corev1.Node) {
	if node == nil {
		return
	}
	unknown := readiness(corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.", metav1.Now())
	patch := map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{unknown}},
	}
	r.insist(ctx, "mark as unknown", node.Name, func(ctx context.Context) error {
		return r.patch(ctx, node, types.StrategicMergePatchType, patch, "status")
	})
	r.insist(ctx, "delete", node.Name, func(ctx context.Context) error {
		err := r.nodes.Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))})
		if apierrors.IsConflict(err) { // another Node has the name by now
			return nil
		}
		return err
	})
}

// patch applies only to this Node: its UID is in the patch, and another one with that name is a conflict.
func (r registrar) patch(ctx context.Context, node *corev1.Node, kind types.PatchType, patch any, subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	_, err = r.nodes.Patch(ctx, node.Name, kind, data, metav1.PatchOptions{}, subresources...)
	if apierrors.IsConflict(err) {
		if now, getErr := r.nodes.Get(ctx, node.Name, metav1.GetOptions{}); getErr == nil && now.UID != node.UID {
			return nil
		}
	}
	return err
}

// insist retries an action on a Node until it succeeds, the Node is gone, or the context is done.
func (r registrar) insist(ctx context.Context, verb, name string, do func(context.Context) error) {
	said := ""
	err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err == nil || apierrors.IsNotFound(err) {
			return true, nil
		}
		if err.Error() != said {
			said = err.Error()
			r.logger.Warn("cannot "+verb+" a node yet", "node", name, "error", err)
		}
		return false, nil
	})
	if err == nil {
		r.logger.Debug(verb, "node", name)
	}
}
