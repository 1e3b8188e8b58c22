package daemon

import (
	"strings"
	"time"
)

// usually is how often the daemon compares instances by default.
const usually = 10 * time.Minute

// Compares returns how often the daemon compares EC2 instances, according to its flags; 0 if it does not.
func (d *Daemon) Compares() time.Duration {
	every := usually
	for _, flag := range d.flags {
		if text, is := strings.CutPrefix(flag, "--compare-instances="); is {
			every, _ = time.ParseDuration(text) // the daemon rejects an invalid one
		}
	}
	return every
}
