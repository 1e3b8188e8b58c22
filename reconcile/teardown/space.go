package teardown

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// A ConfigMap may hold 1 MiB (MaxSecretSize in k8s.io/kubernetes pkg/apis/core/validation).
const (
	// recordMost is how many bytes the record of a NodeSync's removals may have.
	recordMost = 1000 << 10
	// budgetsMost is up to how many bytes it takes disruption budgets in. The rest is for instances and workloads, which
	// the removals that have begun come to.
	budgetsMost = 768 << 10
	// budgetsEach is how many bytes the disruption budgets of one pool may have. Where it has more, its nodes end without
	// being replaced, as where it has too many.
	budgetsEach = 64 << 10
)

// space is what room the record has for disruption budgets.
type space struct {
	left int
	// holder is a removal whose budgets are in the record; empty where none has any there.
	holder string
}

// space counts what is stored.
func (r *records) space() space {
	s := space{left: budgetsMost}
	if r.stored != nil {
		for _, data := range r.stored.Data {
			s.left -= len(data)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(r.entries)) {
		if entry := r.entries[uid]; entry.Growth.Budgets != nil {
			s.holder = entry.Kind + "/" + entry.Name
			break
		}
	}
	return s
}

// lacking names a removal that has the room which the budgets of another one need; empty where there is enough. One
// removal always has it, so that they go on one by one at least.
func (s *space) lacking(it *item) string {
	if it.seen.Budgets == nil || it.bytes <= s.left {
		return ""
	}
	return s.holder
}

// take counts what a removal is about to note. Where it waits those after it do, too: they would take the room that it
// waits for.
func (s *space) take(it *item, next v1alpha1.Removal) {
	if next.Reason == ReasonRecordFull {
		s.left = 0
	}
	for _, a := range it.actions {
		if note, is := a.(Note); is && note.Budgets != nil {
			s.left -= it.bytes
			if s.holder == "" {
				s.holder = it.before.Kind + "/" + it.before.Name
			}
		}
	}
}

// sizeOfBudgets is how many bytes budgets have in the record.
func sizeOfBudgets(budgets []any) int {
	data, err := json.Marshal(budgets)
	if err != nil {
		return math.MaxInt32 // it cannot be recorded
	}
	return len(data)
}

// encode returns the entries as they are stored. Where they would be too large, each keeps only the newer half of its
// workloads, and so on: a removal waits for the pods of fewer workloads then, and goes on.
func (r *records) encode() (map[string]string, error) {
	for most := maxWorkloads; ; most /= 2 {
		data, size := map[string]string{}, 0
		for uid, entry := range r.entries {
			entry.Workloads = entry.Workloads[max(0, len(entry.Workloads)-most):]
			encoded, err := json.Marshal(entry)
			if err != nil {
				return nil, fmt.Errorf("encode the record of %s/%s: %w", entry.Kind, entry.Name, err)
			}
			data[string(uid)] = string(encoded)
			size += len(encoded)
		}
		if size <= recordMost || most == 0 {
			return data, nil
		}
	}
}
