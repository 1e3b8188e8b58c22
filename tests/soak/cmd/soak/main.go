// Command soak runs the daemon with pushes, faults and kills for a while, and prints what it found.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/soak"
)

func main() {
	minutes := flag.Float64("minutes", 30, "how long")
	seed := flag.Uint64("seed", 0, "what is drawn; 0: by chance")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *minutes, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, minutes float64, seed uint64) error {
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	return soak.Run(ctx, soak.Options{Root: filepath.Join(source, "..", "..", ".."), Minutes: minutes, Seed: seed, Out: os.Stdout})
}
