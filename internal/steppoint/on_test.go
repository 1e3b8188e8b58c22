//go:build steppoints

package steppoint

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	points, err := New(Options{Trace: file})
	if err != nil {
		t.Fatal(err)
	}
	points.Step("fetch")
	points.Phase("NodePool", "Draining")
	points.Step("fetch")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("step fetch#1\nphase NodePool Draining#1\nstep fetch#2\n", string(got)); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	Points{}.Step("fetch") // does nothing
}

// TestTraceGoesOn: a process continues the count of the one that was killed, without the point at which it was killed.
func TestTraceGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(file, []byte("step fetch#1\nstep fetch#2\nstep render#1 killed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	points, err := New(Options{Trace: file})
	if err != nil {
		t.Fatal(err)
	}
	points.Step("fetch")
	points.Step("render")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "step fetch#1\nstep fetch#2\nstep render#1 killed\nstep fetch#3\nstep render#1\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

var errAway = errors.New("away")

type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, errAway }

func TestRequests(t *testing.T) {
	for name, test := range map[string]struct{ method, path, want string }{
		"status":         {"PATCH", "/apis/plumbline.dev/v1alpha1/namespaces/n/nodesyncs/prod/status", "before patch nodesyncs/status#1 after patch nodesyncs/status#1"},
		"cluster-wide":   {"DELETE", "/apis/karpenter.sh/v1/nodeclaims/general-x7", "before delete nodeclaims#1 after delete nodeclaims#1"},
		"core":           {"POST", "/api/v1/namespaces/kube-system/secrets", "before create secrets#1 after create secrets#1"},
		"read":           {"GET", "/apis/karpenter.sh/v1/nodepools", ""},
		"rehearsal":      {"POST", "/api/v1/namespaces/kube-system/secrets?dryRun=All", ""},
		"lease":          {"PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/plumbline", ""},
		"event":          {"POST", "/api/v1/namespaces/n/events", ""},
		"not a resource": {"POST", "/version", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "trace")
			points, err := New(Options{Trace: file})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), test.method, "https://10.0.0.1"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := points.transport(away{}).RoundTrip(req); !errors.Is(err, errAway) {
				t.Errorf("answer: got %v, want the server's", err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, strings.ReplaceAll(strings.TrimSpace(string(got)), "\n", " ")); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSignals makes this program kill itself.
func TestSignals(t *testing.T) {
	if options, played := os.LookupEnv("STEPPOINT_TEST"); played {
		kill, term, _ := strings.Cut(options, ",")
		points, err := New(Options{Trace: os.Getenv("STEPPOINT_TRACE"), Kill: strings.Split(kill, "+"), Term: term})
		if err != nil {
			t.Fatal(err)
		}
		points.Step("fetch")
		points.Step("fetch")
		return
	}
	for name, test := range map[string]struct {
		options string
		want    syscall.Signal
		trace   string
	}{
		"killed":         {"step fetch#2,", syscall.SIGKILL, "step fetch#1\nstep fetch#2 killed\n"},
		"at the first":   {"step fetch#2+step fetch#1,", syscall.SIGKILL, "step fetch#1 killed\n"},
		"asked to end":   {",step fetch#1", syscall.SIGTERM, "step fetch#1\n"},
		"never so often": {"step fetch#3,", 0, "step fetch#1\nstep fetch#2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSignals$")
			file := filepath.Join(t.TempDir(), "trace")
			cmd.Env = append(os.Environ(), "STEPPOINT_TEST="+test.options, "STEPPOINT_TRACE="+file)
			_ = cmd.Run() // only how it exited matters
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || status.Signaled() != (test.want != 0) || test.want != 0 && status.Signal() != test.want {
				t.Errorf("the process ended with %v, want signal %v", cmd.ProcessState, test.want)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(got), test.trace) {
				t.Errorf("trace: got %q, want it to begin with %q", got, test.trace)
			}
		})
	}
}
