package blocker

import (
	"testing"
	"time"
)

// TestReadAgain checks that a new cause is read again within seconds, and the less often the longer it lasts, but at
// least every minute.
func TestReadAgain(t *testing.T) {
	for name, c := range map[string]struct{ kept, want time.Duration }{
		"since now":       {0, 5 * time.Second},
		"in the future":   {-time.Minute, 5 * time.Second}, // the clock was set back
		"half a minute":   {30 * time.Second, 5 * time.Second},
		"a minute":        {time.Minute, 10 * time.Second},
		"three minutes":   {3 * time.Minute, 30 * time.Second},
		"six minutes":     {6 * time.Minute, time.Minute},
		"an hour":         {time.Hour, time.Minute},
		"longer than all": {1<<63 - 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReadAgain(c.kept); got != c.want {
				t.Errorf("after %s it is read again in %s, want %s", c.kept, got, c.want)
			}
		})
	}
}
