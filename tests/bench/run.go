package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// Options specify what to measure.
type Options struct {
	// Root is the checkout that contains bin/plumbline.
	Root string
	// Objects is the number of definitions, half of them NodePools and half
	// EC2NodeClasses. It is even.
	Objects int
	// Repeat is how often a small commit is pushed; the table contains the median.
	Repeat int
	// Scenes are what to measure, in the order of Scenes. If empty, all but the pace of a rollout.
	Scenes []string
	// Curve also measures one change in fleets of many sizes.
	Curve bool
	// Peers are measured in addition, regardless of Scenes: flux, argo.
	Peers []string
	// Idle is how long the daemon is left idle. Nodes is the number of Nodes, and of NodeClaims, during that time, and in
	// the rollout whose pace is measured.
	Idle  time.Duration
	Nodes int
	// Claims is the number of NodeClaims that change at once.
	Claims int
	// Fleet is the number of NodeClaims of plans and what-ifs.
	Fleet int
	// Flags are the daemon's, in addition to those of its Deployment; the last one applies.
	Flags []string
	// Profile is a folder for profiles of the daemon: of its CPU while it handles one-object changes and writes
	// everything, and of its memory. If empty, none is taken.
	Profile string
	// Progress shows what is being measured.
	Progress *binaries.Progress
}

// Scenes returns the names of what can be measured.
func Scenes() []string {
	var all []string
	for _, s := range new(bench).scenes() {
		all = append(all, s.name)
	}
	return append(apart(), all...)
}

func (o Options) check() error {
	if o.Repeat < 1 {
		return fmt.Errorf("repeat a small commit %d times: at least once", o.Repeat)
	}
	if o.Objects < 2 || o.Objects%2 != 0 {
		return fmt.Errorf("measure %d objects: they come in pairs, so ask for an even number from 2 on", o.Objects)
	}
	if o.Fleet < 100 && (o.wants(planScene) || o.wants(whatIfScene)) {
		return fmt.Errorf("plan for %d NodeClaims: 100 at least, one for each NodePool", o.Fleet)
	}
	if o.Nodes < minPaced && o.wants(paceScene) {
		return fmt.Errorf("measure the pace of %d nodes: %d at least", o.Nodes, minPaced)
	}
	for _, name := range o.Peers {
		if name != "flux" && name != "argo" {
			return fmt.Errorf("measure the peer %q: it is none of flux and argo", name)
		}
	}
	for _, name := range o.Scenes {
		if !slices.Contains(Scenes(), name) {
			return fmt.Errorf("measure %q: it is none of %v", name, Scenes())
		}
	}
	return nil
}

func (o Options) wants(scene string) bool {
	return len(o.Scenes) == 0 && scene != paceScene || slices.Contains(o.Scenes, scene) || scene == peersScene && len(o.Peers) > 0
}

// wantsCluster reports whether a selected scene needs a cluster.
func (o Options) wantsCluster() bool {
	return slices.ContainsFunc(Scenes(), func(scene string) bool { return o.wants(scene) && !slices.Contains(apart(), scene) })
}

// Run measures all scenes, those with a cluster in a single one, and returns their costs. On an error, the table
// contains what was measured until then.
func Run(ctx context.Context, o Options) (*Table, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &Table{Objects: o.Objects, Load: [2]string{load()}}
	if err := measureApart(ctx, o, t); err != nil || !o.wantsCluster() {
		t.Load[1] = load()
		return t, err
	}
	g, err := open(ctx, o)
	if err != nil {
		return t, err
	}
	defer g.close()
	b := &bench{ground: g, table: t}
	t.Flags = g.plumbline.flags()
	err = b.run(ctx)
	b.table.Load[1] = load()
	if err != nil {
		return b.table, fmt.Errorf("%w\nthe end of the daemon's log:\n%s", err, g.plumbline.daemon.LogTail(10))
	}
	return b.table, nil
}

// bench is one run.
type bench struct {
	*ground
	table *Table
	// fleet is the content of Git during a scene.
	fleet   *fleet
	raw     raw
	fetches fetches
	// audited is how far the API server's audit log was read.
	audited int64
	// firstRow and allRow are compared with the raw apply once everything is measured.
	firstRow, allRow *Row
}

// scene is one part of the run. It starts and ends with an empty cluster.
type scene struct {
	name string
	play func(context.Context) error
}

func (b *bench) scenes() []scene {
	return []scene{
		{"changes", b.changes},
		{"removal", b.removal},
		{"kustomize", b.kustomizations},
		{"many", b.many},
		{"curve", b.curve},
		{"rollout", b.rollout},
		{peersScene, b.peers},
		{"idle", b.idle}, // it leaves its nodes behind
	}
}

func (b *bench) run(ctx context.Context) error {
	if err := b.shown(ctx, "prepare", func(ctx context.Context) error {
		return b.inTurn(ctx, step{"the daemon's start", b.plumbline.start}, step{"a raw apply", b.openRaw}, step{"a raw fetch", b.openFetches})
	}); err != nil {
		return err
	}
	for _, s := range b.scenes() {
		if !b.options.wants(s.name) {
			continue
		}
		if err := b.shown(ctx, s.name, s.play); err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	return nil
}

// shown does something, and shows its progress.
func (g *ground) shown(ctx context.Context, name string, do func(context.Context) error) error {
	g.line = g.options.Progress.Begin(name)
	defer g.line.End()
	return do(ctx)
}

// step is a named part of a scene.
type step struct {
	name string
	take func(context.Context) error
}

// inTurn runs steps until one fails.
func (g *ground) inTurn(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		g.line.Say(s.name)
		if err := s.take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line that is not overwritten.
func (g *ground) say(format string, args ...any) { g.line.Print(fmt.Sprintf(format, args...)) }
