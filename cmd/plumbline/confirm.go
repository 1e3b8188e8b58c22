package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// errUnconfirmed is returned if the user does not confirm what a command asks.
var errUnconfirmed = errors.New("not confirmed: nothing was changed")

// terminalOf returns the terminal that the user types into; nil if the command's input is none.
func terminalOf(cmd *cobra.Command) *os.File {
	in, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return in
}

// typedLine prints a question and returns the line that the user types; empty if the input or the context ends first.
func typedLine(ctx context.Context, cmd *cobra.Command, terminal *os.File, question string) string {
	fmt.Fprint(cmd.ErrOrStderr(), question)
	lines := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(terminal).ReadString('\n')
		if err != nil {
			line = ""
		}
		lines <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ""
	case line := <-lines:
		return line
	}
}

// confirmYes asks a question that only "yes" or "y" confirms. Where nobody can answer, --yes has to be given.
func confirmYes(cmd *cobra.Command, question string) error {
	terminal := terminalOf(cmd)
	if terminal == nil {
		return errors.New("the input is no terminal to confirm on: add --yes")
	}
	switch strings.ToLower(typedLine(cmd.Context(), cmd, terminal, question+" [y/N] ")) {
	case "y", "yes":
		return nil
	}
	return errUnconfirmed
}
