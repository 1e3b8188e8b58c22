package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// folder contains a fleet's definitions in the repository.
const folder = "clusters/bench"

// changes measures the cost of commits to a plain folder, and of raw applies of the same before and after.
func (b *bench) changes(ctx context.Context) error {
	return b.inTurn(ctx,
		step{"raw applies of all", b.rawAll},
		step{"first apply", b.firstApply},
		step{"1 changed", b.oneChanged},
		step{"commits outside the inputs", b.outside},
		step{"edits by hand", b.editedByHand},
		step{"restart", b.restarted("", 3*time.Second, nil)},
		step{"restart without its cache", b.restarted(" without its --cache-dir", 3*time.Second, func() error { return b.plumbline.daemon.Forget() })},
		step{"all changed", b.allChanged},
		step{"profile of 1 changed", b.profileOne},
		step{"memory", b.memory},
		step{"deletion", b.plumbline.leave},
		step{"raw applies of all again", b.withoutDaemon(b.rawAll)},
		step{"comparison", b.compareRaw},
	)
}

// withoutDaemon does something while the daemon is stopped.
func (b *bench) withoutDaemon(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(b.plumbline.daemon.Stop(), do(ctx), b.plumbline.start(ctx))
	}
}

// firstApply makes the daemon apply the repository for the first time.
func (b *bench) firstApply(ctx context.Context) error {
	b.fleet = newFleet(folder, "", b.options.Objects)
	row, err := b.profiled(ctx, "first", func(ctx context.Context) (Row, error) {
		return b.meet(ctx, b.fleet, nil)
	})
	if err != nil {
		return err
	}
	row.Work = fmt.Sprintf("%d objects, first apply", b.options.Objects)
	b.firstRow = b.table.add(row)
	return exact(row, Counts{Writes: b.options.Objects, Patches: free, Events: free, Lists: free, Reads: free})
}

// meet pushes a fleet and makes plumbline follow it from the start.
func (b *bench) meet(ctx context.Context, f *fleet, settings map[string]string) (Row, error) {
	commit, err := b.publish(ctx, f)
	if err != nil {
		return Row{}, err
	}
	row, err := b.measure(ctx, b.plumbline, func(ctx context.Context) (time.Time, error) {
		return b.plumbline.follow(ctx, "bench", f.folder, settings)
	}, func(ctx context.Context) error {
		return b.plumbline.settled(ctx, commit)
	})
	if err != nil {
		return Row{}, err
	}
	row.Fetch, err = b.fetches.measure(ctx, "--depth=1")
	return row, err
}

// publish pushes a fleet without a notification, replacing the one before.
func (b *bench) publish(ctx context.Context, f *fleet) (commit string, err error) {
	if err := b.host.repo.Remove("clusters"); err != nil {
		return "", err
	}
	if err := b.host.repo.Write("README.md", fmt.Appendf(nil, "# fleet of %d pairs\n", len(f.limits))); err != nil {
		return "", err
	}
	if err := b.write(f.all()...); err != nil {
		return "", err
	}
	if err := b.writeSettings(f); err != nil {
		return "", err
	}
	p, err := b.host.push(ctx, nobody)
	return p.commit, err
}

// oneChanged changes one NodePool, several times.
func (b *bench) oneChanged(ctx context.Context) error {
	row, err := b.repeat(func(i int) (Row, error) {
		row, err := b.change(ctx, b.plumbline, b.fleet.changeOne(i*7))
		return row, errors.Join(err, b.rawOne(ctx))
	})
	if err != nil {
		return err
	}
	row.Work, row.Apply = fmt.Sprintf("%d objects, 1 changed", b.options.Objects), median(b.raw.ones)
	row.Limit = changeLimit(row)
	b.table.add(row)
	return exact(row, oneObject)
}

// changeLimit returns the maximum time for a commit that changes one object or none.
func changeLimit(row Row) time.Duration { return row.Fetch + 100*time.Millisecond }

// allChanged changes every object.
func (b *bench) allChanged(ctx context.Context) error {
	b.fleet.changeAll()
	row, err := b.profiled(ctx, "all", func(ctx context.Context) (Row, error) {
		return b.change(ctx, b.plumbline, b.fleet.all()...)
	})
	if err != nil {
		return err
	}
	row.Work = fmt.Sprintf("%d objects, all changed", b.options.Objects)
	b.allRow = b.table.add(row)
	return exact(row, Counts{Writes: b.options.Objects, Patches: wakes(row.Told), Events: 1, Lists: 0, Reads: free})
}

