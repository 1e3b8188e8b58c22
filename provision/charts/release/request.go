package release

import (
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Request is what a cluster should have, and what may be done for it.
type Request struct {
	charts.Installation

	// Adopt takes ownership of what another tool or a user installed.
	Adopt bool
	// Ignored are the fields that other controllers and users may change.
	Ignored []survey.Ignore
	// CorrectPaused corrects even the objects whose correction is paused: a user asks.
	CorrectPaused bool
	// Permit is asked about what each chart renders to, before the API server is; its
	// error ends the step. That goes for a repair and for the way back to an earlier
	// revision, too: what was permitted once may not be any more. Default: everything is
	// permitted.
	Permit func(Rendered) error
}
