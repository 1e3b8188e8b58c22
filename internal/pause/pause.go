// Package pause waits without outliving its caller.
package pause

import (
	"context"
	"time"
)

// For waits for a duration. If ctx is done earlier, it returns its error then.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
