package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// apply applies the objects of a manifest as the administrator, one after another. It returns when it sent the last
// one.
func (g *ground) apply(ctx context.Context, manifest []byte) (time.Time, error) {
	var sent time.Time
	for _, document := range bytes.Split(manifest, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return sent, fmt.Errorf("read a manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		sent = time.Now()
		_, err := g.objects.Resource(kind).Namespace(object.GetNamespace()).
			Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "bench", Force: true})
		if err != nil {
			return sent, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return sent, nil
}
