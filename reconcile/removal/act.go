package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
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
// to a status above all, and does what is to be done then. In the next reconcile they
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
		it.seen.Turn = Turn{Most: it.seen.Turn.Most} // what others end in this reconcile is not seen yet
		var after v1alpha1.Removal
		after, it.actions = Next(it.before, it.seen, d.Now, d.StallAfter)
		if asksFor[Note](it) || asksFor[Forget](it) {
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

// growthStopped reports whether the API server's answer has the limit that was written: a
// mutating webhook or policy may have put another in its place.
func growthStopped(answer *unstructured.Unstructured) error {
	limits, _, _ := unstructured.NestedMap(answer.Object, "spec", "limits")
	cpu, found := limits["cpu"]
	if !found || fmt.Sprint(cpu) == "0" {
		return nil
	}
	return fmt.Errorf("stop growth of %s/%s: a mutating webhook or policy changed spec.limits.cpu from 0 to %v: "+
		"exempt NodePools from it; plumbline deletes no NodeClaim until then", answer.GetKind(), answer.GetName(), cpu)
}

// deleteClaim ends a NodeClaim as it was seen past the cache. One that is gone or
// has changed is looked at in the next reconcile.
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

// lookAgain drops the errors that only report that another client was faster: the next
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

// Action is something that Next wants done. The questions AskEC2, Reread,
// ReadPods and AskLeader only make the Observation better and are answered in
// the same reconcile.
type Action interface {
	fmt.Stringer
	action()
}

// AskEC2 asks for the instances of the removal.
type AskEC2 struct{}

// Reread reads the object, and what hangs on it, past the cache.
type Reread struct{}

// ReadPods reads the pods of nodes of which some are ended next, and whether those that
// were evicted run again.
type ReadPods struct{ Nodes []string }

// AskLeader asks whether a pod of Karpenter's controller holds its lease.
type AskLeader struct{}

// Note adds to the removal's record, making it where there is none.
type Note struct {
	// Fresh are provider IDs to add.
	Fresh []string
	// Seen are instances as EC2 has shown them, to add or mark.
	Seen []Instance
	// Workloads are those whose pods are about to be evicted, to add.
	Workloads []Workload
	// Budgets are the pool's disruption budgets, which are about to be overwritten, to add.
	Budgets []any
}

// Forget drops the removal's record.
type Forget struct{}

// StopGrowth keeps the pool from making nodes: the cpu limit becomes 0.
type StopGrowth struct{}

// RestoreGrowth gives the pool the cpu limit, or the replicas, that stopping its growth has
// overwritten, and has its nodes match its template again.
type RestoreGrowth struct {
	// Paced reports whether it gets its own disruption budgets back only later: Karpenter still takes nodes for
	// drifted, and would replace those by them.
	Paced bool
}

// Replace has Karpenter replace nodes of the pool: launch first what takes their pods, in another
// pool, and end them then.
type Replace struct {
	// Nodes is how many of them at a time; with 0 it begins no more.
	Nodes int
}

// ScaleTo lowers a static pool's replicas, which ends the nodes beyond them.
type ScaleTo struct{ Replicas int }

// DeleteNodeClaim ends one NodeClaim.
type DeleteNodeClaim struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// DeleteObject deletes the object itself, which owns nothing any more.
type DeleteObject struct {
	UID             types.UID
	ResourceVersion string
}

// Reverted is nothing to do: a commit has taken the removal back that another one had begun.
type Reverted struct {
	// Commit is the one that had taken the entry out of Git.
	Commit string
	// Ended is how many of NodeClaims were ended by then.
	Ended, NodeClaims int
}

func (Reverted) action()        {}
func (AskEC2) action()          {}
func (Reread) action()          {}
func (Note) action()            {}
func (Forget) action()          {}
func (StopGrowth) action()      {}
func (RestoreGrowth) action()   {}
func (Replace) action()         {}
func (ScaleTo) action()         {}
func (ReadPods) action()        {}
func (AskLeader) action()       {}
func (DeleteNodeClaim) action() {}
func (DeleteObject) action()    {}

func (r Reverted) String() string {
	return fmt.Sprintf("reverted when %d of %d nodes were terminated", r.Ended, r.NodeClaims)
}
func (AskEC2) String() string { return "query EC2" }
func (Reread) String() string { return "read past the cache" }
func (n Note) String() string {
	words := []string{"note"}
	if len(n.Fresh) > 0 {
		words = append(words, "fresh="+strings.Join(n.Fresh, ","))
	}
	if len(n.Seen) > 0 {
		seen := make([]string, 0, len(n.Seen))
		for _, i := range n.Seen {
			seen = append(seen, i.ProviderID+":"+i.State)
		}
		words = append(words, "seen="+strings.Join(seen, ","))
	}
	for _, w := range n.Workloads {
		words = append(words, "workload="+w.String())
	}
	if n.Budgets != nil {
		words = append(words, fmt.Sprintf("budgets=%d", len(n.Budgets)))
	}
	return strings.Join(words, " ")
}
func (Forget) String() string     { return "forget the record" }
func (StopGrowth) String() string { return "stop growth" }
func (r RestoreGrowth) String() string {
	if r.Paced {
		return "restore growth, and disruption budgets later"
	}
	return "restore growth"
}

func (r Replace) String() string {
	return fmt.Sprintf("have Karpenter replace %d at a time", r.Nodes)
}
func (s ScaleTo) String() string         { return fmt.Sprintf("scale to %d", s.Replicas) }
func (r ReadPods) String() string        { return "read the pods of " + strings.Join(r.Nodes, ",") }
func (AskLeader) String() string         { return "check the leader" }
func (d DeleteNodeClaim) String() string { return "delete NodeClaim/" + d.Name }
func (DeleteObject) String() string      { return "delete the object" }

// Settles is how long Karpenter is given until it is looked again whether it still takes nodes for drifted.
const Settles = 2 * time.Second

// Restore gives pools of Git, which cannot be written yet, what plumbline itself has taken from them. Those whose nodes
// Karpenter has replaced get their disruption budgets back last, once it takes none for drifted any more that only the
// removal had made drift. It is done when each has all; else it returns when to go on.
func Restore(ctx context.Context, w World, sync *v1alpha1.NodeSync, now time.Time, pools []*unstructured.Unstructured, braked map[string]bool) (again time.Time, err error) {
	if len(Restores(pools, nil, braked)) == 0 {
		return again, nil
	}
	d := newDrive(w, Pass{Now: now, Sync: sync})
	if d.records, err = loadRecords(ctx, w.Home, sync); err != nil {
		return again, err
	}
	whole := pools[:0:0]
	for _, pool := range pools {
		drifts, err := d.unreplace(ctx, pool)
		switch {
		case err != nil:
			return again, err
		case drifts:
			d.wakeAt(now.Add(Settles))
		default:
			whole = append(whole, pool)
		}
	}
	for _, restore := range Restores(whole, d.records.growth(sync), braked) {
		restored, err := w.release(ctx, restore)
		if err != nil {
			return again, err
		}
		if !restored {
			d.wakeAt(now.Add(finding.Soon))
		}
	}
	return d.result.Again, nil
}

// unreplace has the nodes of a pool match it again, and reports whether Karpenter may still take some for drifted.
func (d *drive) unreplace(ctx context.Context, pool *unstructured.Unstructured) (drifts bool, err error) {
	i := slices.IndexFunc(d.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == pool.GetUID() })
	if i < 0 || restrained(pool) < 0 {
		return false, nil
	}
	it := &item{before: d.Sync.Status.Removals[i]}
	if it.see(pool, d.Now); !it.paces || !it.seen.alive() {
		return false, nil
	}
	of, err := d.claimsOf(ctx, pool.GetName())
	if err != nil {
		return false, err
	}
	it.seeClaims(of[pool.GetName()])
	if it.seen.Replacing == nil {
		return it.seen.drifting(it.before), nil
	}
	if err = d.restrainSeen(ctx, it, RestoreGrowth{Paced: true}); apierrors.IsConflict(err) || absent(err) {
		return true, nil
	}
	return true, err
}

