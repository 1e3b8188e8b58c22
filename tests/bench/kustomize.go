package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizations measures one change in a fleet that a kustomization only lists, and in one that an overlay transforms.
func (b *bench) kustomizations(ctx context.Context) error {
	return errors.Join(b.kustomization(ctx, listed), b.kustomization(ctx, transformed))
}

func (b *bench) kustomization(ctx context.Context, l layout) error {
	b.fleet = newFleet(folder, "", b.options.Objects)
	b.fleet.layout = l
	if _, err := b.meet(ctx, b.fleet, nil); err != nil {
		return err
	}
	row, err := b.profiled(ctx, l.String(), func(ctx context.Context) (Row, error) {
		return b.repeat(func(i int) (Row, error) {
			row, err := b.change(ctx, b.plumbline, b.fleet.changeOne(i*7+1))
			if err == nil && l == transformed {
				row.Build, err = b.krusty()
			}
			return row, errors.Join(err, b.rawOne(ctx))
		})
	})
	if err != nil {
		return err
	}
	row.Apply = median(b.raw.ones)
	want := oneObject
	if l == transformed {
		want.Children = 1
		row.Work = fmt.Sprintf("%d objects through an overlay, 1 changed", b.options.Objects)
		row.Limit = row.Build*12/10 + 300*time.Millisecond
	} else {
		row.Work = fmt.Sprintf("%d objects in a kustomization's list, 1 changed", b.options.Objects)
		row.Limit = changeLimit(row)
	}
	b.table.add(row)
	return errors.Join(exact(row, want), b.plumbline.leave(ctx))
}

// krusty builds what the daemon has built, in this process, and returns how long it took.
func (b *bench) krusty() (time.Duration, error) {
	began := time.Now()
	path := filepath.Join(b.host.repo.Clone, filepath.FromSlash(b.fleet.folder), "nodes")
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("build %s with krusty: %w", path, err)
	}
	if built.Size() != b.options.Objects {
		return 0, fmt.Errorf("build %s with krusty: %d objects, want %d", path, built.Size(), b.options.Objects)
	}
	return took, nil
}
