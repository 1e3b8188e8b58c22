package queue

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestAHostThatIsTakenOut: what waits for it goes, and a log line says how much.
func TestAHostThatIsTakenOut(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("b", "b", "a")))
	var log strings.Builder
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{}))
	say := func(hosts ...Target) {
		t.Helper()
		next := applied("b")
		next.Context, next.At, next.Hosts = "plumbline/prod/x", w.now, hosts
		must(t, w.queue.Say(ctx, w.sync, next))
	}
	say(gitea)
	if log.Len() > 0 {
		t.Fatalf("nothing is dropped, and it says %s", log.String())
	}
	say()
	if l, _ := w.stored(); len(l.Lanes) > 0 {
		t.Errorf("stored %+v", l)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, gitea.URL) || !strings.Contains(got, `"statuses"=2`) {
		t.Errorf("it says %q", got)
	}
	say()
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("it says it again: %s", log.String())
	}
}
