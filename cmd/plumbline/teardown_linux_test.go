package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// typesAt runs a teardown on a terminal, types a line when prompted, and returns what the terminal has shown.
func typesAt(t *testing.T, aws *remainsOf, kubeconfig, line string, args ...string) (shown string, code int) {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 72}); err != nil {
		t.Fatal(err)
	}
	read := person(screen, "to confirm: ", line, func() {})
	code = teardownOn(t.Context(), t, tty, aws, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	return strings.NewReplacer("\r\n", "\n", "\x1b", "␛").Replace(<-read), code
}

func teardownOn(ctx context.Context, t *testing.T, tty *os.File, aws *remainsOf, args ...string) int {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	cmd := newTeardownCommand(flags, verification{dial: aws.dial, now: time.Now, pause: time.Millisecond}, startStandIn)
	flags.ClusterName = nil
	flags.AddFlags(cmd.PersistentFlags())
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"prod"}, args...))
	cmd.SetIn(tty)
	cmd.SetOut(tty)
	cmd.SetErr(tty)
	return exitCode(cmd.ExecuteContext(ctx), tty)
}

// TestTeardownOnATerminal: the name is typed, and bars are redrawn in place, cut at the terminal's width.
func TestTeardownOnATerminal(t *testing.T) {
	s, _, kubeconfig := tornDown(t)
	drains(s,
		[]v1alpha1.Removal{removalOf("batch", v1alpha1.RemovalPacing, 0, ""), removalOf("general", v1alpha1.RemovalPacing, 0, "")},
		[]v1alpha1.Removal{removalOf("general", v1alpha1.RemovalDraining, 1, "waits for PDB web/web, which allows no disruption")},
		nil)
	shown, code := typesAt(t, awsAnswers(runningLeft, otherLeft), kubeconfig, "prod")
	if code != exitDone {
		t.Errorf("code %d", code)
	}
	golden(t, "teardown-terminal.txt", shown)
}

// TestTeardownOfAnotherName: unless the typed text is the name, nothing is changed.
func TestTeardownOfAnotherName(t *testing.T) {
	for _, line := range []string{"", "yes", "prod-eu"} {
		s, _, kubeconfig := tornDown(t)
		shown, code := typesAt(t, awsAnswers(runningLeft), kubeconfig, line)
		if code != exitFailed || !strings.Contains(shown, "not confirmed: nothing was changed") || len(s.changes()) > 0 {
			t.Errorf("%q is typed: code %d, writes %v, shows %s", line, code, s.changes(), shown)
		}
	}
}

// TestTeardownSweepDeclined: the nodes are terminated by then, so AWS is queried for what is left.
func TestTeardownSweepDeclined(t *testing.T) {
	s, _, _ := tornDown(t)
	delete(s.objects, syncPath+"prod")
	kubeconfig, authority := overTLS(t, s)
	aws := awsAnswers(remaining(owned(cloud.KindVolume, "vol-1")))
	aws.eks, aws.authority = map[string]error{"demo": nil}, authority
	shown, code := typesAt(t, aws, kubeconfig, "no", "--sweep", "--timeout", "1s", "--cluster", "demo", "--region", "eu-west-1")
	if code != exitStalled || !strings.Contains(shown, "not confirmed: nothing was swept") || !strings.Contains(shown, "left in AWS: 1 volume (vol-1)") || strings.Contains(shown, "nothing was changed") {
		t.Errorf("code %d, want %d: %s", code, exitStalled, shown)
	}
}
