package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// rawClones is how many raw fetches of one push are made; the median counts.
const rawClones = 3

// firstApply lets the daemon meet the repository for the first time.
func (b *bench) firstApply(ctx context.Context) error {
	if err := b.write(append(b.fleet.classes(""), b.fleet.pools("")...)...); err != nil {
		return err
	}
	repo := b.host.repo
	config := fmt.Sprintf(karpenterYAML, sandbox.DefaultCluster, sandbox.DefaultRegion)
	if err := repo.Write(folder+"/plumbline.yaml", []byte(config)); err != nil {
		return err
	}
	if err := repo.Write("README.md", []byte("# fleet\n")); err != nil {
		return err
	}
	p, err := b.host.push(ctx, "the fleet")
	if err != nil {
		return err
	}
	if err := b.startDaemon(ctx); err != nil {
		return err
	}
	row, err := b.take(ctx, p, b.follow)
	if err != nil {
		return err
	}
	if b.fetches, err = b.host.newFetches(ctx, b.path("fetches"), rawClones); err != nil {
		return err
	}
	if row.Fetch, err = b.fetches.measure(ctx, "--depth=1"); err != nil {
		return err
	}
	row.Work, row.Apply = fmt.Sprintf("%d objects, first apply", b.options.Objects), b.raw.first
	row.Bar = row.Apply * 3 / 2
	return b.add(row, b.options.Objects)
}

// oneChanged changes one NodePool, some times over.
func (b *bench) oneChanged(ctx context.Context) error {
	var rows []Row
	for i := range b.options.Repeat {
		at := b.fleet.changeOne(i * 7)
		row, err := b.commit(ctx, 1, b.fleet.pool("", at))
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	row := middle(rows)
	row.Work, row.Apply = fmt.Sprintf("%d objects, 1 changed", b.options.Objects), b.raw.one
	row.Bar = row.Fetch + 150*time.Millisecond
	if b.options.Objects > 400 {
		row.Bar = row.Fetch + 250*time.Millisecond
	}
	b.table.Rows = append(b.table.Rows, row)
	return nil
}

// allChanged changes every object.
func (b *bench) allChanged(ctx context.Context) error {
	b.fleet.changeAll()
	row, err := b.commit(ctx, b.options.Objects, append(b.fleet.classes(""), b.fleet.pools("")...)...)
	if err != nil {
		return err
	}
	row.Work, row.Apply = fmt.Sprintf("%d objects, all changed", b.options.Objects), b.raw.all
	row.Bar = row.Apply * 3 / 2
	b.table.Rows = append(b.table.Rows, row)
	return nil
}

// outside changes a file that no render has read.
func (b *bench) outside(ctx context.Context) error {
	var rows []Row
	for i := range b.options.Repeat {
		if err := b.host.repo.Write("README.md", fmt.Appendf(nil, "# fleet, edition %d\n", i+2)); err != nil {
			return err
		}
		row, err := b.commit(ctx, 0)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	row := middle(rows)
	row.Work = fmt.Sprintf("%d objects, commit outside the inputs", b.options.Objects)
	row.Bar = row.Fetch + 50*time.Millisecond
	b.table.Rows = append(b.table.Rows, row)
	return nil
}

// write puts definitions into the engineer's clone.
func (b *bench) write(all ...definition) error {
	for _, d := range all {
		if err := b.host.repo.Write(d.file(), []byte(d.content)); err != nil {
			return err
		}
	}
	return nil
}

// commit pushes a change of some definitions, or of what stands in the clone
// already, and measures it until all is as Git says.
func (b *bench) commit(ctx context.Context, writes int, changed ...definition) (Row, error) {
	if err := b.write(changed...); err != nil {
		return Row{}, err
	}
	p, err := b.host.push(ctx, "a change")
	if err != nil {
		return Row{}, err
	}
	row, err := b.take(ctx, p, b.request)
	if err != nil {
		return Row{}, err
	}
	if row.Fetch, err = b.fetches.measure(ctx); err != nil {
		return Row{}, err
	}
	return row, exact(row, writes)
}

func (b *bench) add(row Row, writes int) error {
	b.table.Rows = append(b.table.Rows, row)
	return exact(row, writes)
}

// exact holds the one thing that does not hang on the machine.
func exact(row Row, writes int) error {
	if row.Writes != writes || row.Refused > 0 {
		return fmt.Errorf("the daemon wrote %d objects and was refused %d writes; want exactly %d and none", row.Writes, row.Refused, writes)
	}
	return nil
}
