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
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// actsAtOnce is how many writes run concurrently.
const actsAtOnce = 8

// act carries out the Actions of Next, except questions and records. The removals do not wait for each other: each has
// its own gates. act returns the removals whose objects another client has written to since they were read.
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
	// No write returns an error to the group: each error is in failures.
	_ = group.Wait()
	for i, a := range wanted {
		if done[i] {
			d.recordWrite(a.it, a.do)
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

// retryConflicts observes removals again whose writes had a conflict, mostly with Karpenter's writes to a status, and
// acts on the result. In the next reconcile they would have to wait until EC2 may be queried again. Anything that must
// be recorded first waits for the next reconcile anyway.
func (d *drive) retryConflicts(ctx context.Context, overtaken []*item) error {
	if len(overtaken) == 0 {
		return nil
	}
	if err := d.observe(ctx, overtaken, d.Live); err != nil {
		return err
	}
	for _, it := range overtaken {
		it.seen.Fresh = true
		it.seen.Turn = Turn{Most: it.seen.Turn.Most} // what other removals terminate in this reconcile is not visible yet
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

// write carries out one Action, if it is a write to the cluster.
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

// restrain applies only a spec, with force, as the removal's own field manager; nil removes what that manager has set.
// The UID prevents a write to another object of the same name, and the creation of one.
func (d *drive) restrain(ctx context.Context, it *item, a Action, spec map[string]any) error {
	object := it.object()
	if spec != nil {
		object.Object["spec"] = spec
	}
	return d.restrainAs(ctx, it, a, object)
}

// restrainAs applies an object like restrain. The object is replaced by the API server's response.
func (d *drive) restrainAs(ctx context.Context, it *item, a Action, object *unstructured.Unstructured) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	object.SetUID(it.before.UID)
	err := d.Writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.RemovalFieldManager),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s of %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	return nil
}

// restrainSeen applies to a pool in the version that was seen, like restrain: if another client has written to it
// since, there is a conflict.
func (d *drive) restrainSeen(ctx context.Context, it *item, a Action) error {
	object := it.object()
	object.Object["spec"] = d.restraint(it, a)
	object.SetResourceVersion(it.seen.ResourceVersion)
	return d.restrainAs(ctx, it, a, object)
}

// growthStopped returns an error if the API server's response does not have the limit that was written: a mutating
// webhook or policy may have replaced it.
func growthStopped(answer *unstructured.Unstructured) error {
	limits, _, _ := unstructured.NestedMap(answer.Object, "spec", "limits")
	cpu, found := limits["cpu"]
	if !found || fmt.Sprint(cpu) == "0" {
		return nil
	}
	return fmt.Errorf("stop growth of %s/%s: a mutating webhook or policy changed spec.limits.cpu from 0 to %v: "+
		"exempt NodePools from it; plumbline deletes no NodeClaim until then", answer.GetKind(), answer.GetName(), cpu)
}

// deleteClaim deletes a NodeClaim in the version that was read past the cache. One that is gone or has changed is
// handled in the next reconcile.
func (d *drive) deleteClaim(ctx context.Context, it *item, a DeleteNodeClaim) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	if err := d.Writer.Delete(ctx, claim, preconditions(a.UID, a.ResourceVersion)); err != nil {
		return fmt.Errorf("delete NodeClaim/%s of %s/%s: %w", a.Name, it.before.Kind, it.before.Name, err)
	}
	return nil
}

func (d *drive) deleteObject(ctx context.Context, it *item, a DeleteObject) error {
	if err := d.mayWrite(ctx, it, a); err != nil {
		return err
	}
	if err := d.Writer.Delete(ctx, it.object(), preconditions(a.UID, a.ResourceVersion)); err != nil {
		return fmt.Errorf("delete %s/%s: %w", it.before.Kind, it.before.Name, err)
	}
	it.after = Deleted(it.after, d.Now, d.StallAfter)
	return nil
}

// mayWrite is called before each write.
func (d *drive) mayWrite(ctx context.Context, it *item, a Action) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s for %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	if err := d.StillLeader(ctx); err != nil {
		return fmt.Errorf("%s for %s/%s: %w", a, it.before.Kind, it.before.Name, err)
	}
	return nil
}

func (d *drive) recordWrite(it *item, a Action) {
	d.result.Writes = append(d.result.Writes, Write{Kind: it.before.Kind, Name: it.before.Name, Action: a})
}

func (it *item) object() *unstructured.Unstructured {
	return plan.RefOf(it.before).Empty()
}

// dropConflicts drops errors that only report a conflict with another client: the next reconcile, a moment later, sees
// the change.
func (d *drive) dropConflicts(err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var left []error
		for _, one := range joined.Unwrap() {
			left = append(left, d.dropConflicts(one))
		}
		return errors.Join(left...)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		d.wakeAt(d.Now.Add(conflictRetry))
		return nil
	}
	return err
}

