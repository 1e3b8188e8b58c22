package upgrade

import "fmt"

// Action is what Next wants done. After all but Keep, Record, Wait, Hold, Stall and
// Fail it is asked again in the same pass.
type Action interface {
	fmt.Stringer
	action()
}

// Keep leaves the charts as they are: as Git says.
type Keep struct{}

// Check finds out whether the change may be made.
type Check struct{}

// Record ends the pass, so that the status is written before more is done.
type Record struct{}

// Migrate rewrites the objects of CRDs that would lose a stored version.
type Migrate struct{}

// InstallCRDs installs the CRD chart.
type InstallCRDs struct{}

// InstallController installs the main chart.
type InstallController struct{}

// Diagnose asks the pods of a controller that is overdue: whether one that leads is
// enough, and if not why they do not come up.
type Diagnose struct{}

// FindEarlier asks Helm's history for a release to go back to, where the status has none.
type FindEarlier struct{}

// RollBack brings the main chart again as it was at a revision.
type RollBack struct{ Revision int32 }

// Wait ends the pass: nothing more can be done for now.
type Wait struct{ On, Message string }

// Hold ends the pass until a person has given a word.
type Hold struct{ Message string }

// Stall ends the change for now: a person has to do something, and it is looked at
// again.
type Stall struct{ Message string }

// Fail ends the pass: it went wrong, and a person has to do something.
type Fail struct{ Message string }

func (Keep) action()              {}
func (Check) action()             {}
func (Record) action()            {}
func (Migrate) action()           {}
func (InstallCRDs) action()       {}
func (InstallController) action() {}
func (Diagnose) action()          {}
func (RollBack) action()          {}
func (FindEarlier) action()       {}
func (Wait) action()              {}
func (Hold) action()              {}
func (Stall) action()             {}
func (Fail) action()              {}

func (Keep) String() string              { return "keep" }
func (Check) String() string             { return "check" }
func (Record) String() string            { return "record it" }
func (Migrate) String() string           { return "migrate stored objects" }
func (InstallCRDs) String() string       { return "install the CRD chart" }
func (InstallController) String() string { return "install the main chart" }
func (Diagnose) String() string          { return "ask the pods" }
func (FindEarlier) String() string       { return "look for an earlier release" }
func (r RollBack) String() string        { return fmt.Sprintf("roll back to revision %d", r.Revision) }
func (w Wait) String() string            { return fmt.Sprintf("wait for %s: %s", w.On, w.Message) }
func (h Hold) String() string            { return "hold: " + h.Message }
func (s Stall) String() string           { return "stall: " + s.Message }
func (f Fail) String() string            { return "fail: " + f.Message }
