package removal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// explored is one reconcile in a world: it changes world, and before is the world before it.
type explored struct {
	mu     sync.Mutex
	shelf  *shelf
	before world
	world  world
	// meanwhile happens just before the first write that terminates or stops anything.
	meanwhile func(*world)
	// asks is how often the lease was checked.
	asks int
	// effects are the writes of the reconcile, in order; from the index acts on, they are concurrent.
	effects []effect
	acts    int
	// asked reports whether EC2 was queried. held are the entries that the guard holds, and lets those that it allows
	// to remove. holds are the objects of the former, because an older object may have the name.
	asked      bool
	held, lets [mostPools + 1]bool
	holds      map[types.UID]bool
	// ends is how many NodeClaims it has terminated.
	ends int
	// broken is the invariant that the reconcile has violated; empty if there is none.
	broken string
}

// effect is one write.
type effect struct {
	what string
	do   func(*world)
}

func (x *explored) breaks(format string, args ...any) {
	if x.broken == "" {
		x.broken = fmt.Sprintf(format, args...)
	}
}

// wrote applies a write to the world. ends reports whether it is one of those that terminate or stop something, which
// are concurrent.
func (x *explored) wrote(ends bool, what string, do func(*world)) {
	if !ends {
		if x.acts >= 0 {
			x.breaks("%s comes after what it has to come before", what)
		}
	} else if x.acts < 0 {
		x.acts = len(x.effects)
	}
	x.effects = append(x.effects, effect{what, do})
	do(&x.world)
}

// stillLeader is called before each write. What happens meanwhile happens before the first one that terminates or stops
// anything.
func (x *explored) stillLeader(context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asks++
	if x.meanwhile != nil {
		x.meanwhile(&x.world)
		x.meanwhile = nil
	}
	return nil
}

func conflict(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, name, errors.New("the object has been modified"))
}

// Create writes the record.
func (r reads) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeRecord(object)
}

// Update writes the record.
func (r reads) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeRecord(object)
}

func (r reads) writeRecord(object client.Object) error {
	stored, ok := object.(*corev1.ConfigMap)
	if !ok {
		r.breaks("a %T is written: a finalizer of another may be lost by that", object)
		return nil
	}
	data := maps.Clone(stored.Data)
	r.wrote(false, "the record is written", func(w *world) { w.record = data })
	return nil
}

// Patch writes a definition.
func (r reads) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	opts := (&client.PatchOptions{}).ApplyOptions(options)
	body, err := patch.Data(object)
	if err != nil {
		return err
	}
	answer, err := r.writePool(object, patch.Type(), body, opts.FieldManager, opts.Force != nil && *opts.Force, false)
	if into, ok := object.(*unstructured.Unstructured); ok && err == nil {
		*into = *answer
	}
	return err
}

// Apply is a removal's write to a NodePool.
func (r reads) Apply(_ context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	opts := (&client.ApplyOptions{}).ApplyOptions(options)
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON(body); err != nil {
		return err
	}
	answer, err := r.writePool(applied, types.ApplyPatchType, body, opts.FieldManager, opts.Force != nil && *opts.Force, true)
	if err != nil {
		return err
	}
	text, err := json.Marshal(answer.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, object)
}

func (r reads) writePool(object client.Object, kind types.PatchType, body []byte, manager string, force, act bool) (*unstructured.Unstructured, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := int(object.GetName()[0] - 'a')
	if object.GetObjectKind().GroupVersionKind().Kind != kindOf(p) || p == ownClass && act {
		r.breaks("%s/%s is written", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
		return nil, conflict(object.GetName())
	}
	generation := int(r.world.generations[p])
	if r.world.pools[p] == nowhere {
		generation++
	}
	number, err := r.shelf.write(r.world.pools[p], generation, object, kind, body, manager, force)
	if err != nil {
		return nil, err
	}
	if act {
		r.checked(objectName(p) + " is written")
	}
	r.mayWriteDrained(p, number, act)
	if act && r.givesOthers(p, number) {
		r.breaks("%s gets other limits back than it had", objectName(p))
	}
	if act && !r.shelf.forms[number].grows {
		r.mayStop(p)
	}
	if act {
		r.mayReplace(p, number)
	}
	r.wrote(act, fmt.Sprintf("%s of %s by %s", kind, objectName(p), manager), func(w *world) {
		if w.pools[p] == nowhere {
			w.generations[p]++
		}
		w.pools[p] = number
	})
	return r.shelf.forms[number].object.DeepCopy(), nil
}

// givesOthers reports whether a write restores a pool with limits other than its previous ones. A growing pool has a
// person's limits by then. Its disruption budgets are restored later, if Karpenter replaced its nodes.
func (r reads) givesOthers(p, number int) bool {
	before, after := r.world.pools[p], r.shelf.forms[number]
	grew := before != nowhere && r.shelf.forms[before].grows
	seen := r.before.cachedPools()[p]
	later := seen != nowhere && r.shelf.forms[seen].replaces && !after.replaces
	asBefore := after.limits && (after.budgets || later)
	return after.grows && !grew && !asBefore && !r.world.lost
}

// Delete deletes a NodeClaim, a pool that owns nothing any more, or the record.
func (r reads) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	if only == nil || only.UID == nil || only.ResourceVersion == nil {
		r.breaks("%T %s is deleted without preconditions", object, object.GetName())
		return nil
	}
	switch object.(type) {
	case *corev1.ConfigMap:
		r.wrote(false, "the record is deleted", func(w *world) { w.record = map[string]string{} })
		return nil
	case *karpv1.NodeClaim:
		for n, s := range r.world.slots[:r.world.nodes()] {
			if nodeName(n) != object.GetName() || !there(s.claim) {
				continue
			}
			if s.seen().version() != *only.ResourceVersion {
				return conflict(object.GetName())
			}
			r.mayEnd(n)
			r.wrote(true, "NodeClaim/"+nodeName(n)+" is deleted", func(w *world) {
				w.slots[n].deleting, w.slots[n].ended, w.slots[n].noted = true, true, s.claim == named && r.awaitsPods() && w.record[string(uidOf(poolName(w.of[n]), int(s.generation)))] != ""
			})
			return nil
		}
		return absentObject(object.GetName())
	}
	p := int(object.GetName()[0] - 'a')
	if r.world.pools[p] == nowhere {
		return absentObject(object.GetName())
	}
	live := r.shelf.forms[r.world.pools[p]].object
	if live.GetUID() != *only.UID || live.GetResourceVersion() != *only.ResourceVersion {
		return conflict(object.GetName())
	}
	r.mayDelete(p)
	r.wrote(true, objectName(p)+" is deleted", func(w *world) { w.pools[p] = nowhere })
	return nil
}
