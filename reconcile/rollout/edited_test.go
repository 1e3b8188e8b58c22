package rollout_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAnEditByHandEndsNoBrake shows that an edit of the NodePool's template or its class does not remove the brake: no
// commit has fixed the failure. A commit does, whatever another client has changed elsewhere.
func TestAnEditByHandEndsNoBrake(t *testing.T) {
	pool, class := render.Ref{Kind: render.NodePool, Name: "general"}, render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	for name, c := range map[string]struct {
		edited []plan.Change
		stays  bool
	}{
		"the template":     {[]plan.Change{{Ref: pool, Edited: []plan.Field{{Path: "spec.template.spec.expireAfter"}}}}, true},
		"its class":        {[]plan.Change{{Ref: class, Edited: []plan.Field{{Path: "spec.amiSelectorTerms"}}}}, true},
		"nobody":           {[]plan.Change{{Ref: pool, Fields: []plan.Field{{Path: "spec.template.spec.expireAfter"}}}}, false},
		"another field":    {[]plan.Change{{Ref: pool, Edited: []plan.Field{{Path: "spec.weight"}}}}, false},
		"another class":    {[]plan.Change{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "other"}, Edited: []plan.Field{{Path: "spec.role"}}}}, false},
		"the labels of it": {[]plan.Change{{Ref: class, Edited: []plan.Field{{Path: "metadata.labels.team"}}}}, false},
	} {
		w := newWorld(t)
		w.failThree()
		w.pass(true)
		w.live[pool].Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{"labels": map[string]any{"by": "hand"}}
		w.changes = c.edited
		w.pass(true)
		if got := w.sync.Status.PoolRollouts; len(got) != 1 || got[0].BrakedAt != nil != c.stays {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
