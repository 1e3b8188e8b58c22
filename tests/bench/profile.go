package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// profileTime is how long a profile runs.
const profileTime = 20 * time.Second

// profileOne takes a CPU profile of the daemon while one object after another is changed.
func (b *bench) profileOne(ctx context.Context) error {
	if b.options.Profile == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	over := make(chan struct{})
	group.Go(func() error {
		defer close(over)
		return b.profileCPU(ctx, "one")
	})
	group.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-over:
				b.say("the profile of one-object changes is of %d", i)
				return nil
			default:
			}
			if _, err := b.change(ctx, b.plumbline, b.fleet.changeOne(i*11)); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// profiled does something, and takes a CPU profile of the daemon meanwhile.
func (b *bench) profiled(ctx context.Context, what string, do func(context.Context) (Row, error)) (row Row, err error) {
	if b.options.Profile == "" {
		return do(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.profileCPU(ctx, what) })
	group.Go(func() (err error) {
		row, err = do(ctx)
		return err
	})
	return row, group.Wait()
}

func (b *bench) profileCPU(ctx context.Context, of string) error {
	return b.download(ctx, fmt.Sprintf("profile?seconds=%d", int(profileTime.Seconds())), "cpu-"+of)
}

// profileHeap records the runtime's statistics of the daemon's memory, and a heap profile.
func (b *bench) profileHeap(ctx context.Context, at string) error {
	if b.options.Profile == "" {
		return nil
	}
	return errors.Join(b.download(ctx, "heap?debug=1", "memory-"+at), b.download(ctx, "heap?gc=1", "heap-"+at))
}

func (b *bench) download(ctx context.Context, profile, into string) (err error) {
	url := fmt.Sprintf("http://%s/debug/pprof/%s", b.plumbline.profiles, profile)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for a profile: %w", err)
	}
	answer, err := b.plumbline.direct.Do(request)
	if err != nil {
		return fmt.Errorf("ask for a profile: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for a profile at %s: %s", url, answer.Status)
	}
	if err := os.MkdirAll(b.options.Profile, 0o700); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	file, err := os.Create(filepath.Join(b.options.Profile, into+".pprof"))
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	_, err = io.Copy(file, answer.Body)
	return errors.Join(err, file.Close())
}
