package install

import (
	"testing"
	"time"
)

// TestARolloutOutlastsTheLease of the controller before: a shorter timeout would roll every
// change back.
func TestARolloutOutlastsTheLease(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, 5 * time.Minute: 5 * time.Minute} {
		step := &Step{Timeout: timeout}
		if got := step.rolloutTimeout(); got != want {
			t.Errorf("timeout %s: a controller has %s to come up, want %s", timeout, got, want)
		}
	}
}
