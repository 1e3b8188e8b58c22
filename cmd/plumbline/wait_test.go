package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestProgress: what is waited for is printed once; counts update a line on a terminal, and in a pipe are printed now
// and then.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		width int
		want  []string
	}{
		"a pipe": {0, []string{
			"waiting for NodePool/a: it is new\n", "1/506 NodePools Ready\n", "370/506 NodePools Ready\n", "applied\n",
		}},
		"a terminal": {40, []string{
			"\r\x1b[Kwaiting for NodePool/a: it is new",
			"\r\x1b[K1/506 NodePools Ready: waiting for Nod…",
			"\r\x1b[K2/506 NodePools Ready: waiting for Nod…",
			"\r\x1b[K370/506 NodePools Ready: waiting for N…",
			"\r\x1b[Kapplied", "\r\x1b[Kapplied\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			now := time.Unix(0, 0)
			p := newProgress(&out, func() time.Time { return now })
			p.width = c.width
			p.printWait("")
			for range 2 {
				p.printWait("waiting for NodePool/a: it is new")
				p.count(1, 506)
			}
			p.count(2, 506)
			now = now.Add(printEvery)
			p.count(370, 506)
			p.count(0, 0)
			p.printWait("applied")
			p.end()
			p.end()
			if diff := cmp.Diff(strings.Join(c.want, ""), out.String()); diff != "" {
				t.Errorf("says (-want +got):\n%s", diff)
			}
			for line := range strings.SplitSeq(out.String(), "\r\x1b[K") {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); c.width > 0 && n > c.width {
					t.Errorf("%d characters on a terminal of %d: %q", n, c.width, line)
				}
			}
		})
	}
}

// TestReconcileCounts the pools while it waits, and prints at the end what it waited for.
func TestReconcileCounts(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	for name, status := range map[string]string{"a": "True", "b": "False"} {
		s.objects["/apis/karpenter.sh/v1/nodepools/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name, "generation": 1, "labels": map[string]any{v1alpha1.OwnerLabel: "fleet.prod"}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "reason": "r", "message": "m", "observedGeneration": 1}}},
		}
	}
	s.patched = func(s *apiServer, path string) {
		if sync, ok := s.objects[path].(*v1alpha1.NodeSync); ok {
			sync.Status.LastHandledReconcileAt = sync.Annotations[meta.ReconcileRequestAnnotation]
		}
	}
	got := plumbline(t, "reconcile", "prod", "--wait", "--wait-timeout", "1s", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || strings.Count(got.err, "\n1/2 NodePools Ready\n") != 1 || strings.Count(got.err, "waiting") != 2 || !strings.Contains(got.err, "nodesync/prod is not done after 1s: waiting") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// TestReconcileEndsWhereItIsSuspended: waiting would be useless.
func TestReconcileEndsWhereItIsSuspended(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	s.patched = func(s *apiServer, path string) {
		if sync, ok := s.objects[path].(*v1alpha1.NodeSync); ok {
			sync.Spec.Suspend = true
		}
	}
	got := plumbline(t, "reconcile", "prod", "--wait", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "nodesync/prod was suspended: nothing is reconciled until `plumbline resume prod -n fleet`") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// runDaemon adds a Ready pod of the daemon.
func (s *apiServer) runDaemon() {
	s.objects["/api/v1/namespaces/fleet/pods/plumbline-0"] = map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "plumbline-0", "namespace": "fleet"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
}

// TestReconcileUnseen: the daemon does not handle the request, or none runs.
func TestReconcileUnseen(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	got := plumbline(t, "reconcile", "prod", "--wait", "--wait-timeout", "10ms", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || !strings.Contains(got.err, "nodesync/prod is not done after 10ms: no daemon was found: lease fleet/plumbline does not exist, and no pod of plumbline is Ready there") {
		t.Errorf("no daemon: code %d, says %q", got.code, got.err)
	}
	s.runDaemon()
	got = plumbline(t, "reconcile", "prod", "--wait", "--wait-timeout", "10ms", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || !strings.Contains(got.err, "nodesync/prod is not done after 10ms: the daemon has not handled the request; see its log: plumbline logs") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// TestReconcileContinues: at the end of a wait, or if the user stops it, the message mentions that the reconcile continues
// only if a daemon runs.
func TestReconcileContinues(t *testing.T) {
	for name, c := range map[string]struct {
		daemon, interrupted bool
		says                string
		// silent is true if nothing is printed about the daemon: none is elected, and one has handled the request.
		silent bool
	}{
		"over":                      {daemon: true, says: "; the daemon continues"},
		"over, and none elected":    {says: "is not done after", silent: true},
		"ended by the user":         {daemon: true, interrupted: true, says: "stopped waiting"},
		"ended by the user without": {interrupted: true, says: "stopped waiting", silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, verdicts()["waiting"])
			if c.daemon {
				s.runDaemon()
			}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			s.patched = func(s *apiServer, path string) {
				sync := s.objects[path].(*v1alpha1.NodeSync)
				sync.Status.LastHandledReconcileAt = sync.Annotations[meta.ReconcileRequestAnnotation]
				answers := 0
				s.answered = func(string) {
					if answers++; c.interrupted && answers == 3 { // the patch, and the first read
						interrupt()
					}
				}
			}
			got := plumblineIn(ctx, "reconcile", "prod", "--wait", "--wait-timeout", "1s", "--kubeconfig", kubeconfig)
			if !strings.Contains(got.err, c.says) || c.silent && strings.Contains(got.err, "daemon") {
				t.Errorf("code %d, says %q, want %q", got.code, got.err, c.says)
			}
		})
	}
}

// TestReconcileWithoutACluster fails at once: it is unknown whether the cluster exists at all.
func TestReconcileWithoutACluster(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	got := plumbline(t, "reconcile", "prod", "--wait", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.HasPrefix(got.err, "plumbline: read NodeSync fleet/prod: the cluster cannot be reached (") {
		t.Errorf("code %d, says %q", got.code, got.err)
	}
}

// TestReconcileLosesTheCluster: it retries, and prints at the end why it is not done.
func TestReconcileLosesTheCluster(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	s.patched = func(s *apiServer, _ string) {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
	got := plumbline(t, "reconcile", "prod", "--wait", "--wait-timeout", "1s", "--kubeconfig", kubeconfig)
	for _, want := range []string{"\nthe cluster cannot be reached; trying again\n", "\nplumbline: read NodeSync fleet/prod: the cluster cannot be reached ("} {
		if got.code != exitFailed || strings.Count(got.err, want) != 1 {
			t.Errorf("code %d, says %q", got.code, got.err)
		}
	}
}

func TestContact(t *testing.T) {
	at, refused := time.Unix(0, 0), explain(&url.Error{Op: "Get", URL: "https://a", Err: errors.New("refused")}, "read")
	c := contact{at: at}
	for _, step := range []struct {
		err   error
		after time.Duration
		lost  bool
	}{
		{refused, time.Second, true},
		{nil, 50 * time.Second, false},
		{refused, 100 * time.Second, true},
		{refused, 50*time.Second + unreachableFor, false},
		{errors.New("odd"), 0, false},
	} {
		if got := c.lost(step.err, at.Add(step.after)); got != step.lost {
			t.Errorf("%v after %s: %t", step.err, step.after, got)
		}
	}
}
