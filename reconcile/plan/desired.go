package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Desired is what is applied: Git's object with the schema's defaults, and with
// its owner.
//
// The defaults are applied too, so that the whole spec is ours. Were they left
// to the API server, a field that leaves Git could leave its siblings behind: a
// NodePool that no longer says spec.disruption would keep the defaults that once
// stood beside consolidateAfter, without it, and be refused as invalid.
//
// Empty maps are left out. They say nothing, no field of ours requires one, and
// the API server keeps or drops them by what was there before.
func Desired(object render.Object, owner Owner) *unstructured.Unstructured {
	desired := object.Defaulted.DeepCopy()
	label, annotation := owner.Label()
	desired.SetLabels(with(desired.GetLabels(), label))
	if annotation != "" {
		desired.SetAnnotations(with(desired.GetAnnotations(), annotation))
	}
	for _, part := range []string{"metadata", "spec"} {
		if fields, ok := desired.Object[part].(map[string]any); ok {
			dropEmpty(fields)
		}
	}
	return desired
}

// dropEmpty takes empty maps out of a map, those that become empty by it too.
// What is in lists stays: a list is written as a whole.
func dropEmpty(fields map[string]any) {
	for key, value := range fields {
		if within, ok := value.(map[string]any); ok {
			dropEmpty(within)
			if len(within) == 0 {
				delete(fields, key)
			}
		}
	}
}

func with(marks map[string]string, owner string) map[string]string {
	marked := map[string]string{v1alpha1.OwnerLabel: owner}
	for key, value := range marks {
		if key != v1alpha1.OwnerLabel {
			marked[key] = value
		}
	}
	return marked
}

// Schema knows the definitions' types as the API server does.
type Schema interface {
	// FieldSet is the set of fields that a server-side apply of exactly this
	// object would own.
	FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error)
	// ValidateTransition checks an object with another in its place before, by the rules
	// on transitions: by all others it was checked when it was rendered. The context bounds
	// what its expressions may cost.
	ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList
}

// immutable are the checks whose only way out is a new name. The API server
// has them as CEL rules (karpenter pkg/apis/crds/karpenter.sh_nodepools.yaml);
// here they are named for what they are.
func immutable() []func(desired, live *unstructured.Unstructured) (problem string) {
	return []func(desired, live *unstructured.Unstructured) string{
		classField("group"),
		classField("kind"),
		staticOrDynamic,
	}
}

func classField(field string) func(desired, live *unstructured.Unstructured) string {
	path := []string{"spec", "template", "spec", "nodeClassRef", field}
	return func(desired, live *unstructured.Unstructured) string {
		wanted, _, _ := unstructured.NestedString(desired.Object, path...)
		was, found, _ := unstructured.NestedString(live.Object, path...)
		if !found || wanted == was {
			return ""
		}
		return fmt.Sprintf("nodeClassRef.%s is immutable, %q cannot become %q", field, was, wanted)
	}
}

func staticOrDynamic(desired, live *unstructured.Unstructured) string {
	_, wanted, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	_, was, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas")
	switch {
	case wanted && !was:
		return "a dynamic NodePool cannot become static (spec.replicas)"
	case was && !wanted:
		return "a static NodePool (spec.replicas) cannot become dynamic"
	}
	return ""
}

// refuse turns a Change that the API server would refuse into one that says so,
// so that it is not tried over and over, or that waits for what is leaving.
func (m *maker) refuse(ctx context.Context, change *Change, found *compared) {
	err := &RefusedError{Ref: change.Ref, Origin: change.Object.Origin}
	if change.Ref.Kind == render.NodePool {
		for _, check := range immutable() {
			if problem := check(change.Wanted(), change.Live); problem != "" {
				err.Problems, err.Immutable = append(err.Problems, problem), true
			}
		}
	}
	if len(err.Problems) == 0 {
		err.Problems = found.refusals(ctx, change, m.schema)
	}
	if len(err.Problems) > 0 {
		change.Action, change.Reason, change.Message, change.Err = Refuse, ReasonInvalid, err.Error(), err
		if err.Immutable {
			change.Reason = ReasonImmutable
		}
	}
	if record, leaves := m.live.removal(change.Live.GetUID()); err.Immutable && leaves && record.Begun() && (m.begun(record) || len(m.claims()[change.Ref]) == 0) {
		change.recreate()
	}
}

// recreate lets the removal of an object go on that has ended nodes already, for a commit or all, and that
// can not become what Git has under its name again: that is created when it has gone.
func (c *Change) recreate() {
	var refused *RefusedError
	if errors.As(c.Err, &refused) {
		c.Message = fmt.Sprintf("%s is being removed, and is recreated from Git once it is deleted: %s", c.Ref, strings.Join(refused.Problems, "; "))
	}
	c.Action, c.Reason, c.WaitsFor, c.Err, c.Force = Wait, ReasonRecreated, c.Ref.String(), nil, false
}

