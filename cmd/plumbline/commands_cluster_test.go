package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestClusterRefuses: each command prints in one line what it tried, and what to do.
func TestClusterRefuses(t *testing.T) {
	cases := map[string]struct {
		path   string
		status int
		says   []string
	}{
		"unknown NodeSync":  {syncPath, http.StatusNotFound, []string{"read NodeSync fleet/prod", "does not exist", "plumbline get -A"}},
		"not allowed":       {"/apis/plumbline.dev/v1alpha1/", http.StatusForbidden, []string{"NodeSync", "not allowed to", "forbidden"}},
		"not known":         {"/apis/plumbline.dev/v1alpha1/", http.StatusUnauthorized, []string{"NodeSync", "log in again"}},
		"nobody serves it":  {"/apis/plumbline.dev", http.StatusNotFound, []string{"plumbline is not installed", "kubectl apply -k manifests"}},
		"a server in alarm": {"/apis/plumbline.dev/v1alpha1/", http.StatusInternalServerError, []string{"NodeSync"}},
	}
	for name, c := range cases {
		for command, args := range onCluster(t) {
			if name == "unknown NodeSync" && len(args) > 1 && args[0] == "get" && args[1] != "prod" || name == "unknown NodeSync" && len(args) == 1 {
				continue // lists
			}
			t.Run(name+", "+command, func(t *testing.T) {
				s, kubeconfig := serve(t)
				s.refused[c.path] = c.status
				got := plumbline(t, append(args, "--kubeconfig", kubeconfig)...)
				if got.code != exitFailed || got.out != "" {
					t.Errorf("code %d, prints %q", got.code, got.out)
				}
				for _, words := range c.says {
					if !strings.Contains(got.err, words) {
						t.Errorf("says %q, want %q in it", got.err, words)
					}
				}
				if strings.Count(got.err, "\n") != 1 {
					t.Errorf("says more than one line:\n%s", got.err)
				}
			})
		}
	}
}

func TestGet(t *testing.T) {
	elsewhere := nodeSync("stage", ready("Unknown", "Waiting", "waiting for CRDs: not there yet"))
	elsewhere.Namespace = "other"
	ahead := verdicts()["ahead"]
	ahead.Name = "ahead"
	_, kubeconfig := serve(t, verdicts()["invalid"], ahead, elsewhere)
	golden(t, "get.table", plumbline(t, "get", "--kubeconfig", kubeconfig).out)
	golden(t, "get-all.table", plumbline(t, "get", "-A", "--kubeconfig", kubeconfig).out)
	_, empty := serve(t)
	if got := plumbline(t, "get", "-A", "--kubeconfig", empty); got.code != exitDone || got.err != "no NodeSync in any namespace\n" {
		t.Errorf("get -A of nothing: %+v", got)
	}
	if got := plumbline(t, "get", "-n", "nowhere", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "" || !strings.Contains(got.err, "no NodeSync here; look in all namespaces with -A") {
		t.Errorf("nothing to list: code %d, %q, %q", got.code, got.out, got.err)
	}
}

func TestSuspendAndResume(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	for _, step := range []struct {
		command, says string
		suspended     bool
	}{
		{"resume", "is resumed already", false},
		{"suspend", "nodesync/prod suspended", true},
		{"suspend", "is suspended already", true},
		{"resume", "nodesync/prod resumed", false},
	} {
		got := plumbline(t, step.command, "prod", "--kubeconfig", kubeconfig)
		sync, ok := s.objects[syncPath+"prod"].(*v1alpha1.NodeSync)
		if got.code != exitDone || !strings.Contains(got.err, step.says) || !ok || sync.Spec.Suspend != step.suspended {
			t.Errorf("%s: code %d, says %q", step.command, got.code, got.err)
		}
	}
}

// TestReconcileWaits: the exit code shows the result, and stderr what it waited for.
func TestReconcileWaits(t *testing.T) {
	for name, after := range verdicts() {
		switch name {
		case "waiting", "removing", "new", "changed", "retrying", "suspended", "deleted", "requested", "ahead", "unwritten", "rolling-out", "rollout-held":
			continue // does not complete yet
		}
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, verdicts()["waiting"])
			s.patched = func(s *apiServer, path string) {
				before, ok := s.objects[path].(*v1alpha1.NodeSync)
				if !ok {
					t.Error("no NodeSync was patched")
					return
				}
				handled := after.DeepCopy()
				handled.Annotations = before.Annotations
				handled.Status.LastHandledReconcileAt = before.Annotations[meta.ReconcileRequestAnnotation]
				s.objects[path] = handled
			}
			got := plumbline(t, "reconcile", "prod", "--wait", "--kubeconfig", kubeconfig)
			if want := exits()[name]; got.code != want || got.out != "" {
				t.Errorf("code %d, want %d; prints %q", got.code, want, got.out)
			}
			if message := summary.Message(after); !strings.Contains(got.err, "reconciliation requested") || !strings.Contains(got.err, oneLine(message)[:10]) {
				t.Errorf("says %q", got.err)
			}
		})
	}
}

