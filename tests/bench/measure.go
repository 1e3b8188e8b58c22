package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// user is who the daemon is to the API server.
const user = "system:serviceaccount:" + daemon.Namespace + ":" + daemon.ServiceAccount

// take measures the daemon from a push, or from when begin lets it see the
// repository, until the NodeSync is Ready at that commit.
func (b *bench) take(ctx context.Context, p pushed, begin func(context.Context) (time.Time, error)) (Row, error) {
	before, err := b.kube.Writes()
	if err != nil {
		return Row{}, err
	}
	cpu, err := b.process.cpu()
	if err != nil {
		return Row{}, err
	}
	statuses := b.host.statuses.Load()
	began, err := begin(ctx)
	if err != nil {
		return Row{}, err
	}
	if began.IsZero() {
		began = p.at
	}
	if err := b.settled(ctx, p.commit); err != nil {
		return Row{}, err
	}
	after, err := b.process.cpu()
	if err != nil {
		return Row{}, err
	}
	writes, err := b.audited(ctx, len(before))
	if err != nil {
		return Row{}, err
	}
	row := count(writes, began)
	row.CPU, row.Statuses = after-cpu, int(b.host.statuses.Load()-statuses)
	return row, nil
}

// count sums up what the daemon wrote. The clock stops at the API server's
// answer to the last write of an object, or where there is none of the status.
func count(writes []kube.Write, began time.Time) Row {
	var row Row
	var object, status time.Time
	for _, w := range writes {
		if w.User != user {
			continue
		}
		switch {
		case strings.HasPrefix(w.Group, "karpenter.") && w.Code >= 300:
			row.Refused++
		case strings.HasPrefix(w.Group, "karpenter."):
			row.Writes++
			object = w.Time
		case w.Resource == nodeSyncs.Resource:
			row.Patches++
			status = w.Time
		}
	}
	if row.Writes == 0 {
		object = status
	}
	row.Wall = object.Sub(began)
	return row
}

// settled waits, by watch, until the NodeSync is Ready at a commit.
func (b *bench) settled(ctx context.Context, commit string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	syncs := b.objects.Resource(nodeSyncs).Namespace(daemon.Namespace)
	watch, err := syncs.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + nodeSyncName})
	if err != nil {
		return fmt.Errorf("watch the NodeSync: %w", err)
	}
	defer watch.Stop()
	last := "nothing was seen of it"
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return fmt.Errorf("wait for the NodeSync to be Ready at %s: the watch ended; %s", commit, last)
			}
			sync, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			if readyAt(sync, commit) {
				return nil
			}
			if last = describe(sync); stalledAt(sync, commit) {
				return fmt.Errorf("wait for the NodeSync to be Ready at %s: it is Stalled; %s", commit, last)
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the NodeSync to be Ready at %s: %w; %s", commit, ctx.Err(), last)
		}
	}
}

func readyAt(sync *unstructured.Unstructured, commit string) bool {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAppliedRevision")
	return strings.HasSuffix(revision, commit) && isReady(sync)
}

func stalledAt(sync *unstructured.Unstructured, commit string) bool {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAttemptedRevision")
	conditions, _, _ := unstructured.NestedSlice(sync.Object, "status", "conditions")
	return strings.HasSuffix(revision, commit) && slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == "Stalled" && fields["status"] == "True"
	})
}

// describe says how far a NodeSync is.
func describe(sync *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(sync.Object, "status", "conditions")
	return fmt.Sprintf("conditions: %v", conditions)
}

// audited are the writes since the first skip ones. A request that is refused
// marks the end: the audit has it when it has all that was answered before.
func (b *bench) audited(ctx context.Context, skip int) ([]kube.Write, error) {
	b.markers++
	marker := fmt.Sprintf("bench-marker-%d", b.markers)
	err := b.objects.Resource(nodePools).Delete(ctx, marker, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("mark a place in the audit: want not found, got: %w", err)
	}
	var since []kube.Write
	err = b.await(ctx, "the API server's audit", func(context.Context) (bool, error) {
		all, err := b.kube.Writes()
		if err != nil {
			return false, err
		}
		since = all[skip:]
		for _, w := range since {
			if w.Name == marker {
				return true, nil
			}
		}
		return false, nil
	})
	return since, err
}
