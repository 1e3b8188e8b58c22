package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// colourWord makes the background process use colours, although its output is a pipe.
	colourWord = "colour"
	// endOfStory is the last line of the background process; it is not shown.
	endOfStory = "\x04"
)

// playBehind makes a background process play the demo and keep the sandbox, and prints its output until the demo is
// complete. Ctrl-C until then stops it.
func playBehind(ctx context.Context, colour bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	args := []string{stayFlag}
	if colour {
		args = append(args, colourWord)
	}
	player := exec.Command(self, args...)
	player.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	player.Stderr = os.Stderr
	told, err := player.StdoutPipe()
	if err != nil {
		return err
	}
	if err := player.Start(); err != nil {
		return fmt.Errorf("start the process that stays: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = player.Process.Signal(syscall.SIGTERM) })
	defer stop()
	for lines := bufio.NewScanner(told); lines.Scan(); {
		if lines.Text() == endOfStory {
			return nil
		}
		fmt.Println(lines.Text())
	}
	if err := player.Wait(); err != nil {
		return fmt.Errorf("the story has not come to its end: %w", err)
	}
	return nil
}

// stay prints how to use the sandbox, detaches from the terminal and waits until it is stopped.
func (s *scene) stay(ctx context.Context) error {
	env := s.sandbox.Variables()
	s.begin("The sandbox stays up, behind process %d", os.Getpid())
	s.say(fmt.Sprintf(`
# in a shell of your own:
export KUBECONFIG=%s
export PATH=%s:%s:$PATH
export AWS_ENDPOINT_URL=%s AWS_REGION=%s AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s

kubectl get nodepools,nodeclaims,nodes
plumbline status %s -n %s
git clone %s       # push to branch main, and watch
curl -s '%s/left?cluster=%s'   # what is left in AWS

# the Git host's page
%s     user %s, password %s
# the daemon's log
%s

# and to end all of it:
kill %d
`, env["KUBECONFIG"], s.sandbox.Bin(), filepath.Dir(daemon.Binary(s.root)),
		env["AWS_ENDPOINT_URL"], env["AWS_REGION"], env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"],
		name, daemon.Namespace, s.repo.As(s.sandbox.Git.Admin), env["SANDBOX_AWS_ADMIN"], s.sandbox.Cluster,
		s.repo.Page(), s.sandbox.Git.Admin.Name, s.sandbox.Git.Admin.Password, s.daemon.LogFile(), os.Getpid()))
	fmt.Println(endOfStory)
	if err := letGo(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// letGo redirects standard output and error away from the terminal, which may be closed while the sandbox runs.
func letGo() error {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("let go of the terminal: %w", err)
	}
	fd := int(nowhere.Fd())
	return errors.Join(syscall.Dup3(fd, 1, 0), syscall.Dup3(fd, 2, 0))
}
