package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// TestAHostThatLosesSightOfTheRepository for hours gets the newest word when it sees it again, on
// HEAD and on pull requests; what is on no head any more is given up.
func TestAHostThatLosesSightOfTheRepository(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.deliver()
	w.answer = func(string, report.Status) error { return &report.NotFoundError{Repository: "acme/fleet"} }
	must(t, w.say(Update{Head: "a", State: report.Failure, Description: "rollout stopped"}))
	ask := func(until time.Duration) {
		for end := w.now.Add(until); w.now.Before(end); w.now = w.now.Add(time.Minute) {
			w.deliver()
		}
	}
	ask(2 * patience)
	if list, _ := w.queue.Reported(w.sync); len(list) != 1 || !strings.Contains(list[0].Failure, "commit a is not taken") {
		t.Errorf("reported %+v", list)
	}
	w.answer = nil
	ask(lostAgain + time.Minute)
	if diff := cmp.Diff([]string{"a success applied", "a failure rollout stopped"}, w.said(0)); diff != "" {
		t.Errorf("posted (-want +got):\n%s", diff)
	}

	w.answer = func(string, report.Status) error { return &report.RejectedError{Code: 422} }
	must(t, w.say(Update{Head: "a", State: report.Failure, Description: "rollout stopped again"}))
	w.deliver()
	must(t, w.say(Update{Head: "b", State: report.Success, Description: "applied"}))
	ask(2 * lostAgain)
	if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 1 || l.Lanes[0].Waiting[0].Commit != "b" {
		t.Errorf("waiting %+v", l.Lanes[0].Waiting)
	}

	heads := Heads{Context: "plumbline/prod/x", Of: []HostHeads{{Host: gitea.Host, Heads: []Head{{Commit: "c", Word: fine}}}}, At: w.now}
	_, err := w.queue.SayHeads(t.Context(), w.sync, heads)
	must(t, err)
	w.deliver()
	if waiting, _ := w.queue.Heads(t.Context(), w.sync, gitea.Host); len(waiting) != 1 || w.queue.Depths()[client.ObjectKeyFromObject(w.sync)].Length != 2 {
		t.Errorf("heads %+v, %+v wait", waiting, w.queue.Depths())
	}
}
