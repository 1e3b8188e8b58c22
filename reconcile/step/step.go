// Package step names the steps of a reconcile. Metrics, and the points where tests kill the
// daemon, have the names (manifests/SPEC.md); the order is the reconciler's.
package step

import "time"

// Name is that of a step, as metrics have it.
type Name string

// Timing is how long one step of a reconcile took.
type Timing struct {
	Step     Name
	Duration time.Duration
}

// The steps of a pass, in the order in which they are first taken.
const (
	Listen          Name = "listen"
	AddFinalizer    Name = "addFinalizer"
	Fetch           Name = "fetch"
	Verify          Name = "verify"
	Configure       Name = "configure"
	See             Name = "see"
	VerifyCloud     Name = "verifyCloud"
	SeeCollision    Name = "seeCollision"
	ResolveCharts   Name = "resolveCharts"
	Render          Name = "render"
	SeeVanished     Name = "seeVanished"
	MakePlan        Name = "makePlan"
	InstallCharts   Name = "installCharts"
	Announce        Name = "announce"
	RecordNames     Name = "recordNames"
	ApplyPlan       Name = "applyPlan"
	Observe         Name = "observe"
	RecordApplied   Name = "recordApplied"
	SeeLaunches     Name = "seeLaunches"
	SeeNodeDrift    Name = "seeNodeDrift"
	SeeRollout      Name = "seeRollout"
	SeeInstances    Name = "seeInstances"
	SeeTerminations Name = "seeTerminations"
	SettleCharts    Name = "settleCharts"
	Remove          Name = "remove"
)

// The steps of a deletion, or a drain, beside those.
const (
	Drainable     Name = "drainable"
	SeeController Name = "seeController"
	Drain         Name = "drain"
	FinishDrained Name = "finishDrained"
	Orphan        Name = "orphan"
)
