package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesPage is the page size for listing Nodes.
const nodesPage = 500

// EachNode calls see with the metadata of each Node with the labels. The watch cache contains no Nodes, so reader must
// be uncached. It stops at an error of see, and returns that unchanged.
func EachNode(ctx context.Context, reader client.Reader, labelled client.ListOption, see func(*metav1.PartialObjectMetadata) error) error {
	for page := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := reader.List(ctx, list, labelled, client.Limit(nodesPage), client.Continue(page)); err != nil {
			return fmt.Errorf("list Nodes: %w", err)
		}
		for i := range list.Items {
			if err := see(&list.Items[i]); err != nil {
				return err
			}
		}
		if page = list.Continue; page == "" {
			return nil
		}
	}
}

// NodeGone reports whether no Node has the name. The watch cache contains no Nodes, so reader must be uncached.
func NodeGone(ctx context.Context, reader client.Reader, name string) (bool, error) {
	node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read whether Node %s is there: %w", name, err)
	}
	return apierrors.IsNotFound(err), nil
}
