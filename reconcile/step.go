package reconcile

import "context"

// step is one of a pass. Metrics, and the points where tests kill the daemon, go by
// its name.
type step struct {
	name stepName
	take func(context.Context) error
}

// stepName is that of a step, as metrics have it (manifests/SPEC.md).
type stepName string

// The steps of a pass, in the order in which they are first taken.
const (
	stepListen        stepName = "listen"
	stepAddFinalizer  stepName = "addFinalizer"
	stepFetch         stepName = "fetch"
	stepVerify        stepName = "verify"
	stepConfigure     stepName = "configure"
	stepSee           stepName = "see"
	stepVerifyCloud   stepName = "verifyCloud"
	stepSeeCollision  stepName = "seeCollision"
	stepResolveCharts stepName = "resolveCharts"
	stepRender        stepName = "render"
	stepSeeVanished   stepName = "seeVanished"
	stepMakePlan      stepName = "makePlan"
	stepInstallCharts stepName = "installCharts"
	stepAnnounce      stepName = "announce"
	stepApplyPlan     stepName = "applyPlan"
	stepObserve       stepName = "observe"
	stepRecordApplied stepName = "recordApplied"
	stepSeeLaunches   stepName = "seeLaunches"
	stepSeeNodeDrift  stepName = "seeNodeDrift"
	stepSettleCharts  stepName = "settleCharts"
	stepRemove        stepName = "remove"
)

// The steps of a deletion beside those.
const (
	stepSeeNamespace  stepName = "seeNamespace"
	stepRecordable    stepName = "recordable"
	stepServedOrGone  stepName = "servedOrGone"
	stepSeeController stepName = "seeController"
	stepDrain         stepName = "drain"
	stepFinishDrained stepName = "finishDrained"
	stepOrphan        stepName = "orphan"
)