// Revoke has Karpenter begin to replace no more nodes of the pools that leave: nobody looks after them for a while. It
// reads past the cache, and leaves what another one writes meanwhile as it is. What Karpenter has begun goes on.
func Revoke(ctx context.Context, w World, sync *v1alpha1.NodeSync, now time.Time) error {
	d := newDrive(w, Pass{Now: now, Sync: sync})
	var failures []error
	for _, r := range sync.Status.Removals {
		if r.Kind != render.NodePool || rank(r.Phase) > rank(v1alpha1.RemovalDraining) {
			continue
		}
		if err := d.revoke(ctx, r); err != nil && !apierrors.IsConflict(err) && !absent(err) {
			failures = append(failures, fmt.Errorf("set the disruption budget of NodePool/%s back to 0 nodes: %w", r.Name, err))
		}
	}
	return errors.Join(failures...)
}

func (d *drive) revoke(ctx context.Context, r v1alpha1.Removal) (err error) {
	it := &item{before: r}
	pool := it.object()
	if err := d.Live.Get(ctx, types.NamespacedName{Name: r.Name}, pool); err != nil {
		return err
	}
	if it.see(pool, d.Now); pool.GetUID() != r.UID || !it.seen.alive() || !it.seen.lends() {
		return nil
	}
	if d.records == nil {
		if d.records, err = loadRecords(ctx, d.Home, d.Sync); err != nil {
			return err
		}
	}
	return d.restrainSeen(ctx, it, Replace{})
}
