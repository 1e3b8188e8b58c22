package capture

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Client serves a Capture as a cluster. It reads; what is written is thrown away, and what is
// neither in a Capture nor asked for by Karpenter's scheduling is an error.
type Client struct {
	client.Client
	kinds map[string]lister
	pods  pods
}

// NewClient makes a Client of a Capture. Objects that it hands out share their fields with it.
func NewClient(c *Capture) (*Client, error) {
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
	served := &Client{pods: newPods(c.Pods), kinds: map[string]lister{}}
	for _, l := range []lister{
		newKind(pools), newKind(classes), newKind(overlays), newKind(c.NodeClaims), newKind(c.Nodes), newKind(c.Namespaces),
		newKind(c.DaemonSets), newKind(c.Budgets), newKind(c.Claims), newKind(c.Volumes), newKind(c.Classes), newKind(c.CSINodes),
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
func (c *Client) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, known := c.kinds[nameOf(into)]
	if !known {
		return fmt.Errorf("a what-if has no %T", into)
	}
	if !kind.get(key, into) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: nameOf(into)}, key.Name)
	}
	return nil
}

// List copies the objects that are asked for.
func (c *Client) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	if list, ok := into.(*corev1.PodList); ok {
		list.Items = c.pods.list(asked)
		return nil
	}
	name := listNameOf(into)
	kind, known := c.kinds[name]
	if list, ok := into.(*unstructured.UnstructuredList); ok && !known {
		list.Items = nil // none of the kind was captured
		return nil
	}
	if !known {
		return fmt.Errorf("a what-if has no %T", into)
	}
	return kind.list(asked, into)
}

// Status throws away what is written, as Karpenter notes on overlays that it has seen them.
func (c *Client) Status() client.SubResourceWriter { return discard{} }

type discard struct{ client.SubResourceWriter }

// Patch throws the patch away.
func (discard) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// typed are the definitions of a kind.
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

// matches says whether an object is asked for, but for fields.
func matches(asked client.ListOptions, object client.Object) bool {
	return (asked.Namespace == "" || asked.Namespace == object.GetNamespace()) &&
		(asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(object.GetLabels())))
}

// nodeName is the node that pods are asked of, and whether they are.
func nodeName(selector fields.Selector) (string, bool) {
	if selector == nil {
		return "", false
	}
	return selector.RequiresExactMatch("spec.nodeName")
}
