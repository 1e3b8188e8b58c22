package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// person reads what a terminal shows. When asks appears, then runs, and the person types a line. The channel returns
// what was shown once the other side is closed.
func person(screen *os.File, asks, line string, then func()) <-chan string {
	read := make(chan string)
	go func() {
		var text strings.Builder
		part, asked := make([]byte, 4096), false
		for {
			n, err := screen.Read(part)
			text.Write(part[:n])
			if !asked && strings.Contains(text.String(), asks) {
				asked = true
				then()
				_, _ = io.WriteString(screen, line+"\n")
			}
			if err != nil {
				break // EIO: the other side was closed
			}
		}
		read <- text.String()
	}()
	return read
}

// answers runs a command on a terminal. When the command asks, then runs, and a person types a line.
func answers(t *testing.T, asks, line string, then func(), args ...string) (shown string, code int) {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	read := person(screen, asks, line, then)
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(tty)
	root.SetOut(tty)
	root.SetErr(tty)
	code = exitCode(root.ExecuteContext(t.Context()), tty)
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n"), code
}

// TestApproveOnATerminal: an Approval covers what was shown and confirmed, and nothing that was added in between.
func TestApproveOnATerminal(t *testing.T) {
	other := "sha256:" + strings.Repeat("2b", 32)
	for name, c := range map[string]struct {
		line string
		args []string
		then func(*apiServer)
		code int
		says string
		// approved is whether an Approval is created.
		approved bool
	}{
		"yes":          {line: "yes", says: "approval/prod-1 created by ann", approved: true},
		"y":            {line: "y", args: []string{"--digest", heldDigest}, says: "approval/prod-1 created by ann", approved: true},
		"no":           {line: "no", code: exitFailed, says: "not confirmed: nothing was changed"},
		"nothing":      {line: "", code: exitFailed, says: "not confirmed: nothing was changed"},
		"another plan": {line: "yes", then: func(s *apiServer) { s.holds(other) }, code: exitFailed, says: "no longer holds the changes that were shown, so nothing was approved"},
		"more nodes": {
			line: "yes", then: func(s *apiServer) {
				s.objects[syncPath+"prod"] = heldSync(func(n *v1alpha1.NodeSync) { n.Status.Held.Entries[0].Nodes++ })
			}, code: exitFailed, says: "no longer holds the changes that were shown, so nothing was approved",
		},
		"nothing is held": {line: "yes", then: func(s *apiServer) { s.holds("") }, code: exitFailed, says: "no longer holds the changes that were shown, so nothing was approved"},
		"another NodeSync of the name": {
			line: "yes", then: func(s *apiServer) { s.objects[syncPath+"prod"] = heldSync(func(n *v1alpha1.NodeSync) { n.UID = "12" }) },
			code: exitFailed, says: "no longer holds the changes that were shown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig := serve(t, heldSync())
			s.user = "ann"
			s.guard(time.Now().Add(-time.Hour))
			then := func() {
				if c.then != nil {
					s.mu.Lock()
					defer s.mu.Unlock()
					c.then(s)
				}
			}
			asks := "Approve " + render.ShownDigest(heldDigest) + ", which drains 42 of 60 nodes in 1 pool? [y/N] "
			shown, code := answers(t, asks, c.line, then, append([]string{"approve", "prod", "--kubeconfig", kubeconfig}, c.args...)...)
			if code != c.code || !strings.Contains(shown, c.says) {
				t.Errorf("code %d, shows %s", code, shown)
			}
			if table, _, asked := strings.Cut(shown, asks); !asked || !strings.Contains(table, "NodePool/batch") {
				t.Errorf("asks before it shows: %s", shown)
			}
			created, exists := s.objects[approvalsPath+"/prod-1"].(map[string]any)
			if exists != c.approved {
				t.Fatalf("created %v", created)
			}
			if spec, _ := created["spec"].(map[string]any); exists && spec["digest"] != heldDigest {
				t.Errorf("approves %v", spec)
			}
		})
	}
}

// holds makes the NodeSync hold another plan, or nothing.
func (s *apiServer) holds(digest string) {
	s.objects[syncPath+"prod"] = heldSync(func(n *v1alpha1.NodeSync) {
		if n.Status.Held.Digest = digest; digest == "" {
			n.Status.Held = nil
		}
	})
}
