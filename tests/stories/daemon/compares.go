package daemon

import (
	"strings"
	"time"
)

// usually is how often the daemon compares instances where no flag says otherwise.
const usually = 10 * time.Minute

// Compares is how often the daemon compares EC2 instances, by its flags; 0 where it does not.
func (d *Daemon) Compares() time.Duration {
	every := usually
	for _, flag := range d.flags {
		if text, is := strings.CutPrefix(flag, "--compare-instances="); is {
			every, _ = time.ParseDuration(text) // the daemon refuses another
		}
	}
	return every
}
