package confine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/confine"
)

// TestOthersGoOn: an owner with much work takes turns with the others.
func TestOthersGoOn(t *testing.T) {
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_ = runner.Run(t.Context(), "the work", "loop", func(talk *confine.Talk) error {
				_, err := talk.Receive()
				return err
			})
		})
	}
	defer all.Wait()
	if _, err := ask(t, "echo", "hello"); err != nil {
		t.Error(err)
	}
}

// TestAnOwnerHoldsOnePlace: two heavy jobs of one repository leave a place to the others.
func TestAnOwnerHoldsOnePlace(t *testing.T) {
	heavy := confine.For(t.Context(), "heavy")
	end := make(chan struct{})
	var all sync.WaitGroup
	in := make(chan struct{}, 2)
	for range 2 {
		all.Go(func() {
			err := runner.Run(heavy, "the work", "echo", func(talk *confine.Talk) error {
				in <- struct{}{}
				<-end
				if err := talk.Send("enough"); err != nil {
					return err
				}
				_, err := talk.Receive()
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-in
	light, cancel := context.WithTimeout(confine.For(t.Context(), "light"), time.Minute)
	defer cancel()
	for range 3 { // the second heavy one is queued by then
		if _, err := runner.Ask(light, "the work", "echo", "hello"); err != nil {
			t.Error(err)
		}
	}
	if len(in) > 0 {
		t.Error("both jobs of one owner run")
	}
	close(end)
	all.Wait()
}

// TestWithinBoundsWhatWaits: work that has waited for a place uses what earlier work has left of the budget.
func TestWithinBoundsWhatWaits(t *testing.T) {
	bounded := runner.Within(time.Second)
	spent := atomic.Int32{}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			_, err := bounded.Ask(confine.For(t.Context(), "one"), "the work", "loop", i)
			if err != nil && strings.Contains(err.Error(), "and what was built before it") {
				spent.Add(1)
			}
		})
	}
	all.Wait()
	if spent.Load() != 2 {
		t.Errorf("%d of 3 jobs found the budget spent, want 2", spent.Load())
	}
}

func TestWithinBoundsAll(t *testing.T) {
	bounded := runner.Within(time.Second)
	_, first := bounded.Ask(t.Context(), "the first", "loop", "within")
	_, second := bounded.Ask(t.Context(), "the second", "echo", "x")
	var limit *confine.LimitError
	if first == nil || !errors.As(second, &limit) || !strings.Contains(second.Error(), "the second and what was built before it took more than 1 s") {
		t.Errorf("errors %v and %v", first, second)
	}
	if _, err := ask(t, "echo", "x"); err != nil {
		t.Errorf("others pay for it: %v", err)
	}
}
