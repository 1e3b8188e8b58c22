package conclude

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// maxTerminations is how many terminations the status names.
const maxTerminations = 20

// noteTerminations keeps in the status what has been terminating for longer than expected. If nothing was looked at, what the status
// has stays without its commands: nothing proves any more that they do no harm.
func (s *Step) noteTerminations() {
	status := &s.Sync.Status
	switch {
	case s.Terminations == nil && s.Sync.Drains(): // the removals report what they wait for
		status.Terminations, status.StalledTerminations = nil, 0
		return
	case s.Terminations == nil:
		for i := range status.Terminations {
			status.Terminations[i].BreakGlass = nil
		}
		return
	}
	status.Terminations, status.StalledTerminations = nil, int32(len(s.Terminations))
	for _, t := range s.Terminations[:min(len(s.Terminations), maxTerminations)] {
		t.Message = finding.Bounded(t.Message, maxRemovalMessage)
		status.Terminations = append(status.Terminations, t)
	}
}

// setTerminationStalled tells of what has been terminating for longer than expected, for as long as it is.
func (s *Step) setTerminationStalled() {
	s.setTrouble(v1alpha1.TerminationStalledCondition, v1alpha1.ReasonTerminating, TerminationWords(&s.Sync.Status))
}

// TerminationWords name what has been terminating for longer than expected, and what each waits for; empty if nothing has.
func TerminationWords(status *v1alpha1.NodeSyncStatus) string {
	if len(status.Terminations) == 0 {
		return ""
	}
	words := make([]string, 0, len(status.Terminations))
	for _, t := range status.Terminations {
		of := t.Kind + "/" + t.Name
		if t.Node != "" && t.Node != t.Name {
			of += " (node " + t.Node + ")"
		}
		words = append(words, fmt.Sprintf("%s since %s: %s", of, t.Since.UTC().Format(time.RFC3339), t.Message))
	}
	n := int(status.StalledTerminations)
	return fmt.Sprintf("%s terminating for longer than expected: %s", english.Plural(n, "node is", "nodes are"), finding.Few(words, "; "))
}
