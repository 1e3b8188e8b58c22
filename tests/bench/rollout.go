package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// mostBusy is the maximum number of writes of the NodeSync in one second while NodeClaims change.
	mostBusy = 2
	// idleShare is the divisor for the share of a core that this may use at most: a tenth.
	idleShare = 10
)

// rollout changes all NodeClaims as fast as the API server allows: first while the guard holds a commit because of the
// number of nodes, when each change may release it, and then as Karpenter replaces them after that commit.
func (b *bench) rollout(ctx context.Context) error {
	if b.options.Claims == 0 {
		return nil
	}
	b.fleet = newFleet(folder, "", b.options.Objects)
	if _, err := b.meet(ctx, b.fleet, map[string]string{"rollout.onFailure": "Report"}); err != nil { // replacements count in total
		return err
	}
	claims, err := b.machines(ctx, 0, b.options.Claims)
	if err != nil {
		return err
	}
	successors, err := b.machines(ctx, len(claims), len(claims))
	if err != nil {
		return err
	}
	each := func(list []definition, do func(context.Context, dynamic.Interface, definition) error) func(context.Context) error {
		return func(ctx context.Context) error { return b.raw.applier.each(ctx, list, do) }
	}
	return b.inTurn(ctx,
		step{"NodeClaims are made", each(claims, makeClaim)},
		step{"a commit is held", b.holdAll},
		step{"NodeClaims drift", b.atOnce("drift, a commit is held", 0, each(claims, drift))},
		step{"the commit is released", b.releaseAll},
		step{"NodeClaims are replaced", b.atOnce("are replaced", len(claims), func(ctx context.Context) error {
			if err := each(successors, makeClaim)(ctx); err != nil {
				return err
			}
			return each(claims, endClaim)(ctx)
		})},
		step{"NodeClaims end", each(successors, endClaim)},
		step{"deletion", b.plumbline.leave},
	)
}

// atOnce measures the daemon while NodeClaims change, with this many deletions.
func (b *bench) atOnce(what string, ends int, change func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var took time.Duration
		row, err := b.profiled(ctx, "rollout-"+strings.Trim(strings.Fields(what)[0], ","), func(ctx context.Context) (Row, error) {
			return b.measure(ctx, b.plumbline, func(context.Context) (time.Time, error) {
				return time.Now(), nil
			}, func(ctx context.Context) error {
				began := time.Now()
				err := change(ctx)
				took = time.Since(began)
				return err
			})
		})
		if err != nil {
			return err
		}
		row.Work = fmt.Sprintf("%d NodeClaims %s", b.options.Claims, what)
		row.Wall, row.CPULimit, row.BusiestLimit = took, took/idleShare, mostBusy
		b.table.add(row)
		if row.Busiest > mostBusy {
			return fmt.Errorf("%s: %d writes of the NodeSync in one second; want at most %d", row.Work, row.Busiest, mostBusy)
		}
		// Karpenter's events tell why NodeClaims are terminated, and what blocks drifted ones; and the pods of some
		// nodes are counted when these are terminated.
		return exact(row, Counts{Patches: free, Events: free, Lists: wakes(took) + counted(ends, took), Reads: free})
	}
}

// holdAll pushes a commit that replaces all nodes, until it is held.
func (b *bench) holdAll(ctx context.Context) error {
	b.fleet.changeAll()
	if err := b.write(b.fleet.all()...); err != nil {
		return err
	}
	if _, err := b.host.push(ctx, b.plumbline.notify); err != nil {
		return err
	}
	return b.plumbline.until(ctx, nodeSyncs, daemon.Namespace, b.plumbline.syncs, "hold a commit", func(sync *unstructured.Unstructured) (bool, error) {
		return strings.Contains(describe(sync), "guard.maxDisruptedNodes"), nil
	})
}

// releaseAll releases it.
func (b *bench) releaseAll(ctx context.Context) error {
	allow := []byte(`{"spec":{"guard":{"maxDisruptedNodes":"100%"}}}`)
	var generation int64
	for _, name := range b.plumbline.syncs {
		sync, err := b.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Patch(ctx, name, types.MergePatchType, allow, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("allow %s to replace all nodes: %w", name, err)
		}
		generation = sync.GetGeneration()
	}
	return b.plumbline.until(ctx, nodeSyncs, daemon.Namespace, b.plumbline.syncs, "apply a commit", func(sync *unstructured.Unstructured) (bool, error) {
		observed, _, err := unstructured.NestedInt64(sync.Object, "status", "observedGeneration")
		return observed == generation && isReady(sync), err
	})
}

// claimName returns the name of the NodeClaim of a Node.
func claimName(d definition) (string, error) {
	_, after, found := strings.Cut(d.content, "name: ")
	name, _, _ := strings.Cut(after, "\n")
	if !found {
		return "", fmt.Errorf("the NodeClaim of %s has no name", d.name)
	}
	return name, nil
}

// drift marks a NodeClaim as drifted, like Karpenter.
func drift(ctx context.Context, client dynamic.Interface, d definition) error {
	name, err := claimName(d)
	if err != nil {
		return err
	}
	patch := []byte(`[{"op":"add","path":"/status/conditions/-","value":{"type":"Drifted","status":"True","reason":"NodePoolDrifted","message":"NodePoolDrifted","lastTransitionTime":"2026-01-01T01:00:00Z"}}]`)
	if _, err := client.Resource(nodeClaims).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "karpenter"}, "status"); err != nil {
		return fmt.Errorf("report that NodeClaim %s is drifted: %w", name, err)
	}
	return nil
}

// endClaim deletes a NodeClaim, and removes its finalizers.
func endClaim(ctx context.Context, client dynamic.Interface, d definition) error {
	name, err := claimName(d)
	if err != nil {
		return err
	}
	if err := client.Resource(nodeClaims).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete NodeClaim %s: %w", name, err)
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := client.Resource(nodeClaims).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "karpenter"}); err != nil {
		return fmt.Errorf("let NodeClaim %s go: %w", name, err)
	}
	return nil
}
