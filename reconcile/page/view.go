package page

import (
	"html/template"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// refreshes is after how many seconds a page loads itself again.
const refreshes = 10

// view is a page: what all have, and what one is about.
type view struct {
	Title string
	Style template.CSS
	// Refresh is in how many seconds it loads itself again; 0 is never. Toggle is the page that
	// does otherwise, empty where there is none.
	Refresh int
	Toggle  string
	Home    string
	// Here is the NodeSync that it is about; empty for the overview.
	Here      string
	Namespace string
	Version   string
	At        when
	Body      any
}

// when is a time: how long ago, and exactly.
type when struct{ Words, Exact string }

// ago is a time as it is shown; nil and zero are not known.
func ago(at *metav1.Time, now time.Time) when {
	if at.IsZero() {
		return when{}
	}
	return when{Words: summary.Age(*at, now), Exact: summary.Stamp(*at)}
}

// badge is a state as it is shown: a sign and a word say what its colour does.
type badge struct{ Tone, Sign, Words string }

// The tones, from what a person has to do something about to what is well.
const (
	toneBad   = "bad"
	toneHeld  = "held"
	toneBusy  = "busy"
	toneQuiet = "quiet"
	toneGood  = "good"
)

var tones = []string{toneBad, toneHeld, toneBusy, toneQuiet, toneGood}

// badgeOf is that of a NodeSync's state.
func badgeOf(state summary.State) badge {
	tone, sign := toneBusy, "…"
	switch state {
	case summary.InSync:
		tone, sign = toneGood, "✓"
	case summary.Held, summary.RolloutHeld:
		tone, sign = toneHeld, "‖"
	case summary.RolloutStopped, summary.RolloutFailing, summary.Stalled, summary.Stuck, summary.Failed, summary.Retrying,
		summary.Drifted, summary.Unknown:
		tone, sign = toneBad, "!"
	case summary.Suspended, summary.Drained, summary.Unseen, summary.Deleted:
		tone, sign = toneQuiet, "–"
	case summary.RollingOut, summary.Removing, summary.Waiting:
	}
	return badge{tone, sign, string(state)}
}

// rank is where it stands among others: what needs a person comes first.
func (b badge) rank() int { return slices.Index(tones, b.Tone) }
