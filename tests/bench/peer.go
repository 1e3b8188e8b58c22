package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

// peersScene is the scene that measures the peers, with plumbline first.
const peersScene = "peers"

// work is what each of them has to do.
type work string

const (
	firstApply   work = "first apply"
	oneChanged   work = "1 changed"
	allChanged   work = "all changed"
	poolsRemoved work = "pools removed"
)

// tool is a follower that can be compared with others.
type tool interface {
	follower
	// start starts it; follow makes it apply the fleet in the repository.
	start(ctx context.Context) error
	follow(ctx context.Context, commit string) error
	// end stops it. What it has applied is kept.
	end(ctx context.Context) error
	// settings describes how it was run.
	settings() string
	// memory returns the resident memory of each of its processes, in bytes.
	memory() ([]int64, error)
}

// Peer is what the works cost a tool.
type Peer struct {
	Name, Settings string
	Rows           map[work]Row
	// Resident is the memory of each of its processes after the changes, in bytes.
	Resident []int64
	// Skipped is why it was not measured.
	Skipped string
}

// peers makes plumbline and then each peer follow the same fleet and the same changes, one tool after another.
func (b *bench) peers(ctx context.Context) error {
	if len(b.options.Peers) == 0 {
		return nil
	}
	for _, name := range append([]string{ownName}, b.options.Peers...) {
		b.line.Say(name)
		if err := b.peer(ctx, name); err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
	}
	return b.plumbline.start(ctx)
}

func (b *bench) tool(name string) tool {
	switch name {
	case "flux":
		return &flux{ground: b.ground}
	case "argo":
		return &argo{ground: b.ground}
	default:
		return self{b.plumbline}
	}
}

func (b *bench) peer(ctx context.Context, name string) error {
	t, measured := b.tool(name), &Peer{Name: name, Rows: map[work]Row{}}
	b.table.Peers = append(b.table.Peers, measured)
	err := b.follow(ctx, t, measured)
	if errors.Is(err, peers.ErrMissing) {
		measured.Skipped = err.Error()
		return b.clear(ctx)
	}
	if err != nil {
		return err
	}
	measured.Settings = t.settings()
	if err := t.end(ctx); err != nil {
		return err
	}
	return b.clear(ctx)
}

// follow makes a tool follow a fleet, and pushes changes of it.
func (b *bench) follow(ctx context.Context, t tool, into *Peer) error {
	f := newFleet(folder, "", b.options.Objects)
	commit, err := b.publish(ctx, f)
	if err != nil {
		return err
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	into.Rows[firstApply], err = b.measure(ctx, t, func(ctx context.Context) (time.Time, error) {
		return time.Now(), t.follow(ctx, commit)
	}, func(ctx context.Context) error {
		return t.settled(ctx, commit)
	})
	if err != nil {
		return err
	}
	into.Rows[oneChanged], err = b.repeat(func(i int) (Row, error) { return b.change(ctx, t, f.changeOne(i*7)) })
	if err != nil {
		return err
	}
	f.changeAll()
	if into.Rows[allChanged], err = b.change(ctx, t, f.all()...); err != nil {
		return err
	}
	n := leaving(b.options.Objects)
	if into.Rows[poolsRemoved], err = b.remove(ctx, t, f, n); err != nil {
		return err
	}
	for of, want := range map[work]int{firstApply: b.options.Objects, oneChanged: 1, allChanged: b.options.Objects, poolsRemoved: n} {
		if got := into.Rows[of].Writes; got < want {
			return fmt.Errorf("%s: %d objects were written, want %d", of, got, want)
		}
	}
	if into.Resident, err = t.memory(); err != nil {
		return err
	}
	return b.areLeft(ctx, len(f.limits)-n)
}
