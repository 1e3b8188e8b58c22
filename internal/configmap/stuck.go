package configmap

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// StuckError reports that a record cannot be kept in its ConfigMap until a person does
// something about that.
type StuckError struct {
	Name types.NamespacedName
	// Holds is what the ConfigMap is for, such as "the record of removals".
	Holds string
	// Why it is so, and what to do.
	Why string
}

// Error names the ConfigMap, and says what to do.
func (e *StuckError) Error() string {
	return fmt.Sprintf("ConfigMap %s (%s) %s", e.Name, e.Holds, e.Why)
}

// InTheWay is the error about a ConfigMap of another owner.
func InTheWay(object *corev1.ConfigMap, holds, nodeSync string) error {
	return stuck(object, holds, fmt.Sprintf("is in the way: it is not NodeSync %s's; delete or rename it", nodeSync))
}

// Unreadable is the error about a record that cannot be read. A new one lacks what only the record
// had; lost says what that is.
func Unreadable(object *corev1.ConfigMap, holds string, err error, lost string) error {
	return stuck(object, holds, fmt.Sprintf("cannot be read: %v; restore it, or delete it to have it recreated without %s", err, lost))
}

// Writable returns an error about a ConfigMap that another client has made immutable: the API
// server takes that back of none.
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
