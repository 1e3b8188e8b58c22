package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// The resources of the definitions, classes first.
var (
	nodeClasses = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
	nodePools   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
)

// patience limits any wait, on a busy machine.
const patience = 3 * time.Minute

// playKarpenter makes a cluster look as if Karpenter ran in it.
func (g *ground) playKarpenter(ctx context.Context) error {
	if err := g.awaitServed(ctx, nodeClasses, nodePools); err != nil {
		return err
	}
	if err := g.rollOut(ctx); err != nil {
		return err
	}
	return g.playReady(ctx)
}

// awaitServed waits until the API server serves some kinds, whose CRDs have just
// been applied.
func (g *ground) awaitServed(ctx context.Context, kinds ...schema.GroupVersionResource) error {
	for _, kind := range kinds {
		if err := g.await(ctx, kind.Resource+" to be served", func(ctx context.Context) (bool, error) {
			_, err := g.objects.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (g *ground) await(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, done); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// rollOut creates the controller's Deployment with the status of a completed rollout.
func (g *ground) rollOut(ctx context.Context) error {
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	deployments := g.kube.Client.AppsV1().Deployments(sandbox.ChartNamespace)
	made, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "karpenter"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make Karpenter's Deployment: %w", err)
	}
	made.Status = appsv1.DeploymentStatus{
		ObservedGeneration: made.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
	}
	if _, err := deployments.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report that Karpenter's Deployment is rolled out: %w", err)
	}
	return nil
}

// playReady sets every definition Ready at its newest generation, four in parallel, until the run ends.
func (g *ground) playReady(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	g.onClose(cancel)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(g.objects, 0)
	for _, kind := range []schema.GroupVersionResource{nodeClasses, nodePools} {
		r := &readier{
			client: g.objects.Resource(kind), last: &g.ready, store: factory.ForResource(kind).Informer().GetStore(),
			queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		}
		g.onClose(r.queue.ShutDown)
		if _, err := factory.ForResource(kind).Informer().AddEventHandler(r); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Resource, err)
		}
		for range 2 {
			go r.work(ctx)
		}
	}
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("watch %s: the watch ended before it had begun", kind.Resource)
		}
	}
	return nil
}

// readier sets the objects of one kind Ready.
type readier struct {
	client dynamic.ResourceInterface
	store  cache.Store
	last   *atomic.Int64
	queue  workqueue.TypedRateLimitingInterface[string]
}

// OnAdd, OnUpdate and OnDelete implement a handler of watch events.
func (r *readier) OnAdd(object any, _ bool) { r.enqueue(object) }

// OnUpdate is called for each change.
func (r *readier) OnUpdate(_, object any) { r.enqueue(object) }

// OnDelete does nothing.
func (r *readier) OnDelete(any) {}

func (r *readier) enqueue(object any) {
	if o, ok := object.(*unstructured.Unstructured); ok && !isReady(o) {
		r.queue.Add(o.GetName())
	}
}

func (r *readier) work(ctx context.Context) {
	for {
		name, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.setReady(ctx, name); err != nil && ctx.Err() == nil {
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

func (r *readier) setReady(ctx context.Context, name string) error {
	known, exists, err := r.store.GetByKey(name)
	if err != nil || !exists {
		return err
	}
	o, ok := known.(*unstructured.Unstructured)
	if !ok {
		return errors.New("the watch's cache holds something else than objects")
	}
	if isReady(o) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.GetUID()},
		"status":   map[string]any{"conditions": trueConditions(o)},
	})
	if err != nil {
		return fmt.Errorf("set %s Ready: %w", name, err)
	}
	_, err = r.client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "karpenter"}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	r.last.Store(time.Now().UnixNano())
	return err
}

// trueConditions returns the conditions that Karpenter's controller sets on an object and plumbline reads.
func trueConditions(o *unstructured.Unstructured) []metav1.Condition {
	types := []string{"Ready"}
	if o.GetKind() == "EC2NodeClass" {
		types = []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady", "Ready"}
	}
	var conditions []metav1.Condition
	for _, t := range types {
		conditions = append(conditions, metav1.Condition{
			Type: t, Status: metav1.ConditionTrue, Reason: t, ObservedGeneration: o.GetGeneration(), LastTransitionTime: metav1.Now(),
		})
	}
	return conditions
}

// isReady reports whether an object is Ready at its newest generation.
func isReady(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == "Ready" && fields["status"] == "True" {
			observed, _, _ := unstructured.NestedInt64(fields, "observedGeneration")
			return observed >= o.GetGeneration()
		}
	}
	return false
}
