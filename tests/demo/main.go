package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

const (
	// keepVariable keeps the sandbox running at the end.
	keepVariable = "KEEP"
	// stayFlag is the flag for the background process that keeps the sandbox.
	stayFlag = "--stay"
	// recordFlag is the flag for the folder of a recording.
	recordFlag = "--record"
	// interrupted is the exit code after Ctrl-C.
	interrupted = 130
)

const usage = `Play plumbline's main job once, on a sandbox on this machine: it takes no arguments.

  make demo           build what it needs, and play it
  KEEP=1 make demo    leave the sandbox up, and say how to use it
  make recordings     play it once more, and record it in docs/recordings
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := play(ctx, os.Args[1:], os.Stdout)
	ended := ctx.Err() != nil
	stop()
	switch {
	case ended:
		os.Exit(interrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// play does what the arguments ask for.
func play(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && slices.Contains([]string{"-h", "--help", "help"}, args[0]):
		fmt.Fprint(out, usage)
		return nil
	case len(args) == 2 && args[0] == recordFlag:
		return record(ctx, args[1])
	case len(args) > 0 && args[0] != stayFlag:
		return fmt.Errorf("%q is not understood: it takes no arguments", args[0])
	}
	return run(ctx, args)
}

func run(ctx context.Context, args []string) error {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	staying := len(args) > 0
	if keep, _ := os.LookupEnv(keepVariable); keep != "" && !staying {
		return playBehind(ctx, terminal)
	}
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	s := &scene{
		root:    filepath.Join(source, "..", "..", ".."),
		teller:  &teller{out: os.Stdout, colour: terminal || staying && args[len(args)-1] == colourWord, began: time.Now()},
		staying: staying,
		said:    map[string]string{},
	}
	err = s.play(ctx)
	if staying && err == nil {
		err = s.stay(ctx)
	}
	return errors.Join(err, s.end())
}
