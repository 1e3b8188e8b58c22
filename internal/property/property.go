// Package property tests properties with generated values. The values are the same in each run, so that a test fails
// only because of a change; PLUMBLINE_DRAWS selects other values, as `make test-full` does.
package property

import (
	"cmp"
	"flag"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// seed is the default seed.
const seed = "1"

// Variable names the environment variable with another seed, a decimal number; 0 selects a random one. A failure prints
// the -rapid.seed that reproduces it.
const Variable = "PLUMBLINE_DRAWS"

var fix = sync.OnceFunc(func() {
	from := os.Getenv(Variable) //nolint:forbidigo // tests have no cmd
	set("rapid.seed", cmp.Or(from, seed))
	set("rapid.checks", checks)
})

// set sets a flag of rapid, unless it is on the command line.
func set(name, value string) {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == name })
	if chosen {
		return
	}
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

// Check generates values for a property until it fails or has held often enough.
func Check(t *testing.T, holds func(*rapid.T)) {
	t.Helper()
	fix()
	rapid.Check(t, holds)
}

// Of returns Check as a subtest.
func Of(holds func(*rapid.T)) func(*testing.T) {
	return func(t *testing.T) { Check(t, holds) }
}
