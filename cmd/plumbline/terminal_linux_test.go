package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// onTerminal returns what a terminal of this width shows, as text: escapes are ␛.
func onTerminal(t *testing.T, columns uint16, use func(tty *os.File)) string {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, err := io.ReadAll(screen)
		if broken := (*fs.PathError)(nil); err != nil && (!errors.As(err, &broken) || !errors.Is(broken, syscall.EIO)) {
			t.Error(err) // on Linux, reading a closed terminal returns EIO
		}
		read <- string(text)
	}()
	use(tty)
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "␍", "\x1b", "␛").Replace(<-read)
}

// plumblineOn runs a command on a terminal.
func plumblineOn(t *testing.T, tty *os.File, args ...string) {
	t.Helper()
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(tty)
	root.SetErr(tty)
	fmt.Fprintf(tty, "exit code %d\n", exitCode(root.ExecuteContext(t.Context()), tty))
}

// shows returns what is tested on terminals of 80 and of 40 columns.
func shows(t *testing.T) map[string]func(tty *os.File) {
	t.Helper()
	basic := examples(t)["basic"]
	command := func(args ...string) func(*os.File) {
		return func(tty *os.File) {
			ahead, elsewhere := verdicts()["ahead"], nodeSync("stage", ready("Unknown", "Waiting", "waiting for CRDs: not there yet"))
			ahead.Name, elsewhere.Namespace = "ahead", "other"
			held := verdicts()["held"]
			held.Status.Drift = []v1alpha1.DriftedObject{{Kind: "NodePool", Name: "pool-00", Message: "spec.limits.cpu: 100 → 200", By: []string{"kubectl-edit"}, Since: midday}}
			s, kubeconfig := serve(t, held, ahead, elsewhere)
			pools(s, 12, 2)
			ends(s)
			s.runDaemon()
			switch args[0] {
			case "events":
				s.objects["/api/v1/namespaces/fleet/events/a"] = map[string]any{
					"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "a", "namespace": "fleet"}, "lastTimestamp": midday,
					"type": "Warning", "reason": "Held", "message": "removal of NodePool/old-0: 1 more than guard.maxRemovedPools",
				}
			case "drift":
				outdated(s, "pool-00-0", "ip-10-0-143-207.eu-west-1.compute.internal")
			}
			plumblineOn(t, tty, append(args, "--kubeconfig", kubeconfig)...)
		}
	}
	return map[string]func(*os.File){
		"get":           command("get"),
		"get-all":       command("get", "-A"),
		"get-wide":      command("get", "-o", "wide"),
		"get-none":      command("get", "-n", "nowhere"),
		"status":        command("status", "prod"),
		"tree":          command("tree", "prod"),
		"events":        command("events", "prod"),
		"drift":         command("drift", "prod"),
		"why":           command("why", "i-2"),
		"history":       command("history", "--since", "0"),
		"suspend":       command("suspend", "prod"),
		"wrong-name":    command("status", "absent"),
		"no-name":       command("status"),
		"mistakes":      command("render", folder(t, map[string]string{"plumbline.yaml": karpenterYAML, "a.yaml": classYAML + "  rolle: b\n"})),
		"render-table":  command("render", basic, "-o", "table"),
		"plan-offline":  command("plan", basic),
		"diff-offline":  command("diff", basic),
		"version":       command("version"),
		"help":          command("reconcile", "--help"),
		"upgrade":       command("upgrade", "--from", "1.8.6", "--to", "1.12.1"),
		"wait-no-more":  command("reconcile", "prod", "--wait", "--wait-timeout", "1s"),
		"plan":          func(tty *os.File) { show(t, aPlan().print(tty)) },
		"plan-markdown": func(tty *os.File) { show(t, aPlan().printMarkdown(tty)) },
		"diff": func(tty *os.File) {
			made := aDiff(t)
			show(t, made.printDiff(newPlanReport(made), tty, &display.Visible{Writer: tty}))
		},
		"waiting": func(tty *os.File) {
			p := newProgress(tty, func() time.Time { return time.Unix(0, 0) })
			p.printWait("waiting for NodePool/general: its EC2NodeClass default is not Ready: the security group sg-1 does not exist")
			p.count(370, 506)
			p.printWait("applied, Ready, no removal open: main@12345678")
			p.end()
		},
	}
}

func show(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestOnTerminals(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	for _, columns := range []uint16{80, 40} {
		for name, use := range shows(t) {
			t.Run(fmt.Sprint(name, " ", columns), func(t *testing.T) {
				golden(t, filepath.Join("terminal", fmt.Sprintf("%s-%d.txt", name, columns)), stamped.ReplaceAllString(onTerminal(t, columns, use), "2026-11-24T12:00:00Z"))
			})
		}
	}
}

// TestNoColour: with NO_COLOR, and on a terminal without colours, nothing is coloured.
func TestNoColour(t *testing.T) {
	for variable, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			use := shows(t)["plan"]
			if coloured := onTerminal(t, 80, use); !strings.Contains(coloured, "␛[33m") {
				t.Errorf("without it nothing is coloured: %s", coloured)
			}
			t.Setenv(variable, value)
			if plain := onTerminal(t, 80, use); strings.Contains(plain, "␛") {
				t.Errorf("is coloured: %s", plain)
			}
		})
	}
}
