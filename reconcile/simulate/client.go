package simulate

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// CaptureClient serves a Capture as a cluster. It reads, and discards writes. It returns an error for what a Capture
// does not contain and Karpenter's scheduling does not read.
type CaptureClient struct {
	client.Client
	kinds map[string]lister
	pods  pods
}

// NewCaptureClient returns a client of a Capture. The returned objects share their fields with it.
func NewCaptureClient(c *Capture) (*CaptureClient, error) {
	pools, err := typed[karpv1.NodePool](c, "NodePool")
	if err != nil {
		return nil, err
	}
	classes, err := typed[awsv1.EC2NodeClass](c, "EC2NodeClass")
	if err != nil {
		return nil, err
	}
	overlays, err := typed[v1alpha1.NodeOverlay](c, "NodeOverlay")
	if err != nil {
		return nil, err
	}
	buffers, err := typed[autoscaling.CapacityBuffer](c, "CapacityBuffer")
	if err != nil {
		return nil, err
	}
	served := &CaptureClient{pods: newPods(c.Pods), kinds: map[string]lister{}}
	for _, l := range []lister{
		newKind(pools), newKind(classes), newKind(overlays), newKind(c.NodeClaims), newKind(c.Nodes), newKind(c.Namespaces),
		newKind(c.DaemonSets), newKind(c.Budgets), newKind(c.Claims), newKind(c.Volumes), newKind(c.Classes), newKind(c.CSINodes),
		newKind(buffers), newKind(c.PodTemplates), newKind(c.Deployments), newKind(c.StatefulSets),
	} {
		served.kinds[l.name()] = l
	}
	for _, definition := range c.Definitions {
		object := unstructured.Unstructured{Object: definition}
		of := definitions{object.GetKind()}
		known, _ := served.kinds[of.key()].(*raw)
		if known == nil {
			known = &raw{of: of}
			served.kinds[of.key()] = known
		}
		known.items = append(known.items, object)
	}
	return served, nil
}

// Get copies an object.
func (c *CaptureClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, known := c.kinds[nameOf(into)]
	if !known {
		return fmt.Errorf("the what-if client does not support %T", into)
	}
	if !kind.get(key, into) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: nameOf(into)}, key.Name)
	}
	return nil
}

// List copies the matching objects.
func (c *CaptureClient) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	if list, ok := into.(*corev1.PodList); ok {
		list.Items = c.pods.list(asked)
		return nil
	}
	name := listNameOf(into)
	kind, known := c.kinds[name]
	if list, ok := into.(*unstructured.UnstructuredList); ok && !known {
		list.Items = nil // no object of the kind was captured
		return nil
	}
	if !known {
		return fmt.Errorf("the what-if client does not support %T", into)
	}
	return kind.list(asked, into)
}

// Status discards what is written: Karpenter writes to the status of overlays that it has seen them.
func (c *CaptureClient) Status() client.SubResourceWriter { return discard{} }

type discard struct{ client.SubResourceWriter }

// Patch discards the patch.
func (discard) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// typed returns the definitions of a kind.
func typed[T any](c *Capture, kind string) ([]T, error) {
	var found []T
	for _, definition := range c.Definitions {
		object := unstructured.Unstructured{Object: definition}
		if object.GetKind() != kind {
			continue
		}
		into := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition, into); err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", kind, object.GetName(), err)
		}
		found = append(found, *into)
	}
	return found, nil
}

// matches reports whether an object matches the options, except for field selectors.
func matches(asked client.ListOptions, object client.Object) bool {
	return (asked.Namespace == "" || asked.Namespace == object.GetNamespace()) &&
		(asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(object.GetLabels())))
}

// nodeName returns the node for which pods are listed, and whether there is one.
func nodeName(selector fields.Selector) (string, bool) {
	if selector == nil {
		return "", false
	}
	return selector.RequiresExactMatch("spec.nodeName")
}

// lister serves the objects of one kind.
type lister interface {
	name() string
	get(key client.ObjectKey, into client.Object) bool
	list(asked client.ListOptions, into client.ObjectList) error
}

