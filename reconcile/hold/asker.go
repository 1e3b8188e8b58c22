package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// Every is how often a condition is asked while a rollout goes on.
	Every = 15 * time.Second
	// soon is how long after a question a pass looks for its answer.
	soon = time.Second
	// maxFailure is how long the words of a failure are, in bytes.
	maxFailure = 256
)

// Asker asks the conditions of one NodeSync beside its passes, and keeps the last answer to each. The
// zero value has asked nothing.
type Asker struct {
	mu    sync.Mutex
	known map[string]*state
}

// state is what is known of one condition.
type state struct {
	of      v1alpha1.RolloutHold
	asked   time.Time
	asking  bool
	answers bool // there was an answer, or a failure
	words   string
	failure string
}

// Answer is what the conditions of a NodeSync come to.
type Answer struct {
	// Held says which hold; empty where none does. Unasked says that one has not answered yet.
	Held    string
	Unasked bool
	// Next is when to look again.
	Next time.Time
}

// Answers are the last ones to the conditions of a NodeSync. Those that are due are asked again, in
// goroutines that a pass does not wait for; they end with their time-outs.
func (a *Asker) Answers(ctx context.Context, with Secrets, holds []v1alpha1.RolloutHold, now time.Time) Answer {
	if len(holds) == 0 {
		a.Forget()
		return Answer{}
	}
	answer := Answer{Next: now.Add(Every)}
	var held []string
	for _, of := range holds {
		s := a.due(ctx, of, with, now)
		if s.asking {
			answer.Next = now.Add(soon)
		}
		switch {
		case !s.answers:
			answer.Unasked = true
		case s.failure != "" && of.Unreachable != v1alpha1.UnreachableIgnore:
			held = append(held, fmt.Sprintf("%s cannot be asked (%s), and its unreachable is Hold", of.Name, s.failure))
		case s.failure == "" && s.words != "":
			held = append(held, fmt.Sprintf("%s: %s", of.Name, s.words))
		}
	}
	slices.Sort(held)
	answer.Held = strings.Join(held, "; ")
	return answer
}

// Forget drops what is known.
func (a *Asker) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.known)
}

// due is what is known of a condition, which is asked where it is time.
func (a *Asker) due(ctx context.Context, of v1alpha1.RolloutHold, with Secrets, now time.Time) state {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.known[of.Name]
	if s == nil || !equality.Semantic.DeepEqual(s.of, of) {
		s = &state{of: of}
		if a.known == nil {
			a.known = map[string]*state{}
		}
		a.known[of.Name] = s
	}
	if s.asking || !s.asked.IsZero() && now.Before(s.asked.Add(Every)) && !now.Before(s.asked) {
		return *s
	}
	s.asked, s.asking = now, true
	go a.ask(context.WithoutCancel(ctx), s, with)
	return *s
}

func (a *Asker) ask(ctx context.Context, s *state, secrets Secrets) {
	opening, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	with, err := secrets.open(opening, s.of)
	words, hidden := "", redact.Credentials(with.Token, with.Password)
	if err == nil {
		words, err = ask(ctx, s.of, with)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.asking, s.answers, s.words, s.failure = false, true, hidden.Hide(words), ""
	if err != nil {
		s.failure = finding.Bounded(hidden.Hide(err.Error()), maxFailure)
	}
}
