package bench

import (
	"context"
	"time"
)

// follower is a tool that keeps the cluster in sync with the repository.
type follower interface {
	// users returns its users for the API server.
	users() []string
	// notify notifies it of a commit, immediately after the push has returned.
	notify(ctx context.Context, commit string) error
	// settled returns when the tool reports that the cluster matches a commit.
	settled(ctx context.Context, commit string) error
	// cpu returns the CPU time that its processes have used.
	cpu() (time.Duration, error)
}

// change writes definitions into the engineer's clone, pushes them together with any other changes there, and measures
// a follower until it has settled.
func (b *bench) change(ctx context.Context, by follower, changed ...definition) (Row, error) {
	if err := b.write(changed...); err != nil {
		return Row{}, err
	}
	var p pushed
	row, err := b.measure(ctx, by, func(ctx context.Context) (began time.Time, err error) {
		p, err = b.host.push(ctx, by.notify)
		return p.at, err
	}, func(ctx context.Context) error {
		return by.settled(ctx, p.commit)
	})
	if err != nil {
		return Row{}, err
	}
	row.Fetch, err = b.fetches.measure(ctx)
	return row, err
}

// repeat measures a change several times, and returns the median.
func (b *bench) repeat(change func(i int) (Row, error)) (Row, error) {
	var rows []Row
	for i := range b.options.Repeat {
		row, err := change(i)
		if err != nil {
			return Row{}, err
		}
		rows = append(rows, row)
	}
	return middle(rows), nil
}
