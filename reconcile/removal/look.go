package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// manyObjects is the minimum number of objects of a kind for which one LIST replaces GETs. A LIST also returns the
	// other objects: for a thousand NodePools it takes as much processor time as three hundred GETs.
	manyObjects = 256
	// getsAtOnce is how many GETs run concurrently.
	getsAtOnce = 8
	// namesAtOnce is how many pools one LIST of NodeClaims selects: the names are in its URL, and proxies accept no
	// more than 8 kB.
	namesAtOnce = 100
)

// look is the state of everything that some removals need, read once with one reader. Each object is read before its
// dependents, so that none created in between is missed.
type look struct {
	reader  client.Reader
	objects map[render.Ref]*unstructured.Unstructured
	// claims are the NodeClaims by the pool in their label.
	claims map[string][]*karpv1.NodeClaim
	// pools and nodes are the NodePools and NodeClaims that reference a class, of any owner, by its name.
	pools, nodes map[string][]string
}

func lookAt(ctx context.Context, reader client.Reader, items []*item) (*look, error) {
	l := &look{
		reader: reader, objects: map[render.Ref]*unstructured.Unstructured{}, claims: map[string][]*karpv1.NodeClaim{},
		pools: map[string][]string{}, nodes: map[string][]string{},
	}
	names := map[string][]string{}
	for _, it := range items {
		if _, known := render.KindOf(it.before.Kind); !known {
			return nil, fmt.Errorf("observe the removal of %s/%s: unsupported kind", it.before.Kind, it.before.Name)
		}
		names[it.before.Kind] = append(names[it.before.Kind], it.before.Name)
	}
	for _, kind := range render.Kinds() {
		if err := l.readObjects(ctx, kind, names[kind.GVK.Kind]); err != nil {
			return nil, err
		}
	}
	// A name that is not a valid label value cannot be the label of a NodeClaim: Karpenter cannot create one.
	labelled := slices.DeleteFunc(names[render.NodePool], func(name string) bool { return len(validation.IsValidLabelValue(name)) > 0 })
	for some := range slices.Chunk(labelled, namesAtOnce) {
		if err := l.readClaims(ctx, some); err != nil {
			return nil, err
		}
	}
	if class, _ := render.KindOf(render.EC2NodeClass); len(names[render.EC2NodeClass]) > 0 {
		return l, l.readReferences(ctx, class)
	}
	return l, nil
}

// readObjects reads the objects of one kind by name, so it finds one that has lost plumbline's label, too.
func (l *look) readObjects(ctx context.Context, kind render.Kind, names []string) error {
	if len(names) >= manyObjects {
		list, err := l.list(ctx, kind)
		for i := range list {
			l.objects[render.RefTo(kind.GVK.Kind, &list[i])] = &list[i]
		}
		return err
	}
	found := make([]*unstructured.Unstructured, len(names))
	err := workers.Each(getsAtOnce, len(names), func(i int) error {
		ref := render.Ref{Kind: kind.GVK.Kind, Name: names[i]}
		object := ref.Empty()
		switch err := l.reader.Get(ctx, ref.Key(), object); {
		case absent(err):
		case err != nil:
			return fmt.Errorf("read %s: %w", ref, err)
		default:
			found[i] = object
		}
		return nil
	})
	for i, name := range names {
		if found[i] != nil {
			l.objects[render.Ref{Kind: kind.GVK.Kind, Name: name}] = found[i]
		}
	}
	return err
}

// list reads all objects of a kind. They may belong to a cache, so callers must not change them.
func (l *look) list(ctx context.Context, kind render.Kind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := l.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return nil, fmt.Errorf("read the %ss: %w", kind.GVK.Kind, err)
	}
	return list.Items, nil
}

// absent reports whether the object does not exist, or its kind is not served: when a CRD is deleted, so are all
// objects of the kind.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// readClaims reads the NodeClaims of some pools by label.
func (l *look) readClaims(ctx context.Context, pools []string) error {
	labelled, err := labels.NewRequirement(karpv1.NodePoolLabelKey, selection.In, pools)
	if err != nil {
		return fmt.Errorf("select the NodeClaims of NodePools %v: %w", pools, err)
	}
	list := &karpv1.NodeClaimList{}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*labelled)}
	if err := l.reader.List(ctx, list, selector, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return fmt.Errorf("read the NodeClaims of NodePools %v: %w", pools, err)
	}
	for i := range list.Items {
		pool := list.Items[i].Labels[karpv1.NodePoolLabelKey]
		l.claims[pool] = append(l.claims[pool], &list.Items[i])
	}
	return nil
}

