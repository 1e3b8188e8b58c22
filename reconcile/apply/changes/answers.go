package changes

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/memory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// lagLasts is how long the watch cache may lack what was written. After that it is believed:
// the API server may have been restored to an earlier state.
const lagLasts = 10 * time.Second

// answers are the definitions as the API server has answered the last writes, for as long as
// the watch cache has older ones. A pass over those would take what it has written itself for
// an edit by another client, and write it again.
type answers map[render.Ref]answer

type answer struct {
	object *unstructured.Unstructured
	at     time.Time
}

// noteAnswers keeps what this pass has written.
func (s *Step) noteAnswers() {
	for _, w := range s.applied.Written {
		if w.Object == nil {
			continue
		}
		if s.Memory.answers == nil {
			s.Memory.answers = answers{}
		}
		s.Memory.answers[w.Ref] = answer{object: w.Object, at: s.Now}
	}
}

// Newest is what lives, where each definition is no older than the answer to the last write.
func (m *Memory) Newest(live plan.Live, now time.Time) plan.Live {
	for ref, a := range m.answers {
		cached := live.Objects[ref]
		lasts := now.Sub(a.at)
		if cached == nil || cached.GetUID() != a.object.GetUID() || lasts < 0 || lasts > lagLasts || !memory.Older(cached.GetResourceVersion(), a.object.GetResourceVersion()) {
			delete(m.answers, ref)
			continue
		}
		live.Objects[ref] = plan.NewObject(a.object)
	}
	return live
}
