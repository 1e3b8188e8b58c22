// Command bench prints what commits cost plumbline's daemon, beside a raw `git
// fetch` and a raw server-side apply of the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

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
	o := bench.Options{Progress: os.Stderr}
	flag.IntVar(&o.Objects, "objects", 400, "number of definitions, half NodePools and half EC2NodeClasses")
	flag.IntVar(&o.Repeat, "repeat", 5, "how often a small commit is pushed; the table has the median")
	flag.StringVar(&o.Profile, "profile", "", "file for a CPU profile of the daemon while it takes one-object changes")
	flags := flag.String("flags", "", "flags of the daemon beside those of its Deployment, such as --kube-api-qps=-1")
	flag.Parse()
	o.Flags = strings.Fields(*flags)
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	o.Root = filepath.Join(source, "..", "..", "..")
	table, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return table.Print(os.Stdout)
}
