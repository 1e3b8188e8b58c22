package step

import (
	"context"
	"time"
)

// Timing is how long one step of a pass took.
type Timing struct {
	Step     Name
	Duration time.Duration
}

// Run takes steps in order until one fails. It returns how long each took, the one that failed
// among them. reached is called for each before it is taken.
func Run(ctx context.Context, steps []Step, now func() time.Time, reached func(name string)) (took []Timing, err error) {
	for _, s := range steps {
		reached(string(s.Name))
		began := now()
		err = s.Take(ctx)
		took = append(took, Timing{Step: s.Name, Duration: now().Sub(began)})
		if err != nil {
			return took, err
		}
	}
	return took, nil
}
