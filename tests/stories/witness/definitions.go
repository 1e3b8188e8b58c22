package witness

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Definitions are those of one commit, as read from its files.
type Definitions struct {
	Objects []unstructured.Unstructured
}

// unlike returns how the cluster differs from Git: missing objects, and fields in Git that have another value. whole is
// true if no field was skipped. It ignores pools that are being removed, which other rules cover.
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

// differs returns the first field in Git with another live value; all is true if none was skipped.
func differs(want, live any, at string) (words string, all bool) {
	all = true
	switch want := want.(type) {
	case map[string]any:
		fields, _ := live.(map[string]any)
		for key, value := range want {
			if at == "spec.disruption" && key == "budgets" { // pausing a rollout adds to them
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
