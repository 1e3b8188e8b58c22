package main

import (
	"strings"
	"testing"
)

// TestArguments: asking for help starts nothing.
func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}} {
		var out strings.Builder
		if err := play(t.Context(), args, &out); err != nil || out.String() != usage {
			t.Errorf("%v: %v, %q", args, err, out.String())
		}
	}
	if err := play(t.Context(), []string{"--keep"}, nil); err == nil || err.Error() != `"--keep" is not understood: it takes no arguments` {
		t.Errorf("an unknown one: %v", err)
	}
}
