package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// profileTime is how long a profile runs.
const profileTime = 20 * time.Second

// profile takes a CPU profile of the daemon while one object after another is
// changed.
func (b *bench) profile(ctx context.Context) error {
	if b.options.Profile == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	over := make(chan struct{})
	group.Go(func() error {
		defer close(over)
		return b.download(ctx)
	})
	group.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-over:
				b.say("the profile in %s is of %d one-object changes", b.options.Profile, i)
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

func (b *bench) download(ctx context.Context) (err error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.plumbline.metrics, int(profileTime.Seconds()))
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
	file, err := os.Create(b.options.Profile)
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	_, err = io.Copy(file, answer.Body)
	return errors.Join(err, file.Close())
}
