package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runs runs the world's deliverer with the bubble's clock, until stop.
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
		w.answer = func(string, Status) error {
			if down.Load() {
				return &UnavailableError{Code: 503}
			}
			return nil
		}
		must(t, w.say(applied("a"))) // before the start
		w.queue = NewQueue(w.client, w.client)
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

// TestAHostThatHangs shows that it delays neither another host nor, for long, the shutdown.
func TestAHostThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now = time.Now()
		w.hang = onGitea.URL
		mirror := onGitea
		mirror.URL = "https://mirror.example.com/acme/fleet"
		both := applied("a")
		both.Hosts = []Target{onGitea, mirror}
		must(t, w.say(both))
		stop := w.runs(t)
		synctest.Wait()
		if len(w.posted) != 1 {
			t.Errorf("posted %v", w.said(0))
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > shutdownTimeout {
			t.Errorf("the end takes %s", took)
		}
		if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 1 || l.Lanes[0].Attempts != 0 {
			t.Errorf("the hanging host's: %+v", l.Lanes[0])
		}
	})
}

// TestAStopLetsAPostEnd, so that it is not repeated.
func TestAStopLetsAPostEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now = time.Now()
		began := make(chan struct{})
		w.answer = func(string, Status) error {
			close(began)
			time.Sleep(shutdownTimeout / 2) //nolint:forbidigo // the bubble's clock
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

// TestAHostThatLosesSightOfTheRepository for hours gets the newest status when it sees it again, on HEAD and on pull
// requests; a status for a former head is given up.
func TestAHostThatLosesSightOfTheRepository(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.deliver()
	w.answer = func(string, Status) error { return &NotFoundError{Repository: "acme/fleet"} }
	must(t, w.say(Update{Head: "a", State: Failure, Description: "rollout stopped"}))
	ask := func(until time.Duration) {
		for end := w.now.Add(until); w.now.Before(end); w.now = w.now.Add(time.Minute) {
			w.deliver()
		}
	}
	ask(2 * unknownCommitTimeout)
	if list, _ := w.queue.Reported(w.sync); len(list) != 1 || !strings.Contains(list[0].Failure, "commit a was not accepted") {
		t.Errorf("reported %+v", list)
	}
	w.answer = nil
	ask(retryRejectedStatus + time.Minute)
	if diff := cmp.Diff([]string{"a success applied", "a failure rollout stopped"}, w.said(0)); diff != "" {
		t.Errorf("posted (-want +got):\n%s", diff)
	}

	w.answer = func(string, Status) error { return &RejectedError{Code: 422} }
	must(t, w.say(Update{Head: "a", State: Failure, Description: "rollout stopped again"}))
	w.deliver()
	must(t, w.say(Update{Head: "b", State: Success, Description: "applied"}))
	ask(2 * retryRejectedStatus)
	if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 1 || l.Lanes[0].Waiting[0].Commit != "b" {
		t.Errorf("waiting %+v", l.Lanes[0].Waiting)
	}

	heads := Heads{Context: "plumbline/prod/x", Of: []HostHeads{{Host: onGitea.Host, Heads: []Head{{Commit: "c", Word: fine}}}}, At: w.now}
	_, err := w.queue.RecordHeads(t.Context(), w.sync, heads)
	must(t, err)
	w.deliver()
	if waiting, _, _ := w.queue.Heads(t.Context(), w.sync, onGitea.Host); len(waiting) != 1 || w.queue.Depths()[client.ObjectKeyFromObject(w.sync)].Length != 2 {
		t.Errorf("heads %+v, %+v wait", waiting, w.queue.Depths())
	}
}

// noon is when tests start.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	waiting = Word{State: Pending, Description: "waiting"}
	fine    = Word{State: Success, Description: "fine"}
)

// waitingIn lists a lane's entries.
func waitingIn(l *Lane) []string {
	var list []string
	for _, e := range l.Waiting {
		list = append(list, fmt.Sprintf("%s %s %s", e.Commit, e.State, e.Description))
	}
	return list
}

// try is an attempt with the next entry.
func try(t *testing.T, l *Lane, at time.Time) attempt {
	t.Helper()
	e, ok := l.next(at)
	if !ok {
		t.Fatalf("nothing may be posted: %+v", l)
	}
	return attempt{entry: e, secret: "1", at: at}
}

func TestANewerWordOvertakesOneThatWaits(t *testing.T) {
	l := &Lane{}
	l.put("a", waiting, "", noon)
	l.put("b", waiting, "", noon)
	l.put("a", fine, "", noon)
	if diff := cmp.Diff([]string{"a success fine", "b pending waiting"}, waitingIn(l)); diff != "" {
		t.Error(diff)
	}
}

