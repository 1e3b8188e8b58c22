// Command plumbline keeps a cluster's Karpenter nodes true to Git: as a daemon
// in the cluster (plumbline run), and as a CLI on a laptop or in CI.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	confined := confinement(os.Args) // a child goes no further
	// A limit on the size of files is an error of the write, as a full disk is, and
	// not the end of the process.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends it politely; a second one ends it at once.
	context.AfterFunc(ctx, stop)
	return exitCode(newRootCommand().ExecuteContext(withConfinement(ctx, confined)), os.Stderr)
}

// exitCode says what a command has come to, and how it ends the program.
func exitCode(err error, out io.Writer) int {
	if err == nil {
		return exitDone
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.message != "" {
			fmt.Fprintln(out, printable(exit.message))
		}
		return exit.code
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "plumbline: stopped")
		return exitFailed
	}
	fmt.Fprintln(out, "plumbline: "+printable(err.Error()))
	return exitFailed
}

// printable has control characters, and those that change the direction or the order of
// text, written out: what comes out of a repository must not command the terminal that shows
// it, nor read as something else. Ends of lines and tabs stay.
func printable(text string) string {
	return escaped(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// printableName is printable on one line: a name may have ends of lines in it, too.
func printableName(name string) string { return escaped(name, func(rune) bool { return false }) }

func escaped(text string, stays func(rune) bool) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !stays(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