// kind serves objects of a Go type.
type kind[T any, P interface {
	*T
	client.Object
}] struct {
	items []T
	byKey map[types.NamespacedName]int
}

func newKind[T any, P interface {
	*T
	client.Object
}](items []T) lister {
	k := &kind[T, P]{items: items, byKey: make(map[types.NamespacedName]int, len(items))}
	for i := range items {
		k.byKey[client.ObjectKeyFromObject(P(&items[i]))] = i
	}
	return k
}

func (k *kind[T, P]) name() string { return nameOf(P(new(T))) }

func (k *kind[T, P]) get(key client.ObjectKey, into client.Object) bool {
	i, found := k.byKey[key]
	if !found { // the API server ignores the namespace of cluster-scoped objects, and Karpenter passes one for volumes
		i, found = k.byKey[types.NamespacedName{Name: key.Name}]
	}
	if target, ok := into.(P); found && ok {
		*target = k.items[i]
		return true
	}
	return false
}

func (k *kind[T, P]) list(asked client.ListOptions, into client.ObjectList) error {
	if asked.FieldSelector != nil && !asked.FieldSelector.Empty() {
		return fmt.Errorf("the what-if client cannot list %T by %s", into, asked.FieldSelector)
	}
	var found []T
	for i := range k.items {
		if matches(asked, P(&k.items[i])) {
			found = append(found, k.items[i])
		}
	}
	reflect.ValueOf(into).Elem().FieldByName("Items").Set(reflect.ValueOf(found))
	return nil
}

// definitions identifies definitions of a kind in the form in which they are in Git.
type definitions struct{ kind string }

func (d definitions) key() string { return "unstructured " + d.kind }

// raw serves definitions with all their fields.
type raw struct {
	of    definitions
	items []unstructured.Unstructured
}

func (r *raw) name() string { return r.of.key() }

func (r *raw) get(key client.ObjectKey, into client.Object) bool {
	for _, item := range r.items {
		if target, ok := into.(*unstructured.Unstructured); ok && item.GetName() == key.Name {
			target.Object = item.Object
			return true
		}
	}
	return false
}

func (r *raw) list(asked client.ListOptions, into client.ObjectList) error {
	list, ok := into.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("the what-if client cannot list %T", into)
	}
	list.Items = nil
	for i := range r.items {
		if matches(asked, &r.items[i]) {
			list.Items = append(list.Items, r.items[i])
		}
	}
	return nil
}

// nameOf returns the key of a kind of objects in this package.
func nameOf(object client.Object) string {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return definitions{u.GetKind()}.key()
	}
	return reflect.TypeOf(object).Elem().Name()
}

func listNameOf(list client.ObjectList) string {
	if u, ok := list.(*unstructured.UnstructuredList); ok {
		return definitions{strings.TrimSuffix(u.GetKind(), "List")}.key()
	}
	return strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List")
}

// pods serves pods by node and by namespace, because there are many of them.
type pods struct {
	all                 []corev1.Pod
	byNode, byNamespace map[string][]int
}

func newPods(all []corev1.Pod) pods {
	p := pods{all: all, byNode: map[string][]int{}, byNamespace: map[string][]int{}}
	for i := range all {
		p.byNode[all[i].Spec.NodeName] = append(p.byNode[all[i].Spec.NodeName], i)
		p.byNamespace[all[i].Namespace] = append(p.byNamespace[all[i].Namespace], i)
	}
	return p
}

func (p pods) list(asked client.ListOptions) []corev1.Pod {
	node, byNode := nodeName(asked.FieldSelector)
	var found []corev1.Pod
	add := func(i int) {
		if matches(asked, &p.all[i]) && (!byNode || p.all[i].Spec.NodeName == node) {
			found = append(found, p.all[i])
		}
	}
	switch {
	case byNode:
		for _, i := range p.byNode[node] {
			add(i)
		}
	case asked.Namespace != "":
		for _, i := range p.byNamespace[asked.Namespace] {
			add(i)
		}
	default:
		for i := range p.all {
			add(i)
		}
	}
	return found
}