// Action is a step that Next requests. The questions AskEC2, Reread, ReadPods and AskLeader only complete the
// Observation and are answered in the same reconcile.
type Action interface {
	fmt.Stringer
	action()
}

// AskEC2 queries the instances of the removal.
type AskEC2 struct{}

// Reread reads the object, and the objects that depend on it, past the cache.
type Reread struct{}

// ReadPods reads the pods of nodes some of which are terminated next, and whether evicted pods run again.
type ReadPods struct{ Nodes []string }

// AskLeader checks whether a pod of Karpenter's controller holds its lease.
type AskLeader struct{}

// Note adds to the removal's record, and creates it if there is none.
type Note struct {
	// Fresh are provider IDs to add.
	Fresh []string
	// Seen are instances as EC2 reported them, to add or update.
	Seen []Instance
	// Workloads are those whose pods are about to be evicted, to add.
	Workloads []Workload
	// Budgets are the pool's disruption budgets, which are about to be overwritten, to add.
	Budgets []any
}

// Forget drops the removal's record.
type Forget struct{}

// StopGrowth stops the pool from launching nodes: the cpu limit becomes 0.
type StopGrowth struct{}

// RestoreGrowth restores the pool's cpu limit or replicas from before its growth was stopped, and makes its nodes match
// its template again.
type RestoreGrowth struct {
	// Paced reports whether the pool's own disruption budgets are restored only later: Karpenter still considers nodes
	// drifted, and would replace those at the pace of these budgets.
	Paced bool
}

// Replace lets Karpenter replace nodes of the pool: it first launches capacity for their pods in another pool, and then
// terminates them.
type Replace struct {
	// Nodes is how many it may replace at a time; if 0, it starts no more replacements.
	Nodes int
}

// ScaleTo lowers a static pool's replicas; Karpenter terminates the excess nodes.
type ScaleTo struct{ Replicas int }

// DeleteNodeClaim deletes one NodeClaim.
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

// Reverted is not an action to carry out: it reports that a commit has reverted a removal that an earlier commit had
// started.
type Reverted struct {
	// Commit is the one that removed the entry from Git.
	Commit string
	// Ended is how many of NodeClaims were terminated by then.
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

// Settles is how long to wait before checking again whether Karpenter still considers nodes drifted.
const Settles = 2 * time.Second

// Restore restores what plumbline itself has changed on pools that are in Git and cannot be written yet. Pools whose
// nodes Karpenter has replaced get their disruption budgets back last, once Karpenter no longer considers nodes drifted
// only because of the removal. Restore returns when to continue; zero if everything is restored.
func Restore(
	ctx context.Context, w World, sync *v1alpha1.NodeSync, now time.Time, pools []*unstructured.Unstructured, braked map[string]bool,
) (again time.Time, err error) {
	if len(Restores(pools, nil, braked)) == 0 {
		return again, nil
	}
	d := newDrive(w, Pass{Now: now, Sync: sync})
	if d.records, err = loadRecords(ctx, w.Home, sync); err != nil {
		return again, err
	}
	whole := pools[:0:0]
	var failures []error // a policy may deny the write of one pool
	for _, pool := range pools {
		drifts, err := d.unreplace(ctx, pool)
		switch {
		case err != nil:
			failures = append(failures, err)
		case drifts:
			d.wakeAt(now.Add(Settles))
		default:
			whole = append(whole, pool)
		}
	}
	for _, restore := range Restores(whole, d.records.growth(sync), braked) {
		restored, err := w.release(ctx, restore)
		switch {
		case err != nil:
			failures = append(failures, err)
		case !restored:
			d.wakeAt(now.Add(finding.Soon))
		}
	}
	return d.result.Again, errors.Join(failures...)
}

// unreplace makes the nodes of a pool match its template again, and reports whether Karpenter may still consider some
// drifted.
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

// Revoke stops Karpenter from starting to replace more nodes of pools that are being removed, because nothing
// supervises them for a while. It reads past the cache, and does not overwrite concurrent writes of other clients.
// Replacements that Karpenter has started continue. Growth stays stopped and the label stays: the newest applied commit
// removes these pools, whatever a refused one wants, and if the nodes matched and drifted again, those that were launched
// in between would be replaced for nothing.
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
	if it.see(pool, d.Now); pool.GetUID() != r.UID || !it.seen.alive() || !it.seen.isGranted() {
		return nil
	}
	if d.records == nil {
		if d.records, err = loadRecords(ctx, d.Home, d.Sync); err != nil {
			return err
		}
	}
	return d.restrainSeen(ctx, it, Replace{})
}