// readReferences reads the objects that reference a class, of any owner.
func (l *look) readReferences(ctx context.Context, class render.Kind) error {
	for _, kind := range render.Kinds() {
		if kind.RefersTo != class.GVK.Kind {
			continue
		}
		list, err := l.list(ctx, kind)
		if err != nil {
			return err
		}
		for i := range list {
			ref := render.RefTo(kind.GVK.Kind, &list[i])
			if named, ok := render.Reference(ref, &list[i]); ok {
				l.pools[named.Name] = append(l.pools[named.Name], ref.String())
			}
		}
	}
	claims := &karpv1.NodeClaimList{}
	if err := l.reader.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
		return fmt.Errorf("read the NodeClaims that reference an %s: %w", class.GVK.Kind, err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Kind == class.GVK.Kind && ref.Group == class.GVK.Group {
			l.nodes[ref.Name] = append(l.nodes[ref.Name], "NodeClaim/"+claims.Items[i].Name)
		}
	}
	return nil
}

// referencing returns the objects that reference a class, NodePools first.
func (l *look) referencing(class string) []string {
	return append(slices.Sorted(slices.Values(l.pools[class])), slices.Sorted(slices.Values(l.nodes[class]))...)
}

// Seen is the last state that EC2 reported for an instance, as EC2 writes it; empty if EC2 never returned the instance.
type Seen string

// seenOnce is an instance that EC2 has returned in an unrecorded state: older records contain no state.
const seenOnce Seen = "seen"

// The states that an instance never leaves for an earlier one (EC2 user guide, "Amazon EC2 instance state changes"). A
// stopping or stopped instance can be started again.
const (
	seenShuttingDown Seen = "shutting-down"
	seenTerminated   Seen = "terminated"
)

// isTerminating reports whether EC2 has reported the instance as shutting down or terminated.
func (s Seen) isTerminating() bool { return s == seenShuttingDown || s == seenTerminated }

// rank orders what is known of an instance. It never decreases: a stale response does not undo that the instance was
// seen shutting down.
func (s Seen) rank() int {
	switch {
	case s == "":
		return 0
	case s.isTerminating():
		return 2
	}
	return 1
}

// UnmarshalJSON reads a state, or the boolean of older records: whether EC2 has returned the instance.
func (s *Seen) UnmarshalJSON(data []byte) error {
	var shown bool
	if err := json.Unmarshal(data, &shown); err == nil {
		*s = ""
		if shown {
			*s = seenOnce
		}
		return nil
	}
	var state string
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("read the state of an instance: %w", err)
	}
	*s = Seen(state)
	return nil
}

// Absence is how long EC2's responses have consistently not contained an instance.
type Absence struct {
	// Since is the time of the first response without it.
	Since time.Time
	// Answers is the number of such responses.
	Answers int
}

// absenceProof is how long EC2's responses may not contain an instance that exists. They are eventually consistent,
// usually within seconds; Karpenter itself allows for minutes. A terminated instance is listed for about an hour, so
// one that is absent for longer than this was terminated while EC2 was not queried.
const absenceProof = 10 * time.Minute

// settledAnswers is how many such responses are needed as well, because clocks jump.
const settledAnswers = 10

// proves reports whether an absence proves that an instance is terminated, even if it was never seen shutting down.
func (a Absence) proves(now time.Time) bool {
	return a.Answers >= settledAnswers && now.Sub(a.Since) >= absenceProof
}

// absences counts one more response, which contains the instances in shown: those that are noted, were not seen
// shutting down and are not in shown are absent. For an instance in shown, counting starts again at zero. A time in the
// future, from before the clock was set back, becomes now.
func absences(before map[string]Absence, noted map[string]Seen, shown map[string]bool, now time.Time) map[string]Absence {
	after := map[string]Absence{}
	for id, seen := range noted {
		if shown[id] || seen.isTerminating() {
			continue
		}
		a := before[id]
		if a.Answers == 0 || a.Since.After(now) {
			a.Since = now
		}
		a.Answers++
		after[id] = a
	}
	return after
}

// leaving handles an object that is gone, or that another client has deleted.
func leaving(_ v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	switch {
	case !o.Exists:
		return gone(o), false
	case o.Terminating:
		return o.terminating(), false
	}
	return step{}, true
}

