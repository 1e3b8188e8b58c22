package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// Reference returns the object that another one names: the EC2NodeClass of a NodePool. It is false if objects of its kind name
// none, or this one does not.
func Reference(ref Ref, object *unstructured.Unstructured) (Ref, bool) {
	kind, ok := KindOf(ref.Kind)
	if !ok || kind.RefersTo == "" {
		return Ref{}, false
	}
	name, found, err := unstructured.NestedString(object.Object, kind.RefPath...)
	if err != nil || !found || name == "" {
		return Ref{}, false
	}
	return Ref{Kind: kind.RefersTo, Name: name}, true
}

// Undefined returns a sentence on each object that names another one which none of the objects is, with the name that was most
// likely meant. Such an object may be in the cluster, or in the folder of another NodeSync.
func Undefined(objects []Object) []string {
	defined, names := map[Ref]bool{}, map[string][]string{}
	for _, object := range objects {
		defined[object.Ref] = true
		names[object.Ref.Kind] = append(names[object.Ref.Kind], object.Ref.Name)
	}
	var sentences []string
	for _, object := range objects {
		named, ok := Reference(object.Ref, object.Desired)
		if !ok || defined[named] {
			continue
		}
		sentence := fmt.Sprintf("%s: %s names %s, which no file of this folder defines", object.Origin, object.Ref, named)
		if meant := nearest.Name(named.Name, names[named.Kind]); meant != "" {
			sentence += fmt.Sprintf("; did you mean %s?", meant)
		}
		sentences = append(sentences, sentence)
	}
	return sentences
}
