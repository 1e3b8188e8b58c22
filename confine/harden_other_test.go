//go:build !linux

package confine_test

import (
	"strings"
	"testing"
)

// TestElsewhereThereIsLess: on other systems than Linux, the caller is informed once that only the limits on wall time
// and output apply.
func TestElsewhereThereIsLess(t *testing.T) {
	var heard []string
	telling := runner.Telling(func(refused string) { heard = append(heard, refused) }, nil)
	for range 2 {
		if got, err := telling.Ask(t.Context(), "an echo", "echo", "hello"); err != nil || got != "hello" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if len(heard) != 1 || !strings.Contains(heard[0], "resource limits and a filter of system calls: not on ") {
		t.Errorf("heard of %q", heard)
	}
}
