package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

const (
	// keepVariable leaves the sandbox up at the end.
	keepVariable = "KEEP"
	// stayFlag is how the process that stays is called by the one that was asked.
	stayFlag = "--stay"
	// interrupted is the exit code after Ctrl-C.
	interrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
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

func run(ctx context.Context) error {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	staying := len(os.Args) > 1 && os.Args[1] == stayFlag
	if keep, _ := os.LookupEnv(keepVariable); keep != "" && !staying {
		return playBehind(ctx, terminal)
	}
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	s := &scene{
		root:    filepath.Join(source, "..", "..", ".."),
		teller:  &teller{out: os.Stdout, colour: terminal || staying && os.Args[len(os.Args)-1] == colourWord, began: time.Now()},
		staying: staying,
		said:    map[string]string{},
	}
	err = s.play(ctx)
	if staying && err == nil {
		err = s.stay(ctx)
	}
	return errors.Join(err, s.end())
}
