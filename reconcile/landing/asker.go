package landing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// Every is how long an answer counts, as long as what was asked about has not begun.
	Every = 10 * time.Minute
	// again is when what could not be found out is asked again, and what has no place; that then at longer and
	// longer intervals.
	again = time.Minute
	// soon is how long after an answer a pool that has changed is asked about.
	soon = 20 * time.Second
	// patience is how long an answer is waited for.
	patience = 2 * time.Minute
)

// Asker asks for one NodeSync beside its passes, one question at a time, and keeps the last answer. The
// zero value has asked nothing.
type Asker struct {
	mu     sync.Mutex
	asking bool
	// about is what the answer is to, which was asked for at a time, and pools are those that there were then.
	about, pools string
	asked        time.Time
	answer       plan.Landing
	// until is when it is asked again, and waits how long was waited since the answer before.
	until time.Time
	waits time.Duration
}

// For returns what answers for a Plan by a Simulator, which is the Plan's without an answer; nil where there is no
// Simulator. inputs is another one where Git has other definitions: a commit that changes none is no other question.
// requested is another one where a person wants another look, and done is called when there is a new answer.
func (a *Asker) For(s *Simulator, now time.Time, inputs, requested string, done func()) func(context.Context, *plan.Plan, plan.Live) (plan.Landing, time.Time) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
		return a.answerTo(ctx, question{
			about: fmt.Sprint(inputs, made.Begins(), made.Approvals(), live.LeavingElsewhere), pools: requested + "\n" + poolsOf(made, live), done: done,
			ask: func(ctx context.Context) (map[string][]plan.Unschedulable, error) { return s.Ask(ctx, made, live) },
		}, now)
	}
}

// question is what is asked.
type question struct {
	// about names the Plan, and what of it begins: another name is another question. With other pools it is the same one,
	// whose answer may be another.
	about, pools string
	// ask answers, and done is called when it has.
	ask  func(context.Context) (map[string][]plan.Unschedulable, error)
	done func()
}

// answerTo is what is known, and when to look again. It does not wait: what is not known is asked in a goroutine,
// which ends within two minutes.
func (a *Asker) answerTo(ctx context.Context, q question, now time.Time) (plan.Landing, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, until := a.about == q.about && !a.until.IsZero(), a.until
	if changed := a.asked.Add(soon); q.pools != a.pools && changed.Before(until) {
		until = changed
	}
	if !a.asking && (!known || !now.Before(until)) {
		a.asking = true
		go a.ask(context.WithoutCancel(ctx), q, now)
	}
	if a.asking {
		until = now.Add(patience) // done comes before
	}
	if known {
		return a.answer, until
	}
	return plan.Landing{Asking: true}, until
}

// poolsOf are the NodePools of the cluster that stay, each with what of it says whether it takes pods.
func poolsOf(made *plan.Plan, live plan.Live) string {
	leaving := made.Leaving(live)
	var pools []string
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool && !slices.Contains(leaving, ref) {
			pools = append(pools, fmt.Sprint(ref.Name, " ", object.GetGeneration(), " ", observe.Ready(object).Ready))
		}
	}
	slices.Sort(pools)
	return strings.Join(pools, "\n")
}

func (a *Asker) ask(ctx context.Context, q question, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := q.ask(ctx)
	a.mu.Lock()
	switch {
	case len(found) == 0 && err == nil:
		a.waits = Every
	case err != nil || a.about != q.about || len(a.answer.Nowhere) == 0:
		a.waits = again
	default:
		a.waits = min(2*a.waits, Every)
	}
	a.asked, a.pools = now, q.pools
	a.asking, a.about, a.answer, a.until = false, q.about, plan.Landing{Known: true, Nowhere: found}, now.Add(a.waits)
	if err != nil {
		a.answer = plan.Landing{Unknown: err.Error()}
	}
	a.mu.Unlock()
	q.done()
}
