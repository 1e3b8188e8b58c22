package witness

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Definitions are those of one commit, as a person reads them in its files.
type Definitions struct {
	Objects []unstructured.Unstructured
}

// unlike says in what the cluster is not as Git says: objects that are missing, and fields that Git
// writes and that have another value. whole reports that no field was left out. Pools that are being
// removed are others' subject.
func (d *Definitions) unlike(f *Fleet, removed map[string]bool) (words []string, whole bool) {
	whole = true
	for i := range d.Objects {
		want := &d.Objects[i]
		name := want.GetKind() + "/" + want.GetName()
		if removed[name] {
			whole = false
			continue
		}
		live := f.find(want.GetKind(), want.GetName())
		if live == nil || live.GetDeletionTimestamp() != nil {
			words = append(words, name+" is missing")
			continue
		}
		for _, part := range []string{"spec", "metadata"} {
			path, all := differs(want.Object[part], live.Object[part], part)
			if whole = whole && all; path != "" {
				words = append(words, name+" "+path)
			}
		}
	}
	return words, whole
}

// differs is the first field of Git's that lives with another value; all reports that none was left out.
func differs(want, live any, at string) (words string, all bool) {
	all = true
	switch want := want.(type) {
	case map[string]any:
		fields, _ := live.(map[string]any)
		for key, value := range want {
			if at == "spec.disruption" && key == "budgets" { // a brake adds to them
				all = false
				continue
			}
			found, each := differs(value, fields[key], at+"."+key)
			if all = all && each; found != "" {
				return found, all
			}
		}
	case []any:
		items, _ := live.([]any)
		if len(items) != len(want) {
			return fmt.Sprintf("%s has %d items, and %d in Git", at, len(items), len(want)), all
		}
		for i := range want {
			found, each := differs(want[i], items[i], fmt.Sprintf("%s[%d]", at, i))
			if all = all && each; found != "" {
				return found, all
			}
		}
	default:
		text, is := fmt.Sprint(want), fmt.Sprint(live)
		if strings.Contains(text, "${") {
			return "", false
		}
		if text != is && !sameQuantity(text, is) {
			return fmt.Sprintf("%s is %s, and %s in Git", at, is, text), all
		}
	}
	return "", all
}

func sameQuantity(a, b string) bool {
	x, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(b)
	return err == nil && x.Cmp(y) == 0
}
