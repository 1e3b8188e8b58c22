package landing

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// Every is how long an answer counts, as long as what was asked about has not begun.
	Every = 10 * time.Minute
	// again is when what could not be found out is asked again.
	again = time.Minute
	// patience is how long an answer is waited for.
	patience = 2 * time.Minute
)

// Asker asks for one NodeSync beside its passes, one question at a time, and keeps the last answer. The
// zero value has asked nothing.
type Asker struct {
	mu     sync.Mutex
	asking bool
	// about is what the answer is to.
	about  string
	answer plan.Landing
	// until is when it is asked again.
	until time.Time
}

// For returns what answers for a Plan by a Simulator, which is the Plan's without an answer; nil where there is no
// Simulator. done is called when there is a new answer.
func (a *Asker) For(s *Simulator, now time.Time, done func()) func(context.Context, *plan.Plan, plan.Live) (plan.Landing, time.Time) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
		return a.answerTo(ctx, question{
			about: strings.Join(append([]string{made.Revision}, made.Begins()...), "\n"), done: done,
			ask: func(ctx context.Context) (map[string][]plan.Unschedulable, error) { return s.Ask(ctx, made, live) },
		}, now)
	}
}

// question is what is asked.
type question struct {
	// about names the Plan, and what of it begins: another name is another question.
	about string
	// ask answers, and done is called when it has.
	ask  func(context.Context) (map[string][]plan.Unschedulable, error)
	done func()
}

// answerTo is what is known, and when to look again. It does not wait: what is not known is asked in a goroutine,
// which ends within two minutes.
func (a *Asker) answerTo(ctx context.Context, q question, now time.Time) (plan.Landing, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.about == q.about && !a.until.IsZero()
	if !a.asking && (!known || !now.Before(a.until)) {
		a.asking = true
		go a.ask(context.WithoutCancel(ctx), q, now)
	}
	if known {
		return a.answer, a.until
	}
	return plan.Landing{Asking: true}, now.Add(patience)
}

func (a *Asker) ask(ctx context.Context, q question, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := q.ask(ctx)
	a.mu.Lock()
	a.asking, a.about, a.answer, a.until = false, q.about, plan.Landing{Known: true, Nowhere: found}, now.Add(Every)
	if err != nil {
		a.answer, a.until = plan.Landing{Unknown: err.Error()}, now.Add(again)
	}
	a.mu.Unlock()
	q.done()
}
