package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Client is the part of the API server's client that Apply needs.
type Client interface {
	Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error
}

// Options are the parameters of Apply.
type Options struct {
	// Uncached is read before an object is created.
	Uncached Reader
	// Arrivals is shared by all Applies of the process.
	Arrivals *Arrivals
	// Owner is written on each object.
	Owner plan.Owner
	// Concurrency is the number of objects that are written at a time.
	Concurrency int
	// StillLeader returns an error if this process may no longer write. It is called before each write.
	StillLeader func(context.Context) error
}

// Apply writes the Changes whose Action writes, and skips the others.
func Apply(ctx context.Context, c Client, changes []plan.Change, options Options) Result {
	a := &applier{client: c, options: options, absent: map[render.Ref]bool{}}
	for _, kind := range render.Kinds() {
		a.stage(ctx, changes, kind)
	}
	return a.result()
}

// applier holds the state of one Apply.
type applier struct {
	client   Client
	options  Options
	outcomes []outcome
	// absent are the objects that could not be created.
	absent map[render.Ref]bool
	// existing are the existing objects of the stage, if they were listed all at once.
	existing existing
}

// outcome is the result of one Change.
type outcome struct {
	written *Written
	failure *Failure
}

// stage writes all objects of one kind, several at a time.
func (a *applier) stage(ctx context.Context, changes []plan.Change, kind render.Kind) {
	var mine []*plan.Change
	for i := range changes {
		if changes[i].Ref.Kind == kind.GVK.Kind && changes[i].Action.Writes() {
			mine = append(mine, &changes[i])
		}
	}
	outcomes := make([]outcome, len(mine))
	begun := a.begin(mine)
	a.existing = a.listExisting(ctx, kind, begun)
	// No attempt returns an error: its result is in outcomes.
	_ = workers.Each(a.options.Concurrency, len(mine), func(i int) error {
		change := mine[i]
		switch {
		case change.Live == nil && !begun[change.Ref]:
			outcomes[i] = failed(change, &StaleError{Ref: change.Ref, Err: errBeingCreated})
			return nil
		case change.Live == nil:
			defer a.options.Arrivals.end(change.Ref)
		}
		outcomes[i] = a.attempt(ctx, change)
		return nil
	})
	for _, o := range outcomes {
		if o.failure != nil && !o.failure.existed {
			a.absent[o.failure.Ref] = true
		}
	}
	a.outcomes = append(a.outcomes, outcomes...)
}

// attempt writes one object, unless the class that it references could not be created.
func (a *applier) attempt(ctx context.Context, change *plan.Change) outcome {
	if class, ok := render.Reference(change.Ref, change.Object.Desired); ok && a.absent[class] {
		return failed(change, &WaitingError{Ref: change.Ref, For: class})
	}
	written, err := a.write(ctx, change)
	if err != nil {
		return failed(change, err)
	}
	return outcome{written: written}
}

func failed(change *plan.Change, err error) outcome {
	there := change.Live != nil || errors.As(err, new(*MutatedError))
	return outcome{failure: &Failure{Ref: change.Ref, Err: err, existed: there}}
}

// mayWrite is called before each write.
func (a *applier) mayWrite(ctx context.Context, ref render.Ref) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	if a.options.StillLeader == nil {
		return nil
	}
	if err := a.options.StillLeader(ctx); err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	return nil
}

// Reader reads from the API server, without a cache.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error
	List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error
}

// Arrivals are the objects that are currently being created. All Applies of a process share one: for the API server two
// NodeSyncs are one field manager, so the apply of the second would take the object of the first without a conflict.
// The zero value is ready for use.
type Arrivals struct {
	mu       sync.Mutex
	creating map[render.Ref]bool
}

// begin reports whether no other Apply is creating the object.
func (a *Arrivals) begin(ref render.Ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.creating[ref] {
		return false
	}
	if a.creating == nil {
		a.creating = map[render.Ref]bool{}
	}
	a.creating[ref] = true
	return true
}

func (a *Arrivals) end(ref render.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.creating, ref)
}

var (
	errBeingCreated = errors.New("another NodeSync is creating it")
	errExists       = errors.New("it exists now")
)

// begin marks the arrivals of a stage as being created, except those that another Apply is creating. It runs before
// plumbline checks which objects exist: what appears after that check is ours.
func (a *applier) begin(changes []*plan.Change) map[render.Ref]bool {
	begun := map[render.Ref]bool{}
	for _, change := range changes {
		if change.Live == nil && a.options.Arrivals.begin(change.Ref) {
			begun[change.Ref] = true
		}
	}
	return begun
}

// existing are the names that are in use; nil if they were not listed.
type existing map[string]bool

// manyObjects is the number of arrivals from which one LIST costs less than a GET for each.
const manyObjects = 16

// listExisting lists once which names of a kind are in use. If that fails, the GET for each object reports the error.
func (a *applier) listExisting(ctx context.Context, kind render.Kind, begun map[render.Ref]bool) existing {
	if len(begun) < manyObjects {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind + "List"))
	if err := a.options.Uncached.List(ctx, list); err != nil {
		return nil
	}
	taken := make(existing, len(list.Items))
	for i := range list.Items {
		taken[render.RefTo(kind.GVK.Kind, &list.Items[i]).Name] = true
	}
	return taken
}

