package changes

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatWasWrittenIsNotTakenForAnEdit: the watch cache may lag behind what the last pass has
// written, and is believed again once it has caught up, or has lagged for long.
func TestWhatWasWrittenIsNotTakenForAnEdit(t *testing.T) {
	at := func(uid types.UID, version string) *unstructured.Unstructured {
		u := object("general")
		u.SetUID(uid)
		u.SetResourceVersion(version)
		return u
	}
	for name, c := range map[string]struct {
		cached *unstructured.Unstructured
		after  time.Duration
		want   string
	}{
		"the cache lags":             {at("1", "99"), time.Second, "100"},
		"it has caught up":           {at("1", "100"), time.Second, "100"},
		"it has a newer one":         {at("1", "101"), time.Second, "101"},
		"it lags for long":           {at("1", "99"), time.Minute, "99"},
		"the clock was put back":     {at("1", "99"), -time.Minute, "99"},
		"it has another object":      {at("2", "98"), time.Second, "98"},
		"it has none: it is deleted": {nil, time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ref := pool("general")
			s := newStep(&server{})
			s.applied = apply.Result{Written: []apply.Written{{Ref: ref, Object: at("1", "100")}, {Ref: pool("unanswered")}}}
			s.noteAnswers()
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			if c.cached != nil {
				live.Objects[ref] = plan.NewObject(c.cached)
			}
			found := s.Memory.Newest(live, s.Now.Add(c.after)).Objects[ref]
			got := ""
			if found != nil {
				got = found.GetResourceVersion()
			}
			if got != c.want {
				t.Errorf("resourceVersion %q, want %q", got, c.want)
			}
			if kept := len(s.Memory.answers) > 0; kept != (name == "the cache lags") {
				t.Errorf("kept: %t", kept)
			}
		})
	}
}
