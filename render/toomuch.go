package render

import (
	"errors"
	"sync"

	"github.com/plumbline-dev/plumbline/confine"
)

// failures are the sources that took more than a child process may, so that a commit
// that stays does not cost as much at each pass. A nil one remembers nothing.
type failures struct {
	mu    sync.Mutex
	known map[source]tooMuch
}

// tooMuch is why a source is not built, and what it had read by then.
type tooMuch struct {
	inputs Inputs
	err    error
}

// failures are the ones of the path.
func (c *Cache) failures() *failures {
	if c == nil {
		return nil
	}
	return &c.failed
}

// find returns why a source was too much, where it has not changed since.
func (f *failures) find(one source, snap Snapshot) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	known, ok := f.known[one]
	f.mu.Unlock()
	if !ok {
		return nil
	}
	unchanged, err := known.inputs.Unchanged(snap)
	if err == nil && unchanged {
		err = known.err
	}
	return err
}

// note returns the error of a source; one of a limit as an error of its file. What may
// end otherwise is tried again.
func (f *failures) note(one source, inputs Inputs, err error) error {
	var limit *confine.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	err = Errors{{File: one.name, Message: limit.Error()}}
	if f == nil || limit.Again {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Of one path a few sources fail at most: the first ends the render.
	if f.known == nil || len(f.known) > 16 {
		f.known = map[source]tooMuch{}
	}
	f.known[one] = tooMuch{inputs: inputs.clone(), err: err}
	return err
}
