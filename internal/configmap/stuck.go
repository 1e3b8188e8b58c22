package configmap

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// StuckError reports that a record cannot be stored in its ConfigMap until a person acts.
type StuckError struct {
	Name types.NamespacedName
	// Holds is what the ConfigMap contains, such as "the record of removals".
	Holds string
	// Why, and what to do.
	Why string
}

// Error names the ConfigMap, and what to do.
func (e *StuckError) Error() string {
	return fmt.Sprintf("ConfigMap %s (%s) %s", e.Name, e.Holds, e.Why)
}

// InTheWay returns the error for a ConfigMap of another owner.
func InTheWay(object *corev1.ConfigMap, holds, nodeSync string) error {
	return stuck(object, holds, fmt.Sprintf("is in the way: it is not NodeSync %s's; delete or rename it", nodeSync))
}

// Unreadable returns the error for a record that cannot be read. lost names what a new one would not contain.
func Unreadable(object *corev1.ConfigMap, holds string, err error, lost string) error {
	return stuck(object, holds, fmt.Sprintf("cannot be read: %v; restore it, or delete it to have it recreated without %s", err, lost))
}

// Writable returns an error if another client has made a ConfigMap immutable, which cannot be undone.
func Writable(object *corev1.ConfigMap, holds string) error {
	if !ptr.Deref(object.Immutable, false) {
		return nil
	}
	return stuck(object, holds, fmt.Sprintf(
		"is immutable: recreate it with what it has: kubectl get configmap -n %s %s -o yaml | sed '/^immutable:/d' | kubectl replace --force -f -", object.Namespace, object.Name))
}

func stuck(object *corev1.ConfigMap, holds, why string) error {
	return &StuckError{Name: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, Holds: holds, Why: why}
}
