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

// Desired returns the object to apply: Git's object with the schema's defaults and the owner.
//
// The defaults are applied too, so that plumbline owns the whole spec. If the API server set them, a field that is
// removed from Git could leave its siblings behind: a NodePool without spec.disruption would keep the defaults that
// were set next to consolidateAfter, but without it, and be rejected as invalid.
//
// Empty maps are left out. They have no meaning, no field of ours requires one, and the API server keeps or drops them
// depending on the previous object.
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

// written returns a desired object as an apply leaves it, read only: an apply writes no empty map, so that one exists
// afterwards only if it does in the live object. Karpenter's hash of an empty map differs from that of none.
func written(desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	spec, ok := desired.Object["spec"].(map[string]any)
	if !ok {
		return desired
	}
	was, _ := live.Object["spec"].(map[string]any)
	object := maps.Clone(desired.Object)
	object["spec"] = writtenFields(spec, was)
	return &unstructured.Unstructured{Object: object}
}

func writtenFields(fields, live map[string]any) map[string]any {
	left := make(map[string]any, len(fields))
	for key, value := range fields {
		if within, ok := value.(map[string]any); ok {
			was, exists := live[key].(map[string]any)
			of := writtenFields(within, was)
			if len(of) == 0 && (!exists || len(was) > 0) {
				continue
			}
			value = of
		}
		left[key] = value
	}
	return left
}

// dropEmpty removes empty maps from a map, including those that become empty by that. Lists stay unchanged, because a
// list is written as a whole.
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

// Schema provides the types of the definitions as the API server knows them.
type Schema interface {
	// FieldSet returns the fields that a server-side apply of exactly this object would own.
	FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error)
	// ValidateTransition validates an object against its old version by the transition rules; all others were checked
	// when it was rendered. The context limits the cost of its expressions.
	ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList
}

// immutable returns the checks that only a new name can satisfy. The API server has them as CEL rules (karpenter
// pkg/apis/crds/karpenter.sh_nodepools.yaml); here they have clear messages.
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
	switch wanted, was := IsStatic(desired), IsStatic(live); {
	case wanted && !was:
		return "a dynamic NodePool cannot become static (spec.replicas)"
	case was && !wanted:
		return "a static NodePool (spec.replicas) cannot become dynamic"
	}
	return ""
}

// refuse marks a Change that the API server would reject as Refuse, so that it is not retried forever, or as Wait if
// the old object is being removed.
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
	if record, leaves := m.live.removal(change.Live.GetUID()); err.Immutable && leaves && record.Started() && (m.started(record) || len(m.claims()[change.Ref]) == 0) {
		change.recreate()
	}
}

// recreate continues the removal of an object that has already terminated nodes and cannot become the object that is in
// Git again under its name: that is created once the old one is deleted.
func (c *Change) recreate() {
	var refused *RefusedError
	if errors.As(c.Err, &refused) {
		c.Message = fmt.Sprintf("%s is being removed, and is recreated from Git once it is deleted: %s",
			c.Ref, strings.Join(refused.Problems, "; "))
	}
	c.Action, c.Reason, c.WaitsFor, c.Err, c.Force = Wait, ReasonRecreated, c.Ref.String(), nil, false
}

// after returns the live object as the Change would leave it, read only.
func after(change *Change) *unstructured.Unstructured {
	object := maps.Clone(change.Live.Object)
	if spec, ok := change.Wanted().Object["spec"]; ok {
		object["spec"] = spec
	}
	return &unstructured.Unstructured{Object: object}
}

// texts caches the digest input of a rendered object, which does not change: if thousands are held, each reconcile
// digests all of them.
type texts struct {
	of *unstructured.Unstructured

	whole      sync.Once
	json       json.RawMessage
	spec       sync.Once
	definition string
}

// object returns the whole object as JSON; nil if it cannot be encoded, which never happens for a decoded one.
func (t *texts) object() json.RawMessage {
	t.whole.Do(func() {
		if text, err := json.Marshal(t.of.Object); err == nil {
			t.json = text
		}
	})
	return t.json
}

// defined returns a digest of all that people are shown of it: its spec, and its labels and annotations, which policies
// read.
func (t *texts) defined() string {
	t.spec.Do(func() { t.definition = definition(t.of, t.of.GetLabels(), t.of.GetAnnotations()) })
	return t.definition
}

// objectTexts returns the texts of the object of a Change.
func (c *Change) objectTexts() *texts {
	if c.texts == nil || c.texts.of != c.Object.Desired {
		return &texts{of: c.Object.Desired}
	}
	return c.texts
}

// needClass lets an object be written only if the class that it references exists and is not terminating, or is created
// just before.
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

// needForeignClass decides on an object whose class is neither in our Git nor in the cluster. Another NodeSync may
// create it from the same commit.
func (m *maker) needForeignClass(change *Change, class render.Ref) {
	brings, wanted := m.wantedBy(class)
	waitsFor, newestUnknown := m.syncWithUnknownNewest()
	switch {
	case wanted:
		change.await(brings)
		change.Message = fmt.Sprintf("%s references %s: waiting for %s", change.Ref, class, brings.applying())
	case newestUnknown:
		change.await(waitsFor)
		change.Message = fmt.Sprintf("%s references %s, which is neither in this NodeSync's Git nor in the cluster: waiting for %s",
			change.Ref, class, waitsFor.waiting())
	default:
		err := &MissingClassError{Ref: change.Ref, Class: class, Origin: change.Object.Origin}
		change.Action, change.Reason, change.Message, change.Err = Refuse, ReasonClassMissing, err.Error(), err
	}
}

func (c *Change) wait(reason string, on render.Ref, message string) {
	c.Action, c.Reason, c.WaitsFor, c.Message = Wait, reason, on.String(), message
}

// After returns the object after the Change: the live object with Git's values for the fields that differ. For a new
// object, that is Git's object with the schema's defaults. Read only.
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
		// A value in the way of a map is replaced by it: in Git, the path consists of maps.
		_ = unstructured.SetNestedField(after.Object, runtime.DeepCopyJSONValue(d.to), d.path...)
	}
	return after
}

// Before is a definition before a Plan, by its Content; empty if there was none.
type Before struct {
	Ref     render.Ref
	Content string
}

// Before returns the first definitions, at most this many, whose Content the Plan changes now or after a wait.
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

// Content returns a digest of the node-related part of a definition: the spec.template and the replicas of a NodePool,
// or the spec of an EC2NodeClass. It is empty for nil.
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
