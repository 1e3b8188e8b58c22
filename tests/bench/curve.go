package bench

import (
	"context"
	"errors"
	"fmt"
)

// curveSizes are the fleet sizes at which one change is measured.
var curveSizes = []int{100, 400, 1000, 2000, 5000, 10000}

// curve changes one object of a growing fleet.
func (b *bench) curve(ctx context.Context) error {
	if !b.options.Curve {
		return nil
	}
	f := newFleet(folder, "", 0)
	for i, size := range curveSizes {
		f.grow(size)
		b.line.Say(fmt.Sprintf("%d objects", size))
		if err := b.grow(ctx, f, i == 0); err != nil {
			return err
		}
		row, err := b.repeat(func(i int) (Row, error) {
			row, err := b.change(ctx, b.plumbline, f.changeOne(i*7))
			return row, errors.Join(err, b.rawOne(ctx))
		})
		if err != nil {
			return err
		}
		row.Work, row.Apply = fmt.Sprintf("curve: %d objects, 1 changed", size), median(b.raw.ones)
		b.table.add(row)
		if err := exact(row, oneObject); err != nil {
			return err
		}
		b.say("        %d objects: %s", size, seconds(row.Wall))
	}
	return b.plumbline.leave(ctx)
}

// grow makes plumbline apply a fleet for the first time, or its new objects.
func (b *bench) grow(ctx context.Context, f *fleet, first bool) error {
	if first {
		_, err := b.meet(ctx, f, nil)
		return err
	}
	_, err := b.change(ctx, b.plumbline, f.all()...)
	return err
}