// after is the live object as the Change would leave it, read only.
func after(change *Change) *unstructured.Unstructured {
	object := maps.Clone(change.Live.Object)
	if spec, ok := change.Wanted().Object["spec"]; ok {
		object["spec"] = spec
	}
	return &unstructured.Unstructured{Object: object}
}

// texts are what digests take of a rendered object, which does not change: where thousands are held each
// pass digests them all.
type texts struct {
	of *unstructured.Unstructured

	whole      sync.Once
	json       json.RawMessage
	spec       sync.Once
	definition string
}

// object is the whole of it; nil if it has no JSON, which is so of none that was decoded from some.
func (t *texts) object() json.RawMessage {
	t.whole.Do(func() {
		if text, err := json.Marshal(t.of.Object); err == nil {
			t.json = text
		}
	})
	return t.json
}

// defined is its Definition.
func (t *texts) defined() string {
	t.spec.Do(func() { t.definition = Definition(t.of) })
	return t.definition
}

// said are the texts of what a Change is about.
func (c *Change) said() *texts {
	if c.texts == nil || c.texts.of != c.Object.Desired {
		return &texts{of: c.Object.Desired}
	}
	return c.texts
}

// needClass lets an object be written only when the class that it names is
// there, not terminating, or is made just before it.
func (m *maker) needClass(change *Change) {
	class, ok := render.Reference(change.Ref, change.Object.Desired)
	if !ok || m.policy.Offline {
		return
	}
	live, before := m.live.object(class), m.changes[class]
	switch {
	case live != nil && terminating(live):
		change.wait(ReasonTerminating, class, fmt.Sprintf("%s references %s, which is being deleted", change.Ref, class))
	case live != nil || before.Action == Create:
	case m.inSet[class]:
		change.wait(ReasonClassNotMade, class, fmt.Sprintf("%s references %s, which could not be created: %s", change.Ref, class, before.Message))
	default:
		m.needForeignClass(change, class)
	}
}

// needForeignClass decides on an object whose class is neither in our Git nor in the cluster. With the
// same commit another NodeSync may bring it.
func (m *maker) needForeignClass(change *Change, class render.Ref) {
	brings, wanted := m.wantedBy(class)
	waitsFor, unheard := m.unheard()
	switch {
	case wanted:
		change.await(brings)
		change.Message = fmt.Sprintf("%s references %s: waiting for %s", change.Ref, class, brings.applying())
	case unheard:
		change.await(waitsFor)
		change.Message = fmt.Sprintf("%s references %s, which is neither in this NodeSync's Git nor in the cluster: waiting for %s", change.Ref, class, waitsFor.waiting())
	default:
		err := &MissingClassError{Ref: change.Ref, Class: class, Origin: change.Object.Origin}
		change.Action, change.Reason, change.Message, change.Err = Refuse, ReasonClassMissing, err.Error(), err
	}
}

func (c *Change) wait(reason string, on render.Ref, message string) {
	c.Action, c.Reason, c.WaitsFor, c.Message = Wait, reason, on.String(), message
}

// After is the object as it is after the Change: what lives, with the fields that differ as Git
// has them. One that does not exist becomes what Git says, with the schema's defaults. Read only.
func (c *Change) After() *unstructured.Unstructured {
	if c.Live == nil {
		return c.Wanted()
	}
	after := c.Live.DeepCopy()
	for _, d := range c.differences {
		if d.to == nil {
			unstructured.RemoveNestedField(after.Object, d.path...)
			continue
		}
		// What stands in the way of a map is replaced by it: the path is one of maps in Git.
		_ = unstructured.SetNestedField(after.Object, runtime.DeepCopyJSONValue(d.to), d.path...)
	}
	return after
}

// Before is a definition as it was before a Plan, by its Content; empty if there was none.
type Before struct {
	Ref     render.Ref
	Content string
}

// Before are the first definitions whose Content the Plan changes, or is to change once what it waits for is
// there, so many of them, by Ref.
func (p *Plan) Before(most int) []Before {
	var found []Before
	for i := range p.Changes {
		c := &p.Changes[i]
		if !c.Action.Writes() && c.Action != Wait || len(found) == most {
			continue
		}
		if c.Live == nil || !equal(content(c.Live), content(c.Object.Defaulted)) {
			found = append(found, Before{c.Ref, Content(c.Live)})
		}
	}
	return found
}

// Content is a digest of what a definition says of nodes: the spec.template of a NodePool and how many of them
// a static one has, the spec of an EC2NodeClass. It is empty for none.
func Content(definition *unstructured.Unstructured) string {
	if definition == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(canonical(content(definition))))
	return hex.EncodeToString(sum[:8])
}

func content(definition *unstructured.Unstructured) any {
	if definition.GetKind() == render.NodePool {
		return map[string]any{"template": specField(definition, "template"), "replicas": specField(definition, "replicas")}
	}
	return specField(definition)
}