// TestReconcileWaitsForNodes: it waits for nodes, too, unless it waits only until the definitions are applied.
func TestReconcileWaitsForNodes(t *testing.T) {
	for name, c := range map[string]struct {
		flag, verdict string
		code          int
		says          string
	}{
		"the default":         {"--wait", "rolling-out", exitStalled, "\nrolling out: 0 of 2 nodes replaced (NodePoolDrifted), 1 draining\n"},
		"held":                {"--wait=rollout", "rollout-held", exitStalled, "\nrollout stopped in NodePool/general: errors\n"},
		"applied":             {"--wait=applied", "rolling-out", exitDone, "\napplied, Ready"},
		"applied and stopped": {"--wait=applied", "rollout-stopped", exitDone, "\napplied, Ready"},
		"another word":        {"--wait=nodes", "rolling-out", exitFailed, `"nodes" is neither applied nor rollout`},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, verdicts()[c.verdict])
			s.patched = func(s *apiServer, path string) {
				sync := s.objects[path].(*v1alpha1.NodeSync)
				sync.Status.LastHandledReconcileAt = sync.Annotations[meta.ReconcileRequestAnnotation]
			}
			got := plumbline(t, "reconcile", "prod", c.flag, "--wait-timeout", "300ms", "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, want %d, says %q", got.code, c.code, got.err)
			}
		})
	}
}

func TestReconcileEnds(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	got := plumbline(t, "reconcile", "prod", "--wait", "--wait-timeout", "10ms", "--kubeconfig", kubeconfig)
	if got.code != exitStalled || !strings.Contains(got.err, "not done after 10ms: no daemon was found") {
		t.Errorf("at its time: code %d, says %q", got.code, got.err)
	}
	s.objects[syncPath+"prod"] = verdicts()["suspended"]
	got = plumbline(t, "reconcile", "prod", "--wait", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.Contains(got.err, "plumbline resume prod") {
		t.Errorf("suspended: code %d, says %q", got.code, got.err)
	}
}

// TestInterrupted: Ctrl-C stops each command immediately, with one line.
func TestInterrupted(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["waiting"])
	ctx, interrupt := context.WithCancel(t.Context())
	s.patched = func(*apiServer, string) { interrupt() }
	began := time.Now()
	got := plumblineIn(ctx, "reconcile", "prod", "--wait", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || !strings.HasSuffix(got.err, "\n") || !strings.Contains(got.err, "stopped") || strings.Contains(got.err, "cannot be reached") {
		t.Errorf("waiting: code %d, says %q", got.code, got.err)
	}
	got = plumblineIn(ctx, "status", "prod", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || got.err != "plumbline: stopped\n" {
		t.Errorf("reading: code %d, says %q", got.code, got.err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestCompletionOfNames(t *testing.T) {
	elsewhere := nodeSync("stage")
	elsewhere.Namespace = "other"
	_, kubeconfig := serve(t, nodeSync("prod"), nodeSync("prod-eu"), elsewhere)
	for name, args := range map[string][]string{
		"status":    {"status", ""},
		"reconcile": {"reconcile", ""},
		"suspend":   {"suspend", ""},
		"resume":    {"resume", ""},
		"get":       {"get", ""},
		"plan":      {"plan", ""},
		"against":   {"plan", ".", "--against", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig}, args...)...)
			if name == "plan" {
				got.out = strings.NewReplacer("testdata/\n", "", "display/\n", "").Replace(got.out) // folders are completed, too
			}
			if !strings.HasPrefix(got.out, "prod\nprod-eu\n:") {
				t.Errorf("completes %q", got.out)
			}
		})
	}
	if got := plumbline(t, cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig, "-n", "other", "status", ""); !strings.HasPrefix(got.out, "stage\n:") {
		t.Errorf("in another namespace: %q", got.out)
	}
	if got := plumbline(t, cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig, "status", "prod", ""); !strings.HasPrefix(got.out, "prod-eu\n:") {
		t.Errorf("a second name: %q", got.out)
	}
}

// TestCompletionOfFlags completes the values of kubectl's flags, and folders.
func TestCompletionOfFlags(t *testing.T) {
	s, kubeconfig := serve(t)
	s.objects["/api/v1/namespaces/fleet"] = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "fleet"}}
	for want, args := range map[string][]string{
		"fleet\n:4":      {"get", "-n", ""},
		"a\n:4":          {"status", "--context", ""},
		"testdata/\n:6":  {"plan", "te"},
		":16\n":          {"render", ""},
		"testdata/\n:6 ": {"plan", "./te"},
	} {
		got := plumbline(t, append([]string{cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig}, args...)...)
		if !strings.HasSuffix(args[1], "./te") && !strings.HasPrefix(got.out, want) || !strings.Contains(got.out, strings.TrimSpace(want)) {
			t.Errorf("%v completes %q", args, got.out)
		}
	}
}

func TestWidth(t *testing.T) {
	var wide, narrow strings.Builder
	for out, width := range map[*strings.Builder]int{&wide: 0, &narrow: 40} {
		table := display.NewTableOf(out, width, "NAME", "STATUS")
		table.AppendRow([]any{"prod", strings.Repeat("nodes/general.yaml ", 8)})
		table.Render()
	}
	for line := range strings.Lines(narrow.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 40 {
			t.Errorf("%d characters on a terminal of 40: %q", n, line)
		}
	}
	if strings.Count(wide.String(), "general.yaml") != 8 || strings.Count(narrow.String(), "\n") != 2 {
		t.Errorf("in a pipe %q, on a terminal %q", wide.String(), narrow.String())
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if width := display.Width(file); width != 0 {
		t.Errorf("a file is %d wide", width)
	}
}
