// Package property checks properties over drawn values, for tests. The draws are the same in
// each run, so that a change is what makes a test fail, and are others where PLUMBLINE_DRAWS
// says so, as `make test-full` does.
package property

import (
	"flag"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// seed is what draws begin with where nothing else is said.
const seed = "1"

// Variable names the environment variable with another seed, a decimal number; 0 takes a
// random one. A failure prints the -rapid.seed that repeats it.
const Variable = "PLUMBLINE_DRAWS"

var fix = sync.OnceFunc(func() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.seed" })
	if chosen {
		return
	}
	value := os.Getenv(Variable) //nolint:forbidigo // tests have no cmd
	if value == "" {
		value = seed
	}
	if err := flag.Set("rapid.seed", value); err != nil {
		panic(Variable + ": " + err.Error())
	}
})

// Check draws values for a property until it fails or has held often enough.
func Check(t *testing.T, holds func(*rapid.T)) {
	t.Helper()
	fix()
	rapid.Check(t, holds)
}

// Of is Check as a subtest.
func Of(holds func(*rapid.T)) func(*testing.T) {
	return func(t *testing.T) { Check(t, holds) }
}
