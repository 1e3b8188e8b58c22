// Command prepare builds what a make target needs, and shows the progress: plumbline, the demo, the programs of a
// sandbox, and plumbline's peers. It uses only the standard library and tests/sandbox/binaries, so that it is quickly
// built on a new machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

const (
	// programs is the argument for all programs of a sandbox; programs@1.33, for one that serves that minor version of
	// Kubernetes.
	programs = "programs"
	// karpenter is the prefix for another version of Karpenter to build in advance.
	karpenter = "karpenter@"
)

func main() {
	ldflags := flag.String("ldflags", "-s -w", "for what is built of this repository")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: prepare [-ldflags FLAGS] [plumbline] [plumbline-steps] [demo] [sandbox] "+
			"[%s[@KUBERNETES]] [%sVERSION] [PEER]\npeers: %v\n", programs, karpenter, binaries.Peers())
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := prepare(ctx, *ldflags, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		stop()
		os.Exit(1)
	}
}

// prepare builds one thing after another, and fetches the modules of the next ones meanwhile.
func prepare(ctx context.Context, ldflags string, names []string) error {
	builder, err := binaries.Here(os.Stderr)
	if err != nil {
		return err
	}
	var own []binaries.Target
	var missing []binaries.Name
	for _, name := range names {
		wanted, err := programsOf(name)
		if err != nil {
			return err
		}
		if len(wanted) > 0 {
			absent, err := builder.Missing(ctx, wanted...)
			if err != nil {
				return err
			}
			missing = append(missing, absent...)
			continue
		}
		target, err := ownTarget(filepath.Join(builder.Source, "..", "..", ".."), name, ldflags)
		if err != nil {
			return err
		}
		own = append(own, target)
	}
	builder.Progress.Terminal, builder.Progress.Of = term.IsTerminal(int(os.Stderr.Fd())), len(own)+len(missing)
	go builder.Fetch(ctx, own, missing)
	for _, target := range own {
		if err := binaries.Compile(ctx, target, builder.Progress); err != nil {
			return fmt.Errorf("build %s: %w", target.Name, err)
		}
	}
	_, err = builder.Build(ctx, missing...)
	return err
}

// programsOf returns the programs of a sandbox for an argument; none if it is something of this repository.
func programsOf(name string) ([]binaries.Name, error) {
	if name == programs {
		return binaries.All(), nil
	}
	if kubernetes, is := strings.CutPrefix(name, programs+"@"); is {
		return binaries.Of(kubernetes), nil
	}
	if slices.Contains(binaries.Peers(), binaries.Name(name)) {
		return []binaries.Name{binaries.Name(name)}, nil
	}
	version, is := strings.CutPrefix(name, karpenter)
	switch {
	case !is:
		return nil, nil
	case !slices.Contains(binaries.KarpenterControllers(), version):
		return nil, fmt.Errorf("no controller of Karpenter %q can be built: these can: %s", version, strings.Join(binaries.KarpenterControllers(), ", "))
	}
	return []binaries.Name{binaries.KarpenterOf(version)}, nil
}

// ownTarget returns something of this repository, to be built into its folder bin.
func ownTarget(root, name, ldflags string) (binaries.Target, error) {
	t := binaries.Target{Name: name, Output: filepath.Join(root, "bin", name), LDFlags: ldflags}
	tests := filepath.Join(root, "tests")
	switch name {
	case "plumbline":
		t.Dir, t.Package = root, "./cmd/plumbline"
	case "plumbline-steps":
		t.Dir, t.Package, t.Tags = root, "./cmd/plumbline", "steppoints"
	case "demo":
		t.Dir, t.Package = tests, "./demo"
	case "sandbox":
		t.Dir, t.Package = tests, "./sandbox/cmd/sandbox"
	default:
		return t, fmt.Errorf("%q is unknown: see prepare -h", name)
	}
	return t, nil
}
