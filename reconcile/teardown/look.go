package teardown

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	// many is from how many objects of a kind on one LIST costs less than a GET of
	// each.
	many = 16
	// namesAtOnce is how many pools one LIST of NodeClaims names: they are in its
	// URL, and proxies take no more than 8 kB of one.
	namesAtOnce = 100
)

// look is one reading of all that some removals are about, by one reader: what
// several of them want to know is asked once. Each object is read before what
// hangs on it, so that nothing that came in between is missed.
type look struct {
	reader  client.Reader
	objects map[render.Ref]*unstructured.Unstructured
	// claims are the NodeClaims by the name of the pool that they are labelled with.
	claims map[string][]*karpv1.NodeClaim
	// pools and nodes are who names a class, of any owner, by its name.
	pools, nodes map[string][]string
}

func lookAt(ctx context.Context, reader client.Reader, items []*item) (*look, error) {
	l := &look{
		reader: reader, objects: map[render.Ref]*unstructured.Unstructured{}, claims: map[string][]*karpv1.NodeClaim{},
		pools: map[string][]string{}, nodes: map[string][]string{},
	}
	names := map[string][]string{}
	for _, it := range items {
		if _, known := render.KindOf(it.before.Kind); !known {
			return nil, fmt.Errorf("observe the removal of %s/%s: it is of no kind that is removed", it.before.Kind, it.before.Name)
		}
		names[it.before.Kind] = append(names[it.before.Kind], it.before.Name)
	}
	for _, kind := range render.Kinds() {
		if err := l.readObjects(ctx, kind, names[kind.GVK.Kind]); err != nil {
			return nil, err
		}
	}
	// A name that is no label value is no NodeClaim's: Karpenter can make none.
	labelled := slices.DeleteFunc(names[render.NodePool], func(name string) bool { return len(validation.IsValidLabelValue(name)) > 0 })
	for some := range slices.Chunk(labelled, namesAtOnce) {
		if err := l.readClaims(ctx, some); err != nil {
			return nil, err
		}
	}
	if class, _ := render.KindOf(render.EC2NodeClass); len(names[render.EC2NodeClass]) > 0 {
		return l, l.readReferences(ctx, class)
	}
	return l, nil
}

// readObjects reads the objects of one kind only by their names: one that has
// lost our label is there all the same.
func (l *look) readObjects(ctx context.Context, kind render.Kind, names []string) error {
	if len(names) >= many {
		list, err := l.list(ctx, kind)
		for i := range list {
			l.objects[render.Ref{Kind: kind.GVK.Kind, Name: list[i].GetName()}] = &list[i]
		}
		return err
	}
	for _, name := range names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind.GVK)
		switch err := l.reader.Get(ctx, types.NamespacedName{Name: name}, object); {
		case absent(err):
		case err != nil:
			return fmt.Errorf("read %s/%s: %w", kind.GVK.Kind, name, err)
		default:
			l.objects[render.Ref{Kind: kind.GVK.Kind, Name: name}] = object
		}
	}
	return nil
}

// list reads all objects of a kind. They may be a cache's own, and are read only.
func (l *look) list(ctx context.Context, kind render.Kind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := l.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return nil, fmt.Errorf("read the %ss: %w", kind.GVK.Kind, err)
	}
	return list.Items, nil
}

// absent says that there is no such object, or that its kind is not served: with
// its CRD every object of a kind is gone.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// readClaims reads the NodeClaims that are labelled with one of some pools.
func (l *look) readClaims(ctx context.Context, pools []string) error {
	labelled, err := labels.NewRequirement(karpv1.NodePoolLabelKey, selection.In, pools)
	if err != nil {
		return fmt.Errorf("ask for the NodeClaims of NodePools %v: %w", pools, err)
	}
	list := &karpv1.NodeClaimList{}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*labelled)}
	if err := l.reader.List(ctx, list, selector, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return fmt.Errorf("read the NodeClaims of NodePools %v: %w", pools, err)
	}
	for i := range list.Items {
		pool := list.Items[i].Labels[karpv1.NodePoolLabelKey]
		l.claims[pool] = append(l.claims[pool], &list.Items[i])
	}
	return nil
}

// readReferences reads who names a class, of any owner.
func (l *look) readReferences(ctx context.Context, class render.Kind) error {
	for _, kind := range render.Kinds() {
		if kind.RefersTo != class.GVK.Kind {
			continue
		}
		list, err := l.list(ctx, kind)
		if err != nil {
			return err
		}
		for i := range list {
			if name, _, err := unstructured.NestedString(list[i].Object, kind.RefPath...); err == nil {
				l.pools[name] = append(l.pools[name], kind.GVK.Kind+"/"+list[i].GetName())
			}
		}
	}
	claims := &karpv1.NodeClaimList{}
	if err := l.reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return fmt.Errorf("read the NodeClaims that name an %s: %w", class.GVK.Kind, err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Kind == class.GVK.Kind && ref.Group == class.GVK.Group {
			l.nodes[ref.Name] = append(l.nodes[ref.Name], "NodeClaim/"+claims.Items[i].Name)
		}
	}
	return nil
}

// referencing are those that name a class, NodePools first.
func (l *look) referencing(class string) []string {
	return append(slices.Sorted(slices.Values(l.pools[class])), slices.Sorted(slices.Values(l.nodes[class]))...)
}
