package plan

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan/rules"
	"github.com/plumbline-dev/plumbline/render"
)

// Memo holds what one Plan has found of objects, so that the next does not compare them
// again: which are as Git says, and how the others differ. It is no part of what is
// planned: a Plan with a Memo equals one without. The zero value knows nothing.
type Memo struct {
	owner  Owner
	schema Schema
	clean  map[render.Ref]cleanObject
	// others were compared and found to differ. Where the guard holds a commit, they are
	// many, and stay so for hours while NodeClaims wake one pass after another.
	others map[render.Ref]compared
	// rules are the policies, compiled.
	rules *rules.Rules
	// matches are the definitions that live, as NodeClaims are compared with them.
	matches *MatchMemory
}

// cleanObject is one that is as Git says, and the fields that it has beside those of Git;
// nil where there are none.
type cleanObject struct {
	comparison
	extra *Extra
}

// comparison names the two objects that were compared. A rendered object is read
// only, so that its address stands for what is in it; a live one is named by its
// UID and resourceVersion.
type comparison struct {
	rendered        *unstructured.Unstructured
	uid             types.UID
	resourceVersion string
}

// of says whether these very objects were compared.
func (c comparison) of(object *render.Object, live identified) bool {
	return c == comparisonOf(object, live)
}

// identified is a live object, or an Object.
type identified interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// compared is what hangs on the two objects, the owner and the schema, and on nothing else.
// It is read only.
type compared struct {
	comparison
	judgement judgement
	// problems are what the API server would refuse, where that was asked.
	problems []string
	asked    bool
	// before is what was applied last, where it was asked whether the rendered object
	// differs from it.
	before  *unstructured.Unstructured
	differs bool
	// edit is what they say of nodes; nil where nobody has asked.
	edit edit
	// texts are those of the rendered object.
	texts *texts
}

func comparisonOf(object *render.Object, live identified) comparison {
	return comparison{rendered: object.Defaulted, uid: live.GetUID(), resourceVersion: live.GetResourceVersion()}
}

// newMemo is empty; the comparisons in it are made for an owner, by a schema.
func newMemo(owner Owner, schema Schema, objects int) Memo {
	return Memo{owner: owner, schema: schema, clean: make(map[render.Ref]cleanObject, objects), others: map[render.Ref]compared{}}
}

// findClean returns what was found of these very objects, if they were found equal. Neither
// was terminating then.
func (m Memo) findClean(object *render.Object, live *Object, owner Owner, schema Schema) (cleanObject, bool) {
	known, ok := m.clean[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(object, live)
}

// find is what was found of these very objects, if they were compared.
func (m Memo) find(object render.Object, live *Object, owner Owner, schema Schema) (compared, bool) {
	known, ok := m.others[object.Ref]
	return known, ok && m.owner == owner && m.schema == schema && known.of(&object, live)
}

// note keeps a decision on two objects. An object without a resourceVersion does not say
// when it changes.
func (m Memo) note(d decision) {
	object, live := d.change.Object, d.change.Live
	switch {
	case live == nil || live.GetResourceVersion() == "" || d.change.Braked:
	case d.clean:
		m.clean[object.Ref] = cleanObject{comparisonOf(&object, live), d.extra}
	case d.compared != nil:
		m.others[object.Ref] = *d.compared
	}
}

// judged compares two objects, unless the last Plan has.
func (m *maker) judged(object render.Object, live *Object, braked bool) (*compared, error) {
	if known, ok := m.live.Memo.find(object, live, m.policy.Owner, m.schema); ok && !braked {
		return &known, nil
	}
	j, err := judge(object, live, m.policy.Owner, m.schema, braked)
	if err != nil {
		return nil, err
	}
	return &compared{comparison: comparisonOf(&object, live), judgement: j, texts: &texts{of: object.Desired}}, nil
}

// refusals are what the API server would say against the object that a Change would make.
func (c *compared) refusals(ctx context.Context, change *Change, schema Schema) []string {
	if c.asked {
		return c.problems
	}
	var problems []string
	for _, problem := range schema.ValidateTransition(ctx, after(change), change.Live) {
		problems = append(problems, problem.Error())
	}
	// Of a context that has ended not all rules are checked.
	c.problems, c.asked = problems, ctx.Err() == nil
	return problems
}
