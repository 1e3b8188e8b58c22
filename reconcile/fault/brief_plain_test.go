package fault_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestABriefCommandsNoTerminal: text from a commit is posted to its host, and read in terminals.
func TestABriefCommandsNoTerminal(t *testing.T) {
	got := fault.Brief{What: "kind x\x1b[1A\x1b[2Kplumbline: \u202esuccess\u009b", Where: "a\x07.yaml:1"}.String()
	if strings.ContainsAny(got, "\x1b\u202e\u009b\x07") || !strings.Contains(got, "plumbline: ") {
		t.Errorf("%q", got)
	}
}
