package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	"sigs.k8s.io/karpenter/pkg/controllers/capacitybuffer"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"

	"github.com/plumbline-dev/plumbline/render"
)

// Buffer is a CapacityBuffer and where its placeholder pods have capacity after the commit.
type Buffer struct {
	// Name is its namespace and name, as namespace/name.
	Name string `json:"name"`
	// Pods is how many placeholder pods it has, and New how many of them have capacity only on new nodes.
	Pods int `json:"pods"`
	New  int `json:"podsOnNewNodes,omitempty"`
	// Nowhere is how many of them have no capacity, and Reason is Karpenter's.
	Nowhere int    `json:"podsNowhere,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// placeholders are the placeholder pods that Karpenter schedules for CapacityBuffers.
type placeholders struct {
	cache *virtualpods.Cache
	pods  []*corev1.Pod
	// notes are sentences on the buffers that have none.
	notes []string
}

// placeholdersOf returns the placeholder pods of the CapacityBuffers among definitions, as Karpenter's own controller
// makes them: it also determines how many a buffer has that Karpenter has not seen yet. There are none if the feature
// gate is off.
func placeholdersOf(ctx context.Context, c *Capture, definitions []map[string]any) (placeholders, error) {
	if !c.Settings.CapacityBuffer {
		return placeholders{}, nil
	}
	under := &Capture{PodTemplates: c.PodTemplates, Deployments: c.Deployments, StatefulSets: c.StatefulSets}
	for _, definition := range definitions {
		if definition["kind"] == render.CapacityBuffer {
			under.Definitions = append(under.Definitions, definition)
		}
	}
	buffers, err := typed[autoscaling.CapacityBuffer](under, render.CapacityBuffer)
	if err != nil {
		return placeholders{}, err
	}
	reads, err := NewCaptureClient(under)
	if err != nil {
		return placeholders{}, err
	}
	served := resolving{CaptureClient: reads, conditions: map[types.NamespacedName]string{}}
	p := placeholders{cache: virtualpods.NewVirtualPodCache(served)}
	p.cache.GetAll(ctx) // otherwise the first call forgets what the controller has added
	controller := capacitybuffer.NewController(served, noTrigger{}, p.cache)
	for i := range buffers {
		key := client.ObjectKeyFromObject(&buffers[i])
		if _, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: key}); err != nil {
			p.notes = append(p.notes, fmt.Sprintf("CapacityBuffer/%s is not counted: %v", key, err))
		} else if why := served.conditions[key]; why != "" {
			p.notes = append(p.notes, fmt.Sprintf("CapacityBuffer/%s is not counted: %s", key, why))
		}
	}
	p.pods = p.cache.GetAll(ctx)
	slices.SortFunc(p.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return p, nil
}

// resolving is a CaptureClient that remembers why buffers are not ready.
type resolving struct {
	*CaptureClient
	conditions map[types.NamespacedName]string
}

// Get refuses workloads that a Capture does not contain.
func (r resolving) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*appsv1.ReplicaSet); ok {
		return fmt.Errorf("ReplicaSet %s is not read", key)
	}
	return r.CaptureClient.Get(ctx, key, into, options...)
}

// Status returns what records conditions.
func (r resolving) Status() client.SubResourceWriter { return recording{conditions: r.conditions} }

type recording struct {
	discard
	conditions map[types.NamespacedName]string
}

// Patch records why a buffer is not ready.
func (r recording) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	if buffer, ok := object.(*autoscaling.CapacityBuffer); ok {
		ready := apimeta.FindStatusCondition(buffer.Status.Conditions, autoscaling.ReadyForProvisioningCondition)
		if ready != nil && ready.Status != "True" {
			r.conditions[client.ObjectKeyFromObject(buffer)] = ready.Message
		}
	}
	return nil
}

// noTrigger wakes no provisioner.
type noTrigger struct{}

// Trigger does nothing.
func (noTrigger) Trigger(types.UID) {}

// TriggerReconcile does nothing.
func (noTrigger) TriggerReconcile() {}

// bufferOf returns the CapacityBuffer of a placeholder pod, as namespace/name; empty for other pods.
func bufferOf(pod *corev1.Pod) string {
	if !provisioning.IsVirtualPod(pod) {
		return ""
	}
	return pod.Annotations[autoscaling.BufferNamespaceAnnotation] + "/" + pod.Annotations[autoscaling.BufferNameAnnotation]
}

// countPlaceholders returns how many of some pods are placeholders.
func countPlaceholders(pods []*corev1.Pod) (n int) {
	for _, pod := range pods {
		if bufferOf(pod) != "" {
			n++
		}
	}
	return n
}

// buffers returns where placeholder pods have capacity in the newest round: each round schedules all of them again.
func (s *simulation) buffers() []Buffer {
	found := map[string]*Buffer{}
	add := func(pods []*corev1.Pod, count func(*Buffer)) {
		for _, pod := range pods {
			if name := bufferOf(pod); found[name] != nil {
				count(found[name])
			}
		}
	}
	for _, pod := range s.after.placeholders.pods {
		name := bufferOf(pod)
		if found[name] == nil {
			found[name] = &Buffer{Name: name}
		}
		found[name].Pods++
	}
	for _, node := range s.results.ExistingNodes {
		if s.fresh[node.Name()] != nil {
			add(node.Pods, func(b *Buffer) { b.New++ })
		}
	}
	for _, claim := range s.results.NewNodeClaims {
		add(claim.Pods, func(b *Buffer) { b.New++ })
	}
	for pod, err := range failures(s.results) {
		add([]*corev1.Pod{pod}, func(b *Buffer) {
			b.Nowhere++
			if b.Reason == "" || err.Error() < b.Reason { // the same one in each run
				b.Reason = err.Error()
			}
		})
	}
	var all []Buffer
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all
}
