// Command bench prints what commits cost plumbline's daemon, compared with a raw `git fetch`, a raw server-side apply
// of the same objects, and other tools.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/plumbline-dev/plumbline/tests/bench"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := bench.Options{Progress: &binaries.Progress{Out: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd()))}}
	flag.IntVar(&o.Objects, "objects", 400, "number of definitions, half NodePools and half EC2NodeClasses")
	flag.IntVar(&o.Repeat, "repeat", 5, "how often a small commit is pushed; the table has the median")
	flag.DurationVar(&o.Idle, "idle", 30*time.Second, "how long the daemon is left idle; the bars are meant for 10m")
	flag.IntVar(&o.Nodes, "nodes", 1000, "number of NodeClaims and Nodes beside an idle daemon; the bars are meant for 10000")
	flag.IntVar(&o.Claims, "claims", 5000, "number of NodeClaims that change at once")
	flag.IntVar(&o.Fleet, "fleet", 10_000, "number of NodeClaims of plans and what-ifs")
	flag.BoolVar(&o.Curve, "curve", false, "measure one change in 100 to 10000 objects, too")
	flag.StringVar(&o.Profile, "profile", "", "folder for profiles of the daemon: of its CPU, and of what it holds")
	scenes := flag.String("scenes", "", "what is measured, with commas, out of "+strings.Join(bench.Scenes(), ",")+"; all but the pace by default, the curve where it is asked for")
	peers := flag.String("peers", "", "tools to measure beside plumbline, with commas, out of flux,argo")
	flags := flag.String("flags", "", "flags of the daemon beside those of its Deployment, such as --kube-api-qps=-1")
	flag.Parse()
	o.Flags, o.Scenes, o.Peers = strings.Fields(*flags), list(*scenes), list(*peers)
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	o.Root = filepath.Join(source, "..", "..", "..")
	table, err := bench.Run(ctx, o)
	if table != nil {
		err = errors.Join(err, table.Print(os.Stdout))
	}
	return err
}

// list splits at commas and blanks.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
