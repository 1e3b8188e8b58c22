package render

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// kindName is a kind without its group.
var kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// checkIgnoredKinds lets other tools' kinds through. A definition that is passed over would be a
// removal, and end nodes.
func (k *Karpenter) checkIgnoredKinds() []problem {
	var found []problem
	for i, entry := range k.IgnoreKinds {
		at := fmt.Sprintf("ignoreKinds[%d]", i)
		kind, group, grouped := strings.Cut(entry, ".") // as kubectl writes it
		switch {
		case !kindName.MatchString(kind), grouped && len(validation.IsDNS1123Subdomain(group)) > 0:
			found = append(found, problem{at, fmt.Sprintf("%s is %q: give a kind, such as Deployment, or with its group, Deployment.apps", at, entry)})
		case namesDefinition(kind):
			found = append(found, problem{at, fmt.Sprintf("%s is %q: definitions of nodes cannot be ignored, as each that is left out counts as removed", at, entry)})
		}
	}
	return found
}

// namesDefinition says whether a kind is ours, or has become one of ours, however it is written.
func namesDefinition(kind string) bool {
	is := func(k Kind) bool { return strings.EqualFold(k.GVK.Kind, kind) }
	return slices.ContainsFunc(Kinds(), is) || legacy.Has(kind)
}

// ignores says whether an object is left to other tools. One of Karpenter's groups is not: it
// may be a definition with a misspelt kind.
func (k *Karpenter) ignores(as definedAs) bool {
	group, err := schema.ParseGroupVersion(as.apiVersion)
	if err != nil || misspelt(group.WithKind(as.kind).GroupKind()) {
		return false
	}
	return slices.Contains(k.IgnoreKinds, as.kind) || slices.Contains(k.IgnoreKinds, as.kind+"."+group.Group)
}

// misspelt says whether a kind is of one of Karpenter's groups, and none that Karpenter has.
func misspelt(kind schema.GroupKind) bool {
	_, known := notYet[kind]
	return !known && slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.GVK.Group == kind.Group })
}

// withoutIgnored takes the objects out that are left to other tools.
func (r *run) withoutIgnored(drafts []draft) (rest, ignored []draft) {
	if len(r.karpenter.IgnoreKinds) == 0 {
		return drafts, nil
	}
	for _, one := range drafts {
		if r.karpenter.ignores(nameOf(one.value)) {
			ignored = append(ignored, one)
		} else {
			rest = append(rest, one)
		}
	}
	return rest, ignored
}

// remarks are what there is to say of sources that stops nothing.
type remarks struct {
	// warnings are sentences on files.
	warnings []string
	// ignored are the objects that are left to other tools.
	ignored []string
}

func (r *remarks) add(more remarks) {
	r.warnings = append(r.warnings, more.warnings...)
	r.ignored = append(r.ignored, more.ignored...)
}

func (r *remarks) ignore(drafts []draft) {
	for _, one := range drafts {
		as := nameOf(one.value)
		r.ignored = append(r.ignored, as.kind+"/"+redact.VisibleName(as.name))
	}
}

func (r *remarks) none() bool { return len(r.warnings)+len(r.ignored) == 0 }

// sentence names the objects that are left to other tools; empty where there are none.
func (r *remarks) sentence() string {
	if len(r.ignored) == 0 {
		return ""
	}
	all := slices.Sorted(slices.Values(r.ignored))
	named := strings.Join(all[:min(len(all), mostWarned)], ", ")
	if more := len(all) - mostWarned; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return "left to other tools by ignoreKinds: " + named
}
