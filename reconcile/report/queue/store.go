package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

// holds is what the ConfigMap is for.
const holds = "the queue of commit statuses"

// dataKey is where the ledger stands in its ConfigMap.
const dataKey = "ledger.json"

// component is what the label says of a ledger's ConfigMap: by it all are found at the start.
const component = "commit-statuses"

// owner is the NodeSync that a ledger belongs to, and what it is about.
type owner struct {
	bookKey
	uid types.UID
}

// bookKey names a ledger.
type bookKey struct {
	types.NamespacedName
	subject Subject
}

func ownerOf(sync *v1alpha1.NodeSync, subject Subject) owner {
	return owner{bookKey: bookKey{client.ObjectKeyFromObject(sync), subject}, uid: sync.UID}
}

// objectName is that of the ledger's ConfigMap.
func (o owner) objectName() string { return o.subject.ObjectName(o.Name) }

// errOvertaken is a write over something that another client has changed.
var errOvertaken = errors.New("another client has changed it")

// store reads and writes the ledger of one NodeSync.
type store struct {
	reader client.Reader
	writer client.Writer
	owner  owner
	// object is the ConfigMap as it was read or written last; nil where there is
	// none.
	object *corev1.ConfigMap
}

// load reads the ledger past any cache. There may be none.
func (s *store) load(ctx context.Context) (l Ledger, found bool, err error) {
	s.object = nil
	object := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: s.owner.Namespace, Name: s.owner.objectName()}
	err = s.reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return Ledger{}, false, nil
	case err != nil:
		return Ledger{}, false, fmt.Errorf("read the queue of commit statuses in ConfigMap %s: %w", key, err)
	}
	has, ours := ownedBy(object)
	switch {
	case !ours || has.bookKey != s.owner.bookKey:
		return Ledger{}, false, configmap.InTheWay(object, holds, s.owner.Name)
	case has.uid != s.owner.uid:
		// A former NodeSync of this name has left it; the garbage collector is not
		// there yet.
		return Ledger{}, false, s.drop(ctx, object)
	}
	if l, err = decode(object); err != nil {
		return Ledger{}, false, err
	}
	s.object = object
	return l, true, nil
}

func decode(object *corev1.ConfigMap) (Ledger, error) {
	var l Ledger
	if err := json.Unmarshal([]byte(object.Data[dataKey]), &l); err != nil {
		return Ledger{}, configmap.Unreadable(object, holds, err, "those that are not posted yet")
	}
	return l, nil
}

// ownedBy is the NodeSync that a ConfigMap belongs to, and what it is about by its name.
func ownedBy(object *corev1.ConfigMap) (owner, bool) {
	name, uid, ours := configmap.NodeSyncOf(object, component)
	if !ours {
		return owner{}, false
	}
	has := owner{bookKey: bookKey{NamespacedName: name}, uid: uid}
	for _, subject := range subjects() {
		if object.Name == subject.ObjectName(name.Name) {
			has.subject = subject
		}
	}
	return has, true
}

// save writes a ledger over just what was read, if it is another one. One without
// a lane takes no object. The error wraps errOvertaken where it has to be loaded
// again.
func (s *store) save(ctx context.Context, l Ledger) error {
	if len(l.Lanes) == 0 {
		if s.object == nil {
			return nil
		}
		return s.drop(ctx, s.object)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the queue of commit statuses: %w", err)
	}
	if s.object != nil && s.object.Data[dataKey] == string(data) {
		return nil
	}
	target := s.target()
	if err := configmap.Writable(target, holds); err != nil {
		return err
	}
	target.Data = map[string]string{dataKey: string(data)}
	if s.object == nil {
		err = s.writer.Create(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = s.writer.Update(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return s.refused("write", err)
	}
	s.object = target
	return nil
}

// target is the ConfigMap to write.
func (s *store) target() *corev1.ConfigMap {
	if s.object != nil {
		return s.object.DeepCopy()
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: s.owner.Namespace, Name: s.owner.Name, UID: s.owner.uid}}
	target := configmap.New(sync, s.owner.objectName())
	target.Labels[configmap.ComponentLabel] = component
	return target
}

// drop deletes the ConfigMap, as it was read.
func (s *store) drop(ctx context.Context, object *corev1.ConfigMap) error {
	exactly := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := client.IgnoreNotFound(s.writer.Delete(ctx, object, exactly)); err != nil {
		return s.refused("delete", err)
	}
	s.object = nil
	return nil
}

func (s *store) refused(what string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && s.object != nil {
		err = fmt.Errorf("%w: %w", errOvertaken, err)
	}
	return fmt.Errorf("%s the queue of commit statuses in ConfigMap %s/%s: %w", what, s.owner.Namespace, s.owner.objectName(), err)
}
