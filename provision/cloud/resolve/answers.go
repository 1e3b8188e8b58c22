package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// goodFor is how long an answer holds: Karpenter looks for AMIs and security groups every five
	// minutes (karpenter-provider-aws pkg/controllers/nodeclass, 1.14.1).
	goodFor = 5 * time.Minute
	// badFor is how long an error or an empty answer holds: what it lacks may be there soon.
	badFor = time.Minute
)

// answers are those that AWS gave, by question.
type answers struct {
	mu sync.Mutex
	of map[string]answer
}

type answer struct {
	out   any
	err   error
	until time.Time
}

// find is an answer that still holds.
func (a *answers) find(key string, now time.Time) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.of[key]
	return found, ok && now.Before(found.until)
}

// keep notes an answer, and forgets those that hold no more.
func (a *answers) keep(key string, kept answer, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.of, func(_ string, old answer) bool { return !now.Before(old.until) })
	if a.of == nil {
		a.of = map[string]answer{}
	}
	a.of[key] = kept
}

// ask returns the answer that is known, or asks within the budget. empty says of an answer that
// it has nothing.
func ask[In, Out any](ctx context.Context, r *Resolver, action string, in *In, call func(context.Context, *In) (*Out, error), empty func(*Out) bool) (*Out, error) {
	question, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("name the question %s: %w", action, err)
	}
	key, now := action+string(question), r.now()
	if known, ok := r.answers.find(key, now); ok {
		out, _ := known.out.(*Out)
		return out, known.err
	}
	if err := r.budget.Take(now, action, 1); err != nil {
		return nil, err
	}
	out, err := call(ctx, in)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	until := now.Add(goodFor)
	if err != nil || empty(out) {
		until = now.Add(badFor)
	}
	r.answers.keep(key, answer{out: out, err: err, until: until}, now)
	return out, err
}
