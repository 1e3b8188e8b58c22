package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	const most = 10 * little
	for name, c := range map[string]struct {
		before, now usage
		want        bool
	}{
		"at rest, with much garbage":      {usage{allocated: most}, usage{allocated: most + 1, garbage: most}, true},
		"at rest, with much kept":         {usage{allocated: most}, usage{allocated: most, free: most}, true},
		"at rest, with little of either":  {usage{allocated: most}, usage{allocated: most, garbage: trifle / 2, free: trifle / 2}, false},
		"at work":                         {usage{allocated: most}, usage{allocated: 2 * most, garbage: most, free: most}, false},
		"at the first look, just started": {usage{}, usage{allocated: most, garbage: most}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &releaser{before: c.before}
			if got := r.worthwhile(c.now); got != c.want {
				t.Errorf("worthwhile = %t, want %t", got, c.want)
			}
			if r.before != c.now {
				t.Errorf("compares with %+v next time", r.before)
			}
		})
	}
}

// collected is how much garbage there may be now, in percent.
func collected() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

func TestTheEnvironmentSaysHowOftenIsCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "100")
	collect(often)
	if got := collected(); got != 100 {
		t.Errorf("with GOGC=100 it is collected at %d %%", got)
	}
	t.Setenv("GOGC", "")
	collect(often)
	if got := collected(); got != often {
		t.Errorf("it is collected at %d %%, want %d", got, often)
	}
}

// TestCollectedOftenUntilTheFirstRest: one that does not lead has its first look before it.
func TestCollectedOftenUntilTheFirstRest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(often))
	t.Setenv("GOGC", "")
	elected := make(chan struct{})
	r := &releaser{elected: elected}
	r.settle()
	if got := collected(); got != often {
		t.Errorf("at rest without the lease it is collected at %d %%, want %d", got, often)
	}
	close(elected)
	r.settle()
	if got := collected(); got != seldom {
		t.Errorf("at rest it is collected at %d %%, want %d", got, seldom)
	}
}

// TestMeasureSeesGarbage: what it reads are the runtime's own figures, by their names.
func TestMeasureSeesGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing is collected in between
	runtime.GC()
	before := measure()
	waste := make([]byte, 4*little)
	runtime.KeepAlive(waste)
	after := measure()
	if after.allocated-before.allocated < 4*little || after.garbage < before.garbage+3*little {
		t.Errorf("before %+v, after %d bytes more %+v", before, len(waste), after)
	}
	debug.FreeOSMemory()
	if freed := measure(); freed.garbage >= after.garbage {
		t.Errorf("before %+v, after it was given back %+v", after, freed)
	}
}
