package plan_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestAMessageIsBounded: however many pools are removed, each message lists only a few.
func TestAMessageIsBounded(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("stays", "default"))
	for i := range 40 {
		c.have(t, owner, pool(fmt.Sprintf("leaves-%02d", i), "default"))
	}
	removals := c.plan(t, class("default"), pool("stays", "default")).Removals
	if len(removals) != 40 {
		t.Fatalf("%d removals", len(removals))
	}
	want := ": leaves-00, leaves-01, leaves-02, leaves-03, leaves-04 and 35 more"
	for _, r := range removals {
		if !strings.HasSuffix(r.Message, want) {
			t.Fatalf("%s: %q", r.Ref, r.Message)
		}
	}
}
