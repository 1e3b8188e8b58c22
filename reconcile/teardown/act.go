package teardown

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// actsAtOnce is how many writes are made at a time.
const actsAtOnce = 8

// act does what Next wants done, beyond questions and records. The removals do
// not wait for each other: each has its own gates behind it. It returns those
// whose objects another client has written to since they were looked at.
func (d *drive) act(ctx context.Context, items []*item) (overtaken []*item, err error) {
	type act struct {
		it *item
		do Action
	}
	var wanted []act
	for _, it := range items {
		for _, a := range it.actions {
			wanted = append(wanted, act{it, a})
		}
	}
	failures, done := make([]error, len(wanted)), make([]bool, len(wanted))
	var group errgroup.Group
	group.SetLimit(actsAtOnce)
	for i, a := range wanted {
		group.Go(func() error {
			done[i], failures[i] = d.write(ctx, a.it, a.do)
			return nil
		})
	}
	// No write returns an error: each has its place among the failures.
	_ = group.Wait()
	for i, a := range wanted {
		if done[i] {
			d.did(a.it, a.do)
			if claim, ended := a.do.(DeleteNodeClaim); ended {
				d.result.Evicted[claim.UID] = true // its pods were noted before
			}
		}
		if apierrors.IsConflict(failures[i]) && !slices.Contains(overtaken, a.it) {
			overtaken = append(overtaken, a.it)
		}
	}
	return overtaken, errors.Join(failures...)
}

// actAgain looks once more at removals that were overtaken, by Karpenter's writes
// to a status above all, and does what is to be done then. In the next pass they
// would have to wait until EC2 may be asked again. What has to be recorded first
// waits for that all the same.
func (d *drive) actAgain(ctx context.Context, overtaken []*item) error {
	if len(overtaken) == 0 {
		return nil
	}
	if err := d.observe(ctx, overtaken, d.Live); err != nil {
		return err
	}
	for _, it := range overtaken {
		it.seen.Fresh = true
		it.seen.Turn = Turn{Most: it.seen.Turn.Most} // what others end in this pass is not seen yet
		var after v1alpha1.Removal
		after, it.actions = Next(it.before, it.seen, d.Now, d.StallAfter)
		if wants[Note](it) || wants[Forget](it) {
			it.actions = nil
			continue
		}
		it.after = after
	}
	_, err := d.act(ctx, overtaken)
	return err
}

// write does one thing, where it is one that is written to the cluster.
func (d *drive) write(ctx context.Context, it *item, a Action) (done bool, err error) {
	switch a := a.(type) {
	case StopGrowth, Replace:
		object := it.object()
		object.Object["spec"] = d.restraint(it, a)
		if err = d.restrainAs(ctx, it, a, object); err == nil {
			err = growthStopped(object)
		}
	case RestoreGrowth:
		err = d.restrain(ctx, it, a, d.restraint(it, a))
	case ScaleTo:
		err = d.restrain(ctx, it, a, map[string]any{"replicas": int64(a.Replicas)})
	case DeleteNodeClaim:
		err = d.deleteClaim(ctx, it, a)
	case DeleteObject:
		err = d.deleteObject(ctx, it, a)
	default:
		return false, nil
	}
	return err == nil, err
}

// restrain applies only a spec, forced, as the removal's own manager; nil takes
// away what that manager has set. The UID keeps it from another object of the
// name, and from making one.
func (d *drive) restrain(ctx context.Context, it *item, a Action, spec map[string]any) error {
	object := it.object()
	if spec != nil {
		object.Object["spec"] = spec
	}
	return d.restrainAs(ctx, it, a, object)
}

// restrainAs is restrain with an object, which becomes the API server's answer.
func (d *drive) restrainAs(ctx context.Context, it *item, a Action, object *unstructured.Unstructured) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	object.SetUID(it.before.UID)
	err := d.Writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.RemovalFieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s of %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	return nil
}

// restrainSeen is restrain for a pool as it was seen: one that another client has written since is a conflict.
func (d *drive) restrainSeen(ctx context.Context, it *item, a Action) error {
	object := it.object()
	object.Object["spec"] = d.restraint(it, a)
	object.SetResourceVersion(it.seen.ResourceVersion)
	return d.restrainAs(ctx, it, a, object)
}

// growthStopped says whether the API server's answer has the limit that was written: a
// mutating webhook or policy may have put another in its place.
func growthStopped(answer *unstructured.Unstructured) error {
	limits, _, _ := unstructured.NestedMap(answer.Object, "spec", "limits")
	cpu, found := limits["cpu"]
	if !found || fmt.Sprint(cpu) == "0" {
		return nil
	}
	return fmt.Errorf("stop growth of %s/%s: spec.limits.cpu is written as 0 and comes back as %v: a mutating webhook or policy of this cluster changes it: "+
		"exempt NodePools from that; no NodeClaim is ended before", answer.GetKind(), answer.GetName(), cpu)
}

// deleteClaim ends a NodeClaim as it was seen past the cache. One that is gone or
// has changed is looked at in the next pass.
func (d *drive) deleteClaim(ctx context.Context, it *item, a DeleteNodeClaim) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	if err := d.Writer.Delete(ctx, claim, exactly(a.UID, a.ResourceVersion)); err != nil {
		return fmt.Errorf("delete NodeClaim/%s of %s/%s: %w", a.Name, it.before.Kind, it.before.Name, err)
	}
	return nil
}

func (d *drive) deleteObject(ctx context.Context, it *item, a DeleteObject) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	if err := d.Writer.Delete(ctx, it.object(), exactly(a.UID, a.ResourceVersion)); err != nil {
		return fmt.Errorf("delete %s/%s: %w", it.before.Kind, it.before.Name, err)
	}
	it.after = Deleted(it.after, d.Now, d.StallAfter)
	return nil
}

// mayWrite is asked before each write.
func (d *drive) mayWrite(ctx context.Context, it *item, a Action) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s for %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	if err := d.StillLeader(ctx); err != nil {
		return fmt.Errorf("%s for %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	return nil
}

func (d *drive) did(it *item, a Action) {
	d.result.Writes = append(d.result.Writes, Write{Kind: it.before.Kind, Name: it.before.Name, Action: a})
}

func (it *item) object() *unstructured.Unstructured {
	kind, _ := render.KindOf(it.before.Kind)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind.GVK)
	object.SetName(it.before.Name)
	return object
}

// lookAgain drops the errors that only say that another client was faster: the next
// pass, a moment later, sees what they did.
func (d *drive) lookAgain(err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var left []error
		for _, one := range joined.Unwrap() {
			left = append(left, d.lookAgain(one))
		}
		return errors.Join(left...)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		d.wakeAt(d.Now.Add(soon))
		return nil
	}
	return err
}
