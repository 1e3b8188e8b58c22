package owners

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is what keeps an object as it is, or wrote it last.
type Owner struct {
	// Tool that reconciles it, such as Flux or Argo CD; empty where none does.
	Tool string `json:"tool,omitempty"`
	// Kind, Namespace and Name of what it belongs to: a HelmRelease, Kustomization or
	// Application, or a Release of Helm's own. Argo CD's marks do not always have the
	// namespace.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Manager is the field manager that wrote its spec last, or by which the tool is known that
	// left no other mark.
	Manager string `json:"manager,omitempty"`
}

// ReleaseKind is the Kind of a release that only Helm knows.
const ReleaseKind = "Release"

// Reconciles says that a tool would revert any change.
func (o Owner) Reconciles() bool { return o.Tool != "" }

// IsRelease says that an object belongs to a Helm release that no tool reconciles.
func (o Owner) IsRelease(name, namespace string) bool {
	return o.Tool == "" && o.Kind == ReleaseKind && o.Name == name && o.Namespace == namespace
}

// String names the owner in messages.
func (o Owner) String() string {
	name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	switch {
	case o.Tool != "" && o.Kind != "":
		return fmt.Sprintf("%s's %s %s", o.Tool, o.Kind, name)
	case o.Tool != "":
		return fmt.Sprintf("%s (field manager %s)", o.Tool, o.Manager)
	case o.Kind == ReleaseKind:
		return "helm release " + name
	case o.Manager != "":
		return "managed by " + o.Manager
	}
	return "managed by an unknown client"
}

// Of reads the owner that counts from an object's labels and annotations; where it has no mark of
// any tool, that is the client that wrote it last.
func Of(object metav1.Object) Owner {
	if found := marked(object); len(found) > 0 {
		return found[0]
	}
	return Owner{Manager: lastManager(object)}
}

// All are the tools that apply an object: by their marks, in the order of Of, then those that are
// known by a field manager only, by name.
func All(object metav1.Object) []Owner {
	found := marked(object)
	known := map[string]bool{}
	for _, owner := range found {
		known[owner.tool()] = true
	}
	var managers []Owner
	for _, entry := range object.GetManagedFields() {
		tool, ok := Applier(entry.Manager)
		if !ok || known[tool] {
			continue
		}
		known[tool] = true
		managers = append(managers, Owner{Tool: tool, Manager: entry.Manager})
	}
	slices.SortFunc(managers, func(a, b Owner) int { return strings.Compare(a.Tool, b.Tool) })
	return append(found, managers...)
}

// tool is what people call what keeps it, Helm's own releases too.
func (o Owner) tool() string {
	if o.Kind == ReleaseKind {
		return helm
	}
	return o.Tool
}

// lastManager is the field manager that wrote the spec last; of an object whose entries have none, that
// wrote the object last, its status aside. Karpenter annotates each NodePool, and Kubernetes each
// Deployment, after the client that applies it.
func lastManager(object metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && (last.Manager == "" || counts(entry, last)) {
			last = entry
		}
	}
	return last.Manager
}

// counts says that an entry says more of who applies an object than another one.
func counts(entry, than metav1.ManagedFieldsEntry) bool {
	if writesSpec(entry) != writesSpec(than) {
		return writesSpec(entry)
	}
	return than.Time == nil || entry.Time != nil && than.Time.Before(entry.Time)
}

func writesSpec(entry metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`)
}
