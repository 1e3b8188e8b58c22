package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestAnUnknownCommitIsGivenUpInTheEnd(t *testing.T) {
	l := &Lane{}
	l.put("0123456789", fine, "", noon)
	at := noon
	for tries := 0; len(l.Waiting) > 0; tries++ {
		if tries > 100 {
			t.Fatal("it is tried for ever")
		}
		if l.Lost != "" {
			t.Errorf("given up after %s", at.Sub(noon))
		}
		l.failed(try(t, l, at), &NotFoundError{Repository: "acme/fleet"}, false)
		if next, any := l.due(); any {
			at = next
		}
	}
	if at.Sub(noon) < unknownCommitTimeout || !strings.Contains(l.trouble(), "given up on commit 0123456: ") {
		t.Errorf("given up after %s: %s", at.Sub(noon), l.trouble())
	}
}

// TestTheNewestIsNotGivenUp: otherwise the host would keep showing an older one, perhaps a success. It is retried every
// quarter of an hour, or when a user requests it, and the problem is reported in the meantime.
func TestTheNewestIsNotGivenUp(t *testing.T) {
	for name, err := range map[string]error{"404": &NotFoundError{Repository: "acme/fleet"}, "422": &RejectedError{Code: 422, Said: "too many"}} {
		t.Run(name, func(t *testing.T) {
			l := &Lane{}
			l.put("0123456789", fine, "", noon)
			at, told := noon, ""
			for at.Before(noon.Add(5 * unknownCommitTimeout)) {
				l.failed(try(t, l, at), err, true)
				next, waits := l.due()
				if !waits || next.Sub(at) > retryRejectedStatus {
					t.Fatalf("after %s: again in %s, %v", at.Sub(noon), next.Sub(at), waitingIn(l))
				}
				if lasting := at.After(noon.Add(unknownCommitTimeout)); lasting && (next.Sub(at) != retryRejectedStatus || told != "" && l.trouble() != told) {
					t.Fatalf("after %s: again in %s, and it tells %q after %q", at.Sub(noon), next.Sub(at), l.trouble(), told)
				} else if lasting {
					told = l.trouble()
				}
				at = next
			}
			if !strings.Contains(told, "0123456 was not accepted, and plumbline retries every 15m0s: "+err.Error()) {
				t.Errorf("it tells %q", told)
			}
			l.retry()
			l.delivered(try(t, l, at.Add(-time.Minute)).entry, at)
			if l.trouble() != "" || len(l.Waiting) > 0 {
				t.Errorf("it is taken, and: %q %v", l.trouble(), waitingIn(l))
			}
		})
	}
}

// TestAHostThatIsTakenOut: its waiting statuses are dropped, and a log line has their number.
func TestAHostThatIsTakenOut(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("b", "b", "a")))
	var log strings.Builder
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{}))
	say := func(hosts ...Target) {
		t.Helper()
		next := applied("b")
		next.Context, next.At, next.Hosts = "plumbline/prod/x", w.now, hosts
		must(t, w.queue.Record(ctx, w.sync, next))
	}
	say(onGitea)
	if log.Len() > 0 {
		t.Fatalf("nothing is dropped, and it says %s", log.String())
	}
	say()
	if l, _ := w.stored(); len(l.Lanes) > 0 {
		t.Errorf("stored %+v", l)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, onGitea.URL) || !strings.Contains(got, `"statuses"=2`) {
		t.Errorf("it says %q", got)
	}
	say()
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("it says it again: %s", log.String())
	}
}

// TestACommitThatSilencesTheHost does not stop the reports of others, nor do two of them for long.
func TestACommitThatSilencesTheHost(t *testing.T) {
	for bombs, most := range map[int]time.Duration{0: 0, 1: 0, 2: longestWait} {
		l := &Lane{}
		for i := range bombs {
			l.put(fmt.Sprintf("bomb-%d", i), waiting, "", noon)
		}
		pushed := noon.Add(time.Hour)
		for now := noon; ; now = now.Add(time.Second) {
			if now.Equal(pushed) {
				l.put("late", fine, "", now)
			}
			e, due := l.next(now)
			if due && e.Commit == "late" {
				if waited := now.Sub(pushed); waited > most {
					t.Errorf("%d commits keep it waiting for %s, want at most %s", bombs, waited, most)
				}
				break
			}
			if due {
				l.failed(attempt{entry: e, at: now}, &UnavailableError{Err: errors.New("no answer in time")}, false)
			}
			if now.After(pushed.Add(time.Hour)) {
				t.Errorf("%d commits keep it waiting for an hour", bombs)
				break
			}
		}
	}
}

// TestATokenIsReadWhenAStatusIsDue and stored nowhere: the queue has the name of its Secret, and the Secret's current
// content is sent.
func TestATokenIsReadWhenAStatusIsDue(t *testing.T) {
	w := newWorld(t)
	holds := func(token string) {
		t.Helper()
		secret := &corev1.Secret{}
		must(t, w.client.Get(t.Context(), types.NamespacedName{Namespace: w.sync.Namespace, Name: "token"}, secret))
		secret.Data["token"] = []byte(token)
		must(t, w.client.Update(t.Context(), secret))
	}
	must(t, w.say(applied("a")))
	if len(w.tokens) > 0 {
		t.Errorf("a status that waits has its token read: %q", w.tokens)
	}
	holds("rotated")
	w.deliver()
	must(t, w.say(applied("b")))
	holds("again")
	w.now = w.now.Add(longestWait)
	w.deliver()
	if want := []string{"rotated", "again"}; !slices.Equal(want, w.tokens) || len(w.posted) != 2 {
		t.Errorf("sent with %q, want %q; posted %v", w.tokens, want, w.said(0))
	}
	must(t, w.say(applied("c"))) // a waiting status names it
	raw, err := json.Marshal(w.object(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, token := range []string{"s3cret", "rotated", "again"} {
		if strings.Contains(text, token) {
			t.Errorf("the queue has the token: %s", text)
		}
	}
	if !strings.Contains(text, `\"token\"`) {
		t.Errorf("the queue does not name the Secret: %s", text)
	}
}
