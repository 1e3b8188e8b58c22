//go:build !linux

package confine_test

import (
	"strings"
	"testing"
)

// TestElsewhereThereIsLess: on other systems than Linux it is told, once, that only the limits of
// wall time and output hold.
func TestElsewhereThereIsLess(t *testing.T) {
	var told []string
	telling := runner.Telling(func(refused string) { told = append(told, refused) }, nil)
	for range 2 {
		if got, err := telling.Ask(t.Context(), "an echo", "echo", "hello"); err != nil || got != "hello" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "resource limits and a filter of system calls: not on ") {
		t.Errorf("told of %q", told)
	}
}
