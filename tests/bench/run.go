package bench

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Options say what is measured.
type Options struct {
	// Root is the checkout with bin/plumbline in it.
	Root string
	// Objects is the number of definitions, half of them NodePools and half
	// EC2NodeClasses. It is even.
	Objects int
	// Repeat is how often a small commit is pushed; the table has the median.
	Repeat int
	// Flags are the daemon's beside those of its Deployment; the last one counts.
	Flags []string
	// Profile is a file for a CPU profile of the daemon while it takes one-object
	// changes. Empty: none is taken.
	Profile string
	// Progress gets a line for each step.
	Progress io.Writer
}

// Run measures all rows in one cluster and returns them.
func Run(ctx context.Context, o Options) (*Table, error) {
	if o.Repeat < 1 {
		return nil, fmt.Errorf("repeat a small commit %d times: at least once", o.Repeat)
	}
	if o.Objects < 2 || o.Objects%2 != 0 {
		return nil, fmt.Errorf("measure %d objects: they come in pairs, so ask for an even number from 2 on", o.Objects)
	}
	g, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer g.close()
	b := &bench{ground: g, options: o, fleet: newFleet(o.Objects)}
	t, err := b.run(ctx)
	if err != nil && g.daemon != nil {
		return nil, fmt.Errorf("%w\nthe end of the daemon's log:\n%s", err, g.daemon.LogTail(10))
	}
	return t, err
}

// bench is one run.
type bench struct {
	*ground
	options Options
	fleet   *fleet
	table   Table
	raw     raw
	fetches fetches
	// metrics is the address of the daemon's metrics and profiles.
	metrics string
	// markers counts the marks that were left in the audit.
	markers int
}

func (b *bench) run(ctx context.Context) (*Table, error) {
	began := time.Now()
	b.table = Table{Objects: b.options.Objects, Load: load(), Flags: b.flags()}
	for _, step := range []struct {
		say string
		do  func(context.Context) error
	}{
		{"raw server-side apply", b.measureRaw},
		{"the first apply", b.firstApply},
		{"one object changed", b.oneChanged},
		{"all objects changed", b.allChanged},
		{"a commit outside the inputs", b.outside},
		{"memory", b.memory},
		{"a profile", b.profile},
	} {
		b.say("%5.1fs  %s", time.Since(began).Seconds(), step.say)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("measure %s: %w", step.say, err)
		}
	}
	return &b.table, nil
}

// memory reads what the daemon holds when all is done.
func (b *bench) memory(context.Context) error {
	var err error
	b.table.Resident, b.table.Peak, err = b.process.memory()
	return err
}

func (g *ground) say(format string, args ...any) {
	if g.options.Progress != nil {
		fmt.Fprintf(g.options.Progress, format+"\n", args...)
	}
}
