package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// connected connects to a cluster with a kubeconfig.
func connected(t *testing.T, kubeconfig string) *clusterAccess {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &kubeconfig
	c, err := connect(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// heardTerminal reports each write to a terminal.
type heardTerminal struct {
	terminal

	wrote chan<- struct{}
}

// Write writes, and reports it.
func (h *heardTerminal) Write(text []byte) (int, error) {
	n, err := h.terminal.Write(text)
	h.wrote <- struct{}{}
	return n, err
}

// TestStatusIsLive: on a terminal, the status is redrawn each second. Ages advance without changes, and nodes are
// recounted when a watch reports a change.
func TestStatusIsLive(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "xterm")
	s, kubeconfig := serve(t, verdicts()["rolling-out"])
	pools(s, 1, 2)
	c, news, now, ticks := connected(t, kubeconfig), newChangeSignal(), midday.Add(5*time.Second), make(chan time.Time)
	ctx, interrupt := context.WithCancel(t.Context())
	screen := onTerminal(t, 100, func(tty *os.File) {
		done := make(chan error)
		board := &statusBoard{args: []string{"prod"}, shown: steady{}}
		wrote := make(chan struct{})
		go func() { done <- board.follow(ctx, c, &heardTerminal{tty, wrote}, news, &leaderCheck{}, now, ticks) }()
		drawn := func(after time.Duration) {
			ticks <- now.Add(after)
			<-wrote
		}
		<-wrote // the write that clears the screen
		<-wrote
		drawn(time.Second)
		s.mu.Lock()
		delete(s.objects, "/apis/karpenter.sh/v1/nodeclaims/pool-00-1")
		s.mu.Unlock()
		drawn(2 * time.Second) // the change is not reported yet
		news.signal()
		news.refuse("NodeClaims", true)
		drawn(3 * time.Second)
		interrupt()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	before, frames, _ := strings.Cut(screen, "␛[H␛[2J")
	var shown []string
	for _, frame := range strings.Split(frames, "␛[H")[1:] {
		frame, drawn := strings.CutSuffix(strings.ReplaceAll(frame, "␛[K", ""), "␛[J")
		for _, want := range []string{"nodesync/prod: rolling out: 0 of 2 nodes replaced", "\nnext       Karpenter replaces the other nodes"} {
			if !drawn || !strings.Contains(frame, want) {
				t.Errorf("a frame does not show %q:\n%s", want, frame)
			}
		}
		_, since, _ := strings.Cut(frame, " for ")
		_, pool, _ := strings.Cut(frame, "\npool-00 ")
		note := map[bool]string{true: " (note)"}[strings.Contains(frame, "\nNodeClaims cannot be watched: read every 5s\n")]
		shown = append(shown, strings.Fields(since)[0]+" "+strings.Fields(pool)[1]+note)
	}
	if want := []string{"5s 2", "6s 2", "7s 2", "8s 1 (note)"}; before != "" || strings.Contains(frames, "␛[2J") || cmp.Diff(want, shown) != "" {
		t.Errorf("shows %q, want %q:\n%s", shown, want, screen)
	}
}

// TestNewsOfWatches: a change that a watch reports is news, and a kind that cannot be watched is listed.
func TestNewsOfWatches(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	s.watched = func(*apiServer, string) *v1alpha1.NodeSync { return verdicts()["in-sync"] }
	c, news := connected(t, kubeconfig), newChangeSignal()
	s.mu.Lock()
	s.refused["/apis/karpenter.sh/v1/nodeclaims"] = http.StatusForbidden
	s.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	news.follow(ctx, c, "fleet")
	const note = "NodeClaims cannot be watched: read every 5s"
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return news.note() == note && news.changedSinceLast(), nil
	}); err != nil {
		t.Errorf("%v: says %q", err, news.note())
	}
}

// TestNoFlashOfUnknown: while a request is not handled, the previous state is shown, and "unknown" only after a while.
func TestNoFlashOfUnknown(t *testing.T) {
	request := func(n *v1alpha1.NodeSync) { n.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "2"} }
	before, asked, handled := verdicts()["in-sync"], verdicts()["in-sync"], verdicts()["in-sync"]
	request(asked)
	request(handled)
	handled.Status.LastHandledReconcileAt = "2"
	shown, now := steady{}, time.Unix(1000, 0)
	for _, step := range []struct {
		name        string
		sync, shows *v1alpha1.NodeSync
		after       time.Duration
	}{
		{"at first", before, before, 0},
		{"a request, long after", asked, before, time.Hour},
		{"still", asked, before, handledWithin - time.Second},
		{"it takes long", asked, asked, time.Second},
		{"handled", handled, handled, 0},
	} {
		now = now.Add(step.after)
		if got, until := shown.of(step.sync, now); got != step.shows || (got == step.sync) != until.IsZero() {
			t.Errorf("%s: shows %v, until %s", step.name, got.Annotations, until)
		}
	}
	if got, _ := (steady{}).of(asked, now); got != asked {
		t.Error("of the first look nothing is known of before")
	}
}

// TestABoardIsStale when a daemon no longer leads, and when the previous state may no longer be shown.
func TestABoardIsStale(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		board statusBoard
		want  bool
	}{
		"not read yet":        {statusBoard{leaderMissing: "a"}, true},
		"read":                {statusBoard{leaderMissing: "a", reports: []statusReport{}}, false},
		"another leader":      {statusBoard{reports: []statusReport{}}, true},
		"a request":           {statusBoard{leaderMissing: "a", reports: []statusReport{}, until: now.Add(1)}, false},
		"one that takes long": {statusBoard{leaderMissing: "a", reports: []statusReport{}, until: now}, true},
	} {
		if got := c.board.stale("a", now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
