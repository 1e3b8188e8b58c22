package recorder

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shelf is what was read and written last, so that who shows it asks no API server. It holds
// nothing unless it is opened.
type shelf struct {
	mu   sync.Mutex
	open bool
	by   map[owner]map[string]*corev1.ConfigMap
}

// Keep has what is recorded kept in memory, for Kept: some 600 kB for each NodeSync at most. It is
// called before Start.
func (r *Recorder) Keep() { r.kept.open = true }

// Kept is what is recorded of a NodeSync; nil where nothing is, or nothing is kept.
func (r *Recorder) Kept(name types.NamespacedName, uid types.UID) *Log {
	b := newBinder()
	r.kept.mu.Lock()
	for _, object := range r.kept.by[owner{NamespacedName: name, uid: uid}] {
		b.add(name.Name, object)
	}
	r.kept.mu.Unlock()
	return b.bound()[name.Name]
}

// put keeps a ConfigMap as it was read or written.
func (s *shelf) put(of owner, object *corev1.ConfigMap) {
	if !s.open {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[owner]map[string]*corev1.ConfigMap{}
	}
	if s.by[of] == nil {
		for other := range s.by {
			if other.NamespacedName == of.NamespacedName {
				delete(s.by, other) // one that had the name before
			}
		}
		s.by[of] = map[string]*corev1.ConfigMap{}
	}
	object.ManagedFields = nil
	s.by[of][object.Name] = object
}

// keepAll keeps what there is at the start.
func (r *Recorder) keepAll(of owner, object *corev1.ConfigMap) {
	if r.kept.open {
		r.kept.put(of, object.DeepCopy()) // not a part of the list, which would be kept whole for it
	}
}
