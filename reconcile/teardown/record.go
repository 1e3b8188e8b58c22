package teardown

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

// RecordName is the name of the ConfigMap that holds the records of a NodeSync's
// open removals, and of what earlier ones have left, a key for each object's UID. It exists while
// there are any.
func RecordName(nodeSync string) string { return v1alpha1.ObjectName("plumbline-", nodeSync) }

// holds is what the ConfigMap is for.
const holds = "the record of removals"

// record is what has to outlive a crash of one removal.
type record struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Instances are the provider IDs ever seen, with the last state in which EC2
	// has shown each, as far as it matters: shown, and shown ending.
	Instances map[string]Seen `json:"instances,omitempty"`
	// Growth is what stopping growth has overwritten.
	Growth Growth `json:"growth"`
	// NodeClaims is how many there were when the removal was recorded.
	NodeClaims int `json:"nodeClaims,omitempty"`
	// Workloads are those whose pods were evicted, the newest last.
	Workloads []Workload `json:"workloads,omitempty"`
	// Left are the pods that the removal has left without a node. The rest of the record has
	// gone with it.
	Left []LeftPod `json:"left,omitempty"`
	// Leaving are the NodeClaims that were ending when the removal was taken back. The rest of the
	// record has gone with it, but for Workloads, as long as one of them is there.
	Leaving []types.UID `json:"leaving,omitempty"`
}

// over says that the removal is, and the record only about what it has left.
func (r record) over() bool { return r.Left != nil || r.Leaving != nil }

// Growth is how far a pool may grow by itself.
type Growth struct {
	// CPU is spec.limits.cpu.
	CPU any `json:"cpu,omitempty"`
	// Replicas is spec.replicas of a static pool.
	Replicas *int64 `json:"replicas,omitempty"`
	// Budgets is spec.disruption.budgets; nil until Karpenter is about to replace nodes, which is what overwrites them.
	Budgets []any `json:"budgets,omitempty"`
}

// status is what the status has of it beside the record: the API server deletes the record at once where the
// NodeSync is deleted in the foreground.
func (g Growth) status() *v1alpha1.RemovalGrowth {
	if g.CPU == nil && g.Replicas == nil {
		return nil
	}
	s := &v1alpha1.RemovalGrowth{Replicas: g.Replicas}
	if g.CPU != nil {
		s.CPU = fmt.Sprint(g.CPU)
	}
	return s
}

// or is what the status has, where it is not known otherwise.
func (g Growth) or(s *v1alpha1.RemovalGrowth) Growth {
	if s == nil || g.CPU != nil || g.Replicas != nil {
		return g
	}
	g.Replicas = s.Replicas
	if s.CPU != "" {
		g.CPU = s.CPU
	}
	return g
}

// records are those of one NodeSync, as read, with what is to be written.
type records struct {
	stored  *corev1.ConfigMap
	entries map[types.UID]record
	changed bool
}

// loadRecords reads a NodeSync's records. None is no error; a ConfigMap of that
// name that is not plumbline's is.
func loadRecords(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (*records, error) {
	r := &records{entries: map[types.UID]record{}}
	stored := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: sync.Namespace, Name: RecordName(sync.Name)}
	err := reader.Get(ctx, name, stored)
	switch {
	case apierrors.IsNotFound(err):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("read the record of removals in ConfigMap %s: %w", name, err)
	case !metav1.IsControlledBy(stored, sync):
		return nil, configmap.InTheWay(stored, holds, sync.Name)
	}
	r.stored = stored
	for uid, data := range stored.Data {
		var entry record
		if err := json.Unmarshal([]byte(data), &entry); err != nil {
			return nil, configmap.Unreadable(stored, holds, fmt.Errorf("key %s: %w", uid, err), "the instances and limits of removals that are open")
		}
		r.entries[types.UID(uid)] = entry
	}
	return r, nil
}

// note adds to a removal's entry, and says whether the removal has waited for
// that. It never takes anything out.
func (r *records) note(it *item, n Note) bool {
	entry, exists := r.entries[it.before.UID]
	if !exists {
		entry = record{
			Kind: it.before.Kind, Name: it.before.Name, Growth: it.growth.or(it.before.Growth),
			NodeClaims: len(it.seen.NodeClaims),
		}
	}
	instances := map[string]Seen{}
	maps.Copy(instances, entry.Instances)
	fresh, marked := false, false
	for _, id := range n.Fresh {
		if _, known := instances[id]; !known {
			instances[id], fresh = "", true
		}
	}
	for _, i := range n.Seen {
		if state := Seen(i.State); state.rank() > instances[i.ProviderID].rank() {
			instances[i.ProviderID], marked = state, true
		}
	}
	if exists && !fresh && !marked && len(n.Workloads) == 0 && n.Budgets == nil {
		return false
	}
	entry.Instances = instances
	if n.Budgets != nil {
		entry.Growth.Budgets = n.Budgets
	}
	entry.Workloads = append(slices.Clone(entry.Workloads), n.Workloads...)
	entry.Workloads = entry.Workloads[max(0, len(entry.Workloads)-maxWorkloads):]
	r.put(it.before.UID, entry)
	return fresh || !exists
}

// workloads are those of all removals.
func (r *records) workloads() []Workload {
	var all []Workload
	for _, uid := range slices.Sorted(maps.Keys(r.entries)) {
		all = append(all, r.entries[uid].Workloads...)
	}
	return all
}

func (r *records) put(uid types.UID, entry record) { r.entries[uid], r.changed = entry, true }

func (r *records) forget(uid types.UID) {
	if _, exists := r.entries[uid]; exists {
		delete(r.entries, uid)
		r.changed = true
	}
}

// save writes the records where they have changed, over just what was read.
func (r *records) save(ctx context.Context, writer client.Writer, sync *v1alpha1.NodeSync) error {
	if !r.changed {
		return nil
	}
	if len(r.entries) == 0 {
		return r.drop(ctx, writer)
	}
	target := configmap.New(sync, RecordName(sync.Name))
	if r.stored != nil {
		if err := configmap.Writable(r.stored, holds); err != nil {
			return err
		}
		target = r.stored.DeepCopy()
	}
	var err error
	if target.Data, err = r.encode(); err != nil {
		return err
	}
	if r.stored == nil {
		err = writer.Create(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = writer.Update(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write the record of removals in ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	r.stored, r.changed = target, false
	return nil
}

// drop deletes the ConfigMap, as it was read.
func (r *records) drop(ctx context.Context, writer client.Writer) error {
	if r.stored == nil {
		return nil
	}
	err := writer.Delete(ctx, r.stored, exactly(r.stored.UID, r.stored.ResourceVersion))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the record of removals in ConfigMap %s/%s: %w", r.stored.Namespace, r.stored.Name, err)
	}
	r.stored, r.changed = nil, false
	return nil
}

// exactly are the preconditions of a delete: this object, and as it was seen.
func exactly(uid types.UID, resourceVersion string) client.Preconditions {
	return client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion}
}