// referenced keeps a class while any object references it: if it were deleted in use, it would keep terminating and
// stop the voluntary disruption of its pools, and the deletion cannot be reverted.
func referenced(_ v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	if len(o.ReferencedBy) == 0 {
		return step{}, true
	}
	s := step{
		phase: v1alpha1.RemovalDraining, reason: ReasonReferenced,
		message: "still referenced by " + finding.First(o.ReferencedBy), remaining: len(o.ReferencedBy),
	}
	switch {
	case o.Unremoved != "":
		s.message = o.Unremoved // the other objects are removed anyway, or reported next
	case o.Waits != "":
		s.reason = o.Waits // it is no more stalled than the pool
	}
	return s, false
}

// waits returns the reason for which a removal of one of these NodePools waits for its time, its turn or a person;
// empty if none does.
func (d *drive) waits(referencedBy []string) string {
	for _, it := range d.items {
		switch r := it.before; {
		case !slices.Contains(referencedBy, r.Kind+"/"+r.Name):
		case r.Phase == v1alpha1.RemovalHeld:
			return ReasonNodePoolHeld
		case waitsByReason(r.Reason):
			return r.Reason
		}
	}
	return ""
}

// awaitLeader waits until a pod of the controller, whose finalizer the class has, leads: the deletion cannot be
// reverted, and a Deployment reports late that its pods are gone.
func awaitLeader(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	s := step{phase: limitPhase(r.Phase, v1alpha1.RemovalDraining), reason: ReasonDeleting, message: ownsNothing, remaining: 0}
	switch {
	case !o.Fresh:
		s.actions = []Action{Reread{}}
	case o.Leader == nil:
		s.actions = []Action{AskLeader{}}
	case !o.Leader.Open:
		s.reason, s.message = ReasonControllerNotReady, o.Leader.Message
	default:
		return step{}, true
	}
	return s, false
}

// classGates wait for the controller, whose finalizer a class has, for EC2, and for arrivals, which may include a pool
// that references the class.
func classGates(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	return closed(limitPhase(r.Phase, v1alpha1.RemovalDraining), 0, o.controller(), o.cloud(), o.arrivals())
}

// deletionGates wait for the turn, the grace period and the window of an object that owns no nodes, and for arrivals,
// which may include its replacement.
func deletionGates(r v1alpha1.Removal, o Observation, _ time.Time) (step, bool) {
	return closed(limitPhase(r.Phase, v1alpha1.RemovalPacing), 0, o.queue(), o.arrivals(), o.grace(), o.window())
}

// relabelledClaimSeparator separates the text about NodeClaims from the text about instances.
const relabelledClaimSeparator = " to terminate its node; "

// reportRelabelledClaims adds to the messages of removals that wait for instances which instances nobody terminates:
// those of NodeClaims whose pool label was changed by hand. Karpenter and plumbline use that label to find the pool.
func (d *drive) reportRelabelledClaims(ctx context.Context) error {
	var all *karpv1.NodeClaimList
	for _, it := range d.open() {
		if _, rest, found := strings.Cut(it.after.Message, relabelledClaimSeparator); found {
			it.after.Message = rest
		}
		if it.after.Reason != ReasonInstancesLeaving {
			continue
		}
		if all == nil {
			all = &karpv1.NodeClaimList{}
			if err := d.Cache.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil && !absent(err) {
				return fmt.Errorf("find the NodeClaims of instances that keep running: %w", err)
			}
		}
		if stray := it.relabelledClaim(all.Items); stray != nil {
			it.after.Message = fmt.Sprintf("NodeClaim/%s (%s) has its label %s changed by another client to %q: set it back to %s, or delete the NodeClaim%s",
				stray.Name, cloud.InstanceID(stray.Status.ProviderID), karpv1.NodePoolLabelKey, stray.Labels[karpv1.NodePoolLabelKey], it.before.Name, relabelledClaimSeparator) + it.after.Message
		}
	}
	return nil
}

// relabelledClaim returns the first NodeClaim by name that has an instance of the removal, or was created by its pool,
// and has another pool's label; nil if there is none.
func (it *item) relabelledClaim(claims []karpv1.NodeClaim) *karpv1.NodeClaim {
	var found *karpv1.NodeClaim
	for i := range claims {
		c := &claims[i]
		owner, _ := poolOf(c)
		_, noted := it.seen.Noted[c.Status.ProviderID]
		mine := owner == it.before.UID || noted && c.Status.ProviderID != ""
		relabelled := c.Labels[karpv1.NodePoolLabelKey] != it.before.Name // otherwise the pool was recreated under its name
		known := slices.ContainsFunc(it.seen.NodeClaims, func(k Claim) bool { return k.UID == c.UID })
		if mine && relabelled && !known && c.DeletionTimestamp == nil && (found == nil || c.Name < found.Name) {
			found = c
		}
	}
	return found
}
