package plan

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// Extra is an object with fields that Git does not write, and that stay: a controller or a
// policy of the cluster has added them, and Karpenter goes by them.
type Extra struct {
	Ref render.Ref
	// Fields are their paths, each with the field managers that own it.
	Fields []string
}

// String names the object and its fields.
func (e Extra) String() string { return e.Ref.String() + ": " + someOf(e.Fields) }

// extraField is one of them. Nobody owns what a mutating webhook or policy adds on the way.
type extraField struct {
	path     []string
	managers []string
	// unknown says that the object's managedFields are empty.
	unknown bool
}

func (f extraField) String() string {
	by := "a webhook or policy"
	if f.unknown {
		by = "unknown: its managedFields are empty"
	} else if len(f.managers) > 0 {
		managers := slices.Sorted(slices.Values(f.managers))
		by = strings.Join(slices.Compact(managers), ", ")
	}
	return name(f.path) + " (" + by + ")"
}

// extraOf names the fields of one object; nil where there are none.
func extraOf(ref render.Ref, fields []extraField) *Extra {
	if len(fields) == 0 {
		return nil
	}
	extra := &Extra{Ref: ref}
	for _, f := range fields {
		extra.Fields = append(extra.Fields, f.String())
	}
	return extra
}

// outdates says whether Karpenter counts nodes as outdated by a field of a definition: its
// own hash of the object differs without it, or it is one of those that AWS answers.
func outdates(live *unstructured.Unstructured, path []string) bool {
	if path[0] != "spec" {
		return false
	}
	without := &unstructured.Unstructured{Object: map[string]any{"spec": live.Object["spec"]}}
	without = without.DeepCopy()
	unstructured.RemoveNestedField(without.Object, path...)
	return live.GetKind() == render.EC2NodeClass && slices.ContainsFunc(resolvedFields(), func(f resolvedField) bool { return f.name == path[1] }) || outdated(live, without)
}

// outdated says whether Karpenter's own hash tells two definitions of a kind apart.
func outdated(a, b *unstructured.Unstructured) bool {
	switch a.GetKind() {
	case render.NodePool:
		return hashesDiffer(a, b, poolHash)
	case render.EC2NodeClass:
		return hashesDiffer(a, b, func(class *awsv1.EC2NodeClass) Hash { return classHash(class, "") })
	}
	return false
}

// hashesDiffer says whether two definitions have different hashes. Where one of them
// cannot be read nobody can tell, and the field is left.
func hashesDiffer[T any](a, b *unstructured.Unstructured, hash func(*T) Hash) bool {
	with, err := typed[T](a)
	if err != nil {
		return false
	}
	without, err := typed[T](b)
	return err == nil && hash(with) != hash(without)
}