// checkAbsent returns an error if an object of the name exists: the data of the Plan may be old, and server-side apply
// has no such precondition.
func (a *applier) checkAbsent(ctx context.Context, change *plan.Change) error {
	if a.existing != nil {
		if a.existing[change.Ref.Name] {
			return &StaleError{Ref: change.Ref, Err: errExists}
		}
		return nil
	}
	live := named(change.Object.Desired)
	switch err := a.options.Uncached.Get(ctx, client.ObjectKeyFromObject(live), live); {
	case err == nil:
		return &StaleError{Ref: change.Ref, Err: errExists}
	case !apierrors.IsNotFound(err):
		return classify(change.Ref, err)
	}
	return nil
}

// Result is the result of the Changes, classes first.
type Result struct {
	Written []Written
	Failed  []Failure
}

// Written is one object that was written.
type Written struct {
	Ref    render.Ref
	Action plan.Action
	// Requests is the number of write requests.
	Requests int
	// Object is the API server's response, with its UID and resourceVersion.
	Object *unstructured.Unstructured
}

// Failure is one object that was not written, or not completely.
type Failure struct {
	Ref render.Ref
	// Err is one of this package's errors, or why nothing was requested.
	Err error

	existed bool
}

// Err joins the errors of all failures; it is nil if there are none.
func (r Result) Err() error {
	errs := make([]error, 0, len(r.Failed))
	for _, f := range r.Failed {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}

func (a *applier) result() Result {
	var result Result
	for _, o := range a.outcomes {
		if o.written != nil {
			result.Written = append(result.Written, *o.written)
		}
		if o.failure != nil {
			result.Failed = append(result.Failed, *o.failure)
		}
	}
	return result
}

// write changes one object to match Git.
func (a *applier) write(ctx context.Context, change *plan.Change) (*Written, error) {
	written := &Written{Ref: change.Ref, Action: change.Action}
	if change.Live == nil {
		if err := a.checkAbsent(ctx, change); err != nil {
			return nil, err
		}
	}
	object, err := a.desired(change)
	if err != nil {
		return nil, err
	}
	if change.Takeover && change.Live != nil {
		moved, err := a.claimFields(ctx, change)
		if err != nil {
			return nil, err
		}
		if moved != nil {
			written.Requests++
			if object.GetResourceVersion() != "" {
				object.SetResourceVersion(moved.GetResourceVersion())
			}
		}
	}
	answer, err := a.apply(ctx, change.Ref, object, v1alpha1.FieldManager, change.Force)
	if err != nil {
		return nil, err
	}
	written.Requests++
	for _, manager := range leaving(change) {
		if !appliedBy(answer, manager) {
			continue
		}
		if answer, err = a.apply(ctx, change.Ref, released(answer, change.Settles, manager), manager, false); err != nil {
			return nil, err
		}
		written.Requests++
	}
	if fields := plan.Changed(object, answer, change.Object.Ignored); len(fields) > 0 {
		return nil, &MutatedError{Ref: change.Ref, Fields: fields, Object: answer}
	}
	written.Object = answer
	return written, nil
}

// desired returns the object that the Plan compared. The UID prevents that an object which was deleted in between is
// recreated with data for the old one. The resourceVersion prevents that an adopted object is taken from another
// NodeSync that adopts it in between, and that a field which others may change is overwritten.
func (a *applier) desired(change *plan.Change) (*unstructured.Unstructured, error) {
	object := plan.Desired(change.Object, a.options.Owner)
	if change.Braked || change.Settles != nil {
		object = plan.WithoutBudgets(object)
	}
	if change.Live == nil {
		return object, nil
	}
	object.SetUID(change.Live.GetUID())
	kept, err := change.LeaveIgnored(object)
	if err != nil {
		return nil, fmt.Errorf("omit the ignored fields of %s: %w", change.Ref, err)
	}
	if kept || change.Action == plan.Adopt {
		object.SetResourceVersion(change.Live.GetResourceVersion())
	}
	return object, nil
}

// leaving returns our managers that own nothing any more after a Change.
func leaving(change *plan.Change) []string {
	switch {
	case change.Action != plan.TakeBack:
		return nil
	case change.Braked:
		return []string{v1alpha1.RemovalFieldManager}
	}
	return []string{v1alpha1.RemovalFieldManager, v1alpha1.BrakeFieldManager}
}

// released returns an object without fields: applied by the manager of a removal or a brake, it removes what only that
// manager had set. The disruption budgets of a pool that settles still belong to the removal.
func released(live *unstructured.Unstructured, settles []any, manager string) *unstructured.Unstructured {
	object := named(live)
	object.SetUID(live.GetUID())
	if settles != nil && manager == v1alpha1.RemovalFieldManager {
		object.Object["spec"] = map[string]any{"disruption": map[string]any{"budgets": settles}}
	}
	return object
}

func named(like *unstructured.Unstructured) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(like.GroupVersionKind())
	object.SetName(like.GetName())
	if namespace := like.GetNamespace(); namespace != "" {
		object.SetNamespace(namespace)
	}
	return object
}

func appliedBy(object *unstructured.Unstructured, manager string) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// apply sends one server-side apply. A terminating object in the response is an error: the API server accepts such an
// apply, but the object is deleted anyway.
func (a *applier) apply(
	ctx context.Context, ref render.Ref, object *unstructured.Unstructured, manager string, force bool,
) (*unstructured.Unstructured, error) {
	if err := a.mayWrite(ctx, ref); err != nil {
		return nil, err
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ref, err)
	}
	answer := named(object)
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	if err := a.client.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body), options...); err != nil {
		return nil, classify(ref, err)
	}
	if answer.GetDeletionTimestamp() != nil {
		return nil, &TerminatingError{Ref: ref}
	}
	return answer, nil
}