func TestAWordThatOvertakesAPostIsKept(t *testing.T) {
	for name, end := range map[string]func(*Lane, attempt){
		"delivered": func(l *Lane, a attempt) { l.delivered(a.entry, noon) },
		"given up":  func(l *Lane, a attempt) { l.failed(a, &RejectedError{Code: 422}, false) },
		"failed":    func(l *Lane, a attempt) { l.failed(a, errors.New("odd"), false) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &Lane{}
			l.put("a", waiting, "", noon)
			a := try(t, l, noon)
			l.put("a", fine, "", noon)
			end(l, a)
			if diff := cmp.Diff([]string{"a success fine"}, waitingIn(l)); diff != "" {
				t.Error(diff)
			}
			if _, ok := l.next(noon); !ok {
				t.Error("it waits for what it has overtaken")
			}
		})
	}
}

func TestPendingNowAndThen(t *testing.T) {
	l := &Lane{}
	l.put("a", waiting, "", noon)
	l.delivered(try(t, l, noon).entry, noon)
	l.put("a", Word{State: Pending, Description: "waiting for more"}, "", noon.Add(time.Second))
	l.put("b", waiting, "", noon.Add(time.Second))
	if e := try(t, l, noon.Add(time.Second)).entry; e.Commit != "b" {
		t.Errorf("%s is posted, want another commit's", e.Commit)
	}
	at, _ := l.due()
	if !at.Equal(noon.Add(time.Second)) && at.After(noon.Add(postEvery)) {
		t.Errorf("due %s", at)
	}
	if e := try(t, l, noon.Add(postEvery)).entry; e.Commit != "a" {
		t.Errorf("in its time: %s", e.Commit)
	}
	l.put("a", fine, "", noon.Add(time.Second))
	if e := try(t, l, noon.Add(time.Second)).entry; e.Commit != "a" || e.State != Success {
		t.Errorf("a final word waits: %+v", e)
	}
}

// TestAVerdictThatFlapsIsSpaced: the first final status is posted at once, and then at most one pending and one final
// status in five seconds.
func TestAVerdictThatFlapsIsSpaced(t *testing.T) {
	l := &Lane{}
	broken := Word{State: Failure, Description: "broken"}
	posted := []string{}
	for i := range 120 { // half a minute, a reconcile each quarter of a second
		now := noon.Add(time.Duration(i) * 250 * time.Millisecond)
		l.put("a", []Word{waiting, broken}[i%2], "", now)
		if e, ok := l.next(now); ok {
			l.delivered(e, now)
			posted = append(posted, fmt.Sprintf("%s %s", e.State, now.Sub(noon)))
		}
	}
	if len(posted) > 13 || len(posted) < 6 {
		t.Errorf("%d are posted in half a minute: %v", len(posted), posted)
	}
	if want := []string{"pending 0s", "failure 250ms"}; !cmp.Equal(want, posted[:2]) {
		t.Errorf("first %v, want %v", posted[:2], want)
	}
	l.put("a", fine, "", noon.Add(time.Minute))
	if e, ok := l.next(noon.Add(time.Minute)); !ok || e.Word != fine {
		t.Errorf("a final word waits once it flaps no more: %+v", l.Waiting)
	}
	if len(l.Posted) > 1 {
		t.Errorf("what was posted long ago is kept: %v", l.Posted)
	}
}

// TestAPendingThatWasPostedLate counts from when the host received it.
func TestAPendingThatWasPostedLate(t *testing.T) {
	l := &Lane{}
	l.put("a", waiting, "", noon)
	a := try(t, l, noon)
	l.put("a", Word{State: Pending, Description: "more"}, "", noon.Add(time.Second))
	l.delivered(a.entry, noon.Add(3*time.Second))
	if at, _ := l.due(); !at.Equal(noon.Add(3*time.Second + postEvery)) {
		t.Errorf("due %s after noon", at.Sub(noon))
	}
}

func TestTheHostIsAway(t *testing.T) {
	l := &Lane{}
	l.put("a", fine, "", noon)
	l.put("b", fine, "", noon)
	at := noon
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, longestWait, longestWait} {
		l.failed(try(t, l, at), &UnavailableError{Code: 503}, false)
		next, _ := l.due()
		if next.Sub(at) != want {
			t.Errorf("after %d failures it is tried in %s, want %s", i+1, next.Sub(at), want)
		}
		if _, ok := l.next(next.Add(-1)); ok {
			t.Error("another entry is posted meanwhile")
		}
		if told := l.trouble() != ""; told != (i+1 >= reportAfter) {
			t.Errorf("told after %d failures: %t", i+1, told)
		}
		at = next
	}
	l.delivered(try(t, l, at).entry, at)
	if l.trouble() != "" || l.Attempts != 0 {
		t.Errorf("it is back, and: %+v", l)
	}
	try(t, l, at)
}

