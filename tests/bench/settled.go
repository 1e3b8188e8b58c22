package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// settled waits, by watch, until each NodeSync is Ready at a commit.
func (p *plumbline) settled(ctx context.Context, commit string) error {
	return p.until(ctx, nodeSyncs, daemon.Namespace, p.syncs, "be Ready at "+commit, func(sync *unstructured.Unstructured) (bool, error) {
		if stalledAt(sync, commit) {
			return false, fmt.Errorf("it is Stalled: %s", describe(sync))
		}
		return readyAt(sync, commit), nil
	})
}

// until waits, by watch, until holds is true of each object of some names.
func (g *ground) until(ctx context.Context, kind schema.GroupVersionResource, namespace string, names []string, what string, holds func(*unstructured.Unstructured) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watch, err := g.objects.Resource(kind).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch the %s: %w", kind.Resource, err)
	}
	defer watch.Stop()
	left := slices.Clone(names)
	last := "nothing was seen of it"
	for len(left) > 0 {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return fmt.Errorf("wait for %s to %s: the watch ended; %s", left[0], what, last)
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			done, err := holds(object)
			if err != nil {
				return fmt.Errorf("wait for %s to %s: %w", object.GetName(), what, err)
			}
			if done {
				left = slices.DeleteFunc(left, func(name string) bool { return name == object.GetName() })
			} else {
				last = describe(object)
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to %s: %w; %s", left[0], what, ctx.Err(), last)
		}
	}
	return nil
}

func readyAt(sync *unstructured.Unstructured, commit string) bool {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAppliedRevision")
	removals, _, _ := unstructured.NestedSlice(sync.Object, "status", "removals")
	return strings.HasSuffix(revision, commit) && len(removals) == 0 && isReady(sync)
}

func stalledAt(sync *unstructured.Unstructured, commit string) bool {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAttemptedRevision")
	conditions, _, _ := unstructured.NestedSlice(sync.Object, "status", "conditions")
	return strings.HasSuffix(revision, commit) && slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == "Stalled" && fields["status"] == "True"
	})
}

// describe returns an object's progress.
func describe(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return fmt.Sprintf("conditions: %v", conditions)
}
