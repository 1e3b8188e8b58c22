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
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// version is set by the build of a release.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	confined := confinement(os.Args) // a child goes no further
	if info, ok := debug.ReadBuildInfo(); ok {
		version = versionOf(version, info.Main.Version)
	}
	// A limit on the size of files is an error of the write, as a full disk is, and
	// not the end of the process.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends it politely; a second one ends it at once.
	context.AfterFunc(ctx, stop)
	root, out := newRootCommand(), &standardOutput{file: os.Stdout}
	root.SetOut(out)
	return exitCode(out.outcome(root.ExecuteContext(withConfinement(ctx, confined))), os.Stderr)
}

// versionOf is the version that the build has set, or else that of the module, as `go install
// …@v1.2.3` has it.
func versionOf(built, module string) string {
	if built != "dev" || module == "" || module == "(devel)" {
		return built
	}
	return module
}

// exitCode says what a command has come to, and how it ends the program.
func exitCode(err error, out io.Writer) int {
	if err == nil {
		return exitDone
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.message != "" {
			fmt.Fprintln(out, redact.Visible(exit.message))
		}
		return exit.code
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "plumbline: stopped")
		return exitFailed
	}
	fmt.Fprintln(out, redact.Visible(inWords(err)))
	return exitFailed
}

// inWords says what is wrong: of a commit each mistake once, and how many there are.
func inWords(err error) string {
	var mistakes render.Errors
	if !errors.As(err, &mistakes) || mistakes.Error() != err.Error() {
		return "plumbline: " + strings.TrimSpace(err.Error()) // of a kubelet it ends a line
	}
	if len(mistakes) == 1 {
		return "plumbline: " + mistakes[0].Error()
	}
	var text strings.Builder
	files := map[string]bool{}
	for _, one := range mistakes {
		fmt.Fprintln(&text, one.Error())
		files[one.File] = true
	}
	fmt.Fprintf(&text, "plumbline: %s in %s", english.Plural(len(mistakes), "error", ""), english.Plural(len(files), "file", ""))
	return text.String()
}