func TestJitterShortensAWait(t *testing.T) {
	for _, attempts := range []int{1, 5, 9, 1000} {
		whole, least := backoff(attempts, 0), backoff(attempts, 1)
		if whole > longestWait || least != whole*3/4 {
			t.Errorf("attempt %d: from %s to %s", attempts, least, whole)
		}
	}
}

func TestTheHostSaysWhen(t *testing.T) {
	for name, c := range map[string]struct{ says, want time.Duration }{
		"nothing": {0, time.Second},
		"a time":  {7 * time.Minute, 7*time.Minute + time.Second},
		"a year":  {365 * 24 * time.Hour, longestLimit + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Lane{}
			l.put("a", fine, "", noon)
			l.failed(try(t, l, noon), &RateLimitedError{RetryAfter: c.says}, false)
			if at, _ := l.due(); at.Sub(noon) != c.want {
				t.Errorf("tried again in %s, want %s", at.Sub(noon), c.want)
			}
			if told := l.trouble() != ""; told != (c.says > longestWait) {
				t.Errorf("told: %t", told)
			}
		})
	}
}

// TestOneStatusThatFails does not delay the others.
func TestOneStatusThatFails(t *testing.T) {
	for name, err := range map[string]error{"500": &UnavailableError{Code: 500}, "404": &NotFoundError{}, "409": &RejectedError{Code: 409}} {
		t.Run(name, func(t *testing.T) {
			l := &Lane{}
			l.put("a", fine, "", noon)
			l.put("b", fine, "", noon)
			l.failed(try(t, l, noon), err, false)
			b := try(t, l, noon)
			if b.entry.Commit != "b" {
				t.Fatalf("%s is next", b.entry.Commit)
			}
			l.delivered(b.entry, noon)
			if at, _ := l.due(); at.Sub(noon) != time.Second || len(l.Waiting) != 1 {
				t.Errorf("again in %s: %v", at.Sub(noon), waitingIn(l))
			}
		})
	}
}

func TestAStatusThatIsRejected(t *testing.T) {
	l := &Lane{}
	l.put("a", fine, "", noon)
	l.put("b", fine, "", noon)
	l.failed(try(t, l, noon), &RejectedError{Code: 422, Said: "too many"}, false)
	b := try(t, l, noon)
	l.delivered(b.entry, noon)
	if got := l.trouble(); !strings.Contains(got, "given up on commit a") || !strings.Contains(got, "too many") || len(l.Waiting) != 0 {
		t.Errorf("trouble %q, waiting %v", got, waitingIn(l))
	}
}

func TestARefusedSecret(t *testing.T) {
	l := &Lane{}
	l.put("a", fine, "", noon)
	if l.rejectsSecret("1", noon) {
		t.Error("a secret is distrusted that was never refused")
	}
	l.failed(try(t, l, noon), &UnauthorizedError{Host: "git.example.com"}, false)
	if !strings.Contains(l.trouble(), "git.example.com") {
		t.Errorf("it is told at once, and: %q", l.trouble())
	}
	for name, c := range map[string]struct {
		secret string
		after  time.Duration
		want   bool
	}{
		"the same":             {"1", time.Minute, true},
		"another":              {"2", time.Minute, false},
		"the same, long after": {"1", retryRejectedSecret, false},
	} {
		if got := l.rejectsSecret(c.secret, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: distrusted %t", name, got)
		}
	}
	l.delivered(attempt{entry: l.Waiting[0]}.entry, noon)
	if l.trouble() != "" || l.rejectsSecret("1", noon) {
		t.Errorf("it is taken again, and: %+v", l)
	}
}

// TestTroubleDoesNotTick: it is in the status, which is written whenever it changes.
func TestTroubleDoesNotTick(t *testing.T) {
	l := &Lane{}
	l.put("a", fine, "", noon)
	at, told := noon, map[string]bool{}
	for range 20 {
		l.failed(try(t, l, at), &UnavailableError{Host: "git.example.com", Err: errors.New("dial: no route\n to host")}, false)
		at, _ = l.due()
		told[l.trouble()] = true
	}
	delete(told, "")
	if len(told) != 1 {
		t.Errorf("told %v", told)
	}
	for text := range told {
		if strings.ContainsAny(text, "\n") {
			t.Errorf("on several lines: %q", text)
		}
	}
}
