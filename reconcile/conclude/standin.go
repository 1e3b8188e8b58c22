package conclude

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

// standInKey is where a stand-in has its message.
const standInKey = "message"

// standIn is the ConfigMap that says, where the NodeSync can be neither written nor annotated,
// that its status is that of an earlier pass. It goes with the NodeSync.
func standIn(sync *v1alpha1.NodeSync) *corev1.ConfigMap {
	return configmap.New(sync, v1alpha1.ObjectName("plumbline.status-not-written-", sync.Name))
}

// StandIn reads why the status of a NodeSync is that of an earlier pass, where the NodeSync
// itself could not be made to say so; empty where it can.
func StandIn(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (string, error) {
	object := standIn(sync)
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err != nil || !metav1.IsControlledBy(object, sync) {
		return "", client.IgnoreNotFound(err)
	}
	return object.Data[standInKey], nil
}

// writeStandIn makes the stand-in, or writes it again where it says something else.
func (s *Step) writeStandIn(ctx context.Context, message string) error {
	if s.Memory.standIn.known && s.Memory.standIn.message == message {
		return nil
	}
	object := standIn(s.Sync)
	object.Data = map[string]string{standInKey: message}
	err := s.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		err = s.rewriteStandIn(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
	}
	s.Memory.standIn = standInMemory{known: true, message: message}
	return nil
}

// rewriteStandIn has the one that is there say the same, unless another client has made it.
func (s *Step) rewriteStandIn(ctx context.Context, next *corev1.ConfigMap) error {
	last := &corev1.ConfigMap{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(next), last); err != nil {
		return err
	}
	if !metav1.IsControlledBy(last, s.Sync) {
		return fmt.Errorf("it is in the way, and does not belong to NodeSync %s; delete or rename it", s.Sync.Name)
	}
	last.Data = next.Data
	return s.Client.Update(ctx, last)
}

// dropStandIn deletes it once the NodeSync tells the truth itself. What fails is tried again
// in the next pass.
func (s *Step) dropStandIn(ctx context.Context) {
	last := &s.Memory.standIn
	if !last.known {
		message, err := StandIn(ctx, s.Client, s.Sync)
		if err != nil {
			return
		}
		*last = standInMemory{known: true, message: message}
	}
	if last.message != "" && client.IgnoreNotFound(s.Client.Delete(ctx, standIn(s.Sync))) == nil {
		last.message = ""
	}
}

// standInMemory is what the stand-in says, once that was looked for.
type standInMemory struct {
	known   bool
	message string
}
