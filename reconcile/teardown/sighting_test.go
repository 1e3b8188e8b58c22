package teardown

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// A record of an older daemon says only whether EC2 has shown an instance: that is
// no end.
func TestOlderRecordsAreRead(t *testing.T) {
	old := `{"kind":"NodePool","name":"batch","notedAt":"2026-01-01T12:00:00Z","instances":{"i-a":true,"i-b":false},"growth":{}}`
	var got record
	if err := json.Unmarshal([]byte(old), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]Seen{"i-a": seenOnce, "i-b": ""}, got.Instances); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if seenOnce.ending() || seenOnce.rank() != Seen("running").rank() {
		t.Error("an instance that was shown counts as ending")
	}
	written, err := json.Marshal(record{Instances: map[string]Seen{"i-a": shuttingDown, "i-b": ""}})
	if err != nil {
		t.Fatal(err)
	}
	var back record
	if err := json.Unmarshal(written, &back); err != nil || back.Instances["i-a"] != shuttingDown || back.Instances["i-b"] != "" {
		t.Errorf("%s comes back as %v, error %v", written, back.Instances, err)
	}
}

// An answer that lags does not bring back what was shown to be ending.
func TestARecordedStateOnlyRises(t *testing.T) {
	r := &records{entries: map[types.UID]record{}}
	it := &item{before: v1alpha1.Removal{UID: "1"}}
	for _, state := range []string{"pending", "shutting-down", "running"} {
		r.note(it, Note{Seen: []Instance{{ProviderID: "i-a", State: state}}})
	}
	if got := r.entries["1"].Instances["i-a"]; got != shuttingDown {
		t.Errorf("it is recorded as %q", got)
	}
}