// compareRaw compares the rows with many writes with the raw applies before and after them.
func (b *bench) compareRaw(context.Context) error {
	b.table.RawFirst, b.table.RawAll = b.raw.first, b.raw.all
	b.firstRow.Apply, b.allRow.Apply = median(b.raw.first), median(b.raw.all)
	for _, row := range []*Row{b.firstRow, b.allRow} {
		row.Limit = row.Apply * 3 / 2
	}
	return nil
}

// outside changes a file that no render has read.
func (b *bench) outside(ctx context.Context) error {
	row, err := b.repeat(func(i int) (Row, error) {
		if err := b.host.repo.Write("README.md", fmt.Appendf(nil, "# fleet, edition %d\n", i+2)); err != nil {
			return Row{}, err
		}
		return b.change(ctx, b.plumbline)
	})
	if err != nil {
		return err
	}
	row.Work = fmt.Sprintf("%d objects, commit outside the inputs", b.options.Objects)
	row.Limit = changeLimit(row)
	b.table.add(row)
	return exact(row, nothing)
}

// editedByHand changes the limit of a NodePool in the cluster.
func (b *bench) editedByHand(ctx context.Context) error {
	row, err := b.repeat(func(i int) (Row, error) {
		pool := b.fleet.pool(i * 7 % len(b.fleet.limits))
		return b.measure(ctx, b.plumbline, func(ctx context.Context) (time.Time, error) {
			edit := []byte(`{"spec":{"limits":{"cpu":"7"}}}`)
			_, err := b.objects.Resource(nodePools).Patch(ctx, pool.name, types.MergePatchType, edit, metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return time.Now(), err
		}, func(ctx context.Context) error {
			return b.await(ctx, "the edit to be corrected", func(ctx context.Context) (bool, error) {
				o, err := b.objects.Resource(nodePools).Get(ctx, pool.name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				cpu, _, err := unstructured.NestedString(o.Object, "spec", "limits", "cpu")
				return cpu != "7", err
			})
		})
	})
	if err != nil {
		return err
	}
	row.Work = fmt.Sprintf("%d objects, an edit by hand corrected", b.options.Objects)
	row.Limit = time.Second
	b.table.add(row)
	return exact(row, Counts{Writes: 1, Patches: free, Events: free, Lists: 0, Reads: free})
}

// restarted stops the daemon, does something meanwhile, and restarts it, until it has handled a request that was made
// in between.
func (b *bench) restarted(how string, limit time.Duration, away func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := b.plumbline.daemon.Stop(); err != nil {
			return err
		}
		if away != nil {
			if err := away(); err != nil {
				return err
			}
		}
		token := time.Now().Format(time.RFC3339Nano)
		if err := b.plumbline.request(ctx, token); err != nil {
			return err
		}
		row, err := b.measure(ctx, b.plumbline, func(ctx context.Context) (time.Time, error) {
			return time.Now(), b.plumbline.launch(ctx)
		}, func(ctx context.Context) error {
			return b.plumbline.answered(ctx, token)
		})
		if err != nil {
			return err
		}
		row.Work, row.Limit = fmt.Sprintf("%d objects, restart to in-sync%s", b.options.Objects, how), limit
		b.table.add(row)
		return exact(row, Counts{Patches: free, Events: free, Lists: free, Reads: free})
	}
}

// resting is how long the daemon is idle before its memory is read: it checks every 10 s whether it is idle.
const resting = 30 * time.Second

// memory reads the daemon's memory after that, when idle.
func (b *bench) memory(ctx context.Context) (err error) {
	if err := pass(ctx, resting); err != nil {
		return err
	}
	if b.table.Memory, err = watched(b.plumbline.daemon.PID()).memory(); err != nil {
		return err
	}
	return b.profileHeap(ctx, "changes")
}

// write writes definitions into the engineer's clone.
func (b *bench) write(all ...definition) error {
	for _, d := range all {
		if err := b.host.repo.Write(d.file, []byte(d.content)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) writeSettings(f *fleet) error {
	for name, content := range f.settings() {
		if err := b.host.repo.Write(name, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}
