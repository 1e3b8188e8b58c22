package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

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
		c.Message = fmt.Sprintf("%s is leaving, and is created again when it is gone: %s", c.Ref, strings.Join(refused.Problems, "; "))
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
