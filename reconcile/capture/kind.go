package capture

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
	if !found { // the API server does not look at the namespace of what is in none, and Karpenter gives one with a volume's
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
		return fmt.Errorf("a what-if cannot list %T by %s", into, asked.FieldSelector)
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

// definitions names those of a kind as they are in Git.
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
		return fmt.Errorf("a what-if cannot list %T", into)
	}
	list.Items = nil
	for i := range r.items {
		if matches(asked, &r.items[i]) {
			list.Items = append(list.Items, r.items[i])
		}
	}
	return nil
}

// nameOf is by what the objects of a kind are known here.
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

// pods serves pods by node and by namespace, as there are many of them.
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
