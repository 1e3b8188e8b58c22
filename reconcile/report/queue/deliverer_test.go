package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// runs has the world's deliverer run, by the bubble's clock, until stop.
func (w *world) runs(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	w.deliverer.Now = time.Now
	ended := make(chan error, 1)
	go func() { ended <- w.deliverer.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestADelivererPostsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now = time.Now()
		var down atomic.Bool
		w.answer = func(string, report.Status) error {
			if down.Load() {
				return &report.UnavailableError{Code: 503}
			}
			return nil
		}
		must(t, w.say(applied("a"))) // before the start
		w.queue = New(w.client, w.client)
		w.deliverer.Queue = w.queue
		stop := w.runs(t)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a success applied"}, w.said(0)); diff != "" {
			t.Errorf("left from before (-want +got):\n%s", diff)
		}

		down.Store(true)
		w.now = time.Now()
		must(t, w.say(applied("b", "b")))
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if len(w.posted) != 1 || w.looks == 0 {
			t.Errorf("posted %v, %d passes are asked for", w.said(0), w.looks)
		}
		down.Store(false)
		time.Sleep(longestWait) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if diff := cmp.Diff([]string{"b success applied"}, w.said(1)); diff != "" {
			t.Errorf("when the host is back (-want +got):\n%s", diff)
		}
		stop()
		if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 0 {
			t.Errorf("stored %+v", l)
		}
	})
}

// TestAHostThatHangs holds up neither another host nor the end for long.
func TestAHostThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now = time.Now()
		w.hang = gitea.URL
		mirror := gitea
		mirror.URL = "https://mirror.example.com/acme/fleet"
		both := applied("a")
		both.Hosts = []Target{gitea, mirror}
		must(t, w.say(both))
		stop := w.runs(t)
		synctest.Wait()
		if len(w.posted) != 1 {
			t.Errorf("posted %v", w.said(0))
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > farewell {
			t.Errorf("the end takes %s", took)
		}
		if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 1 || l.Lanes[0].Attempts != 0 {
			t.Errorf("the hanging host's: %+v", l.Lanes[0])
		}
	})
}

// TestAStopLetsAPostEnd, so that it is not made again.
func TestAStopLetsAPostEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now = time.Now()
		began := make(chan struct{})
		w.answer = func(string, report.Status) error {
			close(began)
			time.Sleep(farewell / 2) //nolint:forbidigo // the bubble's clock
			return nil
		}
		must(t, w.say(applied("a")))
		stop := w.runs(t)
		<-began
		stop()
		if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 0 || len(w.posted) != 1 {
			t.Errorf("posted %v, stored %+v", w.said(0), l)
		}
	})
}
