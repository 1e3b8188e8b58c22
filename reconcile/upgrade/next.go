package upgrade

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// Next advances the charts as far as the observation allows. It returns the status to write and the Action to take.
// timeout is how long a controller may take to become ready.
func Next(k v1alpha1.KarpenterStatus, want Want, s Seen, now time.Time, timeout time.Duration) (v1alpha1.KarpenterStatus, Action) {
	if k.Target == nil || k.Target.Identity != want.Identity {
		if k.Identity == want.Identity && leftNothing(k.Target) {
			k.Target, k.Charts = nil, want.Charts
			return rollout.EndWatch(k, now), Keep{}
		}
		// An overtaken change may already have had its expected effect: its CRDs stay.
		k = at(k, v1alpha1.ChartChecking, now)
		k.Target.Version, k.Target.Identity, k.Target.Charts = want.Version, want.Identity, want.Charts
	}
	switch k.Target.Step {
	case v1alpha1.ChartChecking:
		return check(k, s, now)
	case v1alpha1.ChartMigrating:
		if !s.Migrated {
			return k, Migrate{}
		}
		return installCRDs(at(k, v1alpha1.ChartCRDs, now), s, now)
	case v1alpha1.ChartCRDs:
		return installCRDs(k, s, now)
	case v1alpha1.ChartController:
		return installController(k, s, now)
	case v1alpha1.ChartRollingOut:
		return rollOut(k, s, now, timeout)
	case v1alpha1.ChartRollingBack:
		return rollBack(k, s, now, timeout)
	case v1alpha1.ChartRolledBack:
		if s.Again {
			return check(at(k, v1alpha1.ChartChecking, now), s, now)
		}
		return k, Fail{Message: k.Target.Message}
	case v1alpha1.ChartSettling:
		return k, Keep{}
	}
	return check(at(k, v1alpha1.ChartChecking, now), s, now)
}

// Begins reports whether Next would start a change to the charts with an identity, from charts that are already
// installed.
func Begins(k v1alpha1.KarpenterStatus, identity string) bool {
	own := k.Target != nil && k.Target.Identity == identity && !leftNothing(k.Target)
	kept := k.Identity == identity && leftNothing(k.Target)
	return Begun(&k) && !own && !kept
}

// leftNothing reports whether a target has left nothing in the cluster from which the release in force would have to be
// migrated.
func leftNothing(t *v1alpha1.ChartTarget) bool {
	return t == nil || t.Step == v1alpha1.ChartChecking || t.Step == v1alpha1.ChartRolledBack
}

// at returns the status with its target at a step.
func at(k v1alpha1.KarpenterStatus, step v1alpha1.ChartStep, now time.Time) v1alpha1.KarpenterStatus {
	t := v1alpha1.ChartTarget{}
	if k.Target != nil {
		t = *k.Target
	}
	t.Step, t.Since, t.Message = step, metav1.NewTime(now).Rfc3339Copy(), ""
	k.Target = &t
	return k
}

func check(k v1alpha1.KarpenterStatus, s Seen, now time.Time) (v1alpha1.KarpenterStatus, Action) {
	switch {
	case !s.Checked:
		return k, Check{}
	case s.RollbackBlockers != "" && !s.Approved:
		return k, Hold{Message: s.RollbackBlockers}
	}
	k = at(k, v1alpha1.ChartChecking, now)
	expected := slices.Sorted(slices.Values(slices.Concat(k.Target.ExpectedPools, s.ExpectedPools)))
	k.Target.ExpectedPools = slices.Compact(expected)
	k = rollout.Watch(k, k.Target.Version, k.Target.ExpectedPools, s.Claims, now)
	if !s.Migrated {
		return at(k, v1alpha1.ChartMigrating, now), Record{}
	}
	return at(k, v1alpha1.ChartCRDs, now), Record{}
}

func installCRDs(k v1alpha1.KarpenterStatus, s Seen, now time.Time) (v1alpha1.KarpenterStatus, Action) {
	switch {
	case s.CRDs == nil:
		return k, InstallCRDs{}
	case !s.Established.Ready:
		k.CRDs = s.CRDs
		return k, Wait{On: "CRDs", Message: s.Established.Message}
	}
	k.CRDs = s.CRDs
	return installController(at(k, v1alpha1.ChartController, now), s, now)
}

func installController(k v1alpha1.KarpenterStatus, s Seen, now time.Time) (v1alpha1.KarpenterStatus, Action) {
	if s.Controller == nil {
		return k, InstallController{}
	}
	message := s.Rollout.Message
	if s.Rollout.Ready {
		message = "checking next whether a replica of Karpenter " + k.Target.Version + " is the leader"
	}
	return at(k, v1alpha1.ChartRollingOut, now), Wait{On: "Controller", Message: message}
}

// rollOut waits for the controller. It is in force once it is up and leads; if it takes too long, it is rolled back,
// unless it is the first one. If the status was lost, Helm's history shows whether it is.
func rollOut(k v1alpha1.KarpenterStatus, s Seen, now time.Time, timeout time.Duration) (v1alpha1.KarpenterStatus, Action) {
	overdue := now.Sub(k.Target.Since.Time) >= timeout
	switch {
	case s.Rollout.Ready && s.Controller == nil:
		return k, InstallController{} // to find its revision; nothing is written
	case s.Rollout.Ready:
		k = at(rollout.EndWatch(k, now), v1alpha1.ChartSettling, now)
		k.Version, k.Identity, k.Charts, k.Controller = k.Target.Version, k.Target.Identity, k.Target.Charts, s.Controller
		return k, Keep{}
	case !overdue:
		return k, Wait{On: "Controller", Message: s.Rollout.Message}
	case s.Cause == "":
		return k, Diagnose{}
	case k.Controller == nil && !s.Searched:
		return k, FindEarlier{}
	case k.Controller == nil && s.Earlier == nil:
		return k, Fail{Message: fmt.Sprintf("Karpenter %s does not become ready, and there is no earlier release to roll back to: %s",
			k.Target.Version, s.Cause)}
	}
	message := fmt.Sprintf("Karpenter %s did not become ready: %s", k.Target.Version, s.Cause)
	if k.Controller == nil {
		k.Version, k.Identity, k.Charts, k.Controller = s.Earlier.Version, fromHistory, nil, s.Earlier
	}
	k = at(k, v1alpha1.ChartRollingBack, now)
	k.Target.Message = message
	return k, Record{}
}

// fromHistory is the identity of a release that was found in Helm's history: it is unknown what it was made from.
const fromHistory = "found in Helm's history"

// rollBack waits for the previous release. If it is overdue and no replica leads, a person must act; it is still
// checked.
func rollBack(k v1alpha1.KarpenterStatus, s Seen, now time.Time, timeout time.Duration) (v1alpha1.KarpenterStatus, Action) {
	overdue := now.Sub(k.Target.Since.Time) >= timeout
	message := k.Target.Message
	switch {
	case s.Lost:
		// Nothing is in force: start from the beginning.
		k.Version, k.Identity, k.Charts, k.Controller = "", "", nil, nil
		return check(at(k, v1alpha1.ChartChecking, now), s, now)
	case s.RolledBack == nil && k.Controller != nil:
		return k, RollBack{Revision: k.Controller.Revision}
	case s.RolledBack == nil || s.Rollout.Ready:
	case !overdue:
		k.Controller = s.RolledBack
		return k, Wait{On: "Controller", Message: fmt.Sprintf("rolling back to Karpenter %s: %s", k.Version, s.Rollout.Message)}
	case s.Cause == "":
		return k, Diagnose{}
	default:
		k.Controller = s.RolledBack
		return k, Stall{Message: fmt.Sprintf("%s; the previous release, %s, does not become ready either: %s", message, k.Version, s.Cause)}
	}
	if s.RolledBack != nil {
		k.Controller = s.RolledBack
	}
	outcome := rollout.Outcome(k, s.Claims)
	k = at(rollout.EndWatch(k, now), v1alpha1.ChartRolledBack, now)
	k.Target.Message = fmt.Sprintf("%s; rolled back to the previous release, %s%s", message, k.Version, outcome)
	return k, Fail{Message: k.Target.Message}
}

// Settle completes a change whose controller is in force, once every definition is Ready with it.
func Settle(k v1alpha1.KarpenterStatus, definitions cluster.Readiness) v1alpha1.KarpenterStatus {
	if k.Target != nil && k.Target.Step == v1alpha1.ChartSettling && definitions.Ready {
		k.Target = nil
	}
	return k
}

// Action is the next step that Next requests. After all except Keep, Record, Wait, Hold, Stall and Fail, Next is called
// again in the same reconcile.
type Action interface {
	fmt.Stringer
	action()
}

// Keep leaves the charts as they are, since they match Git.
type Keep struct{}

// Check checks whether the change may be made.
type Check struct{}

// Record ends the reconcile, so that the status is written before anything else is done.
type Record struct{}

// Migrate rewrites the objects of CRDs that would lose a stored version.
type Migrate struct{}

// InstallCRDs installs the CRD chart.
type InstallCRDs struct{}

// InstallController installs the main chart.
type InstallController struct{}

// Diagnose reads the pods of an overdue controller: whether one that leads is enough, and if not, why they do not
// become ready.
type Diagnose struct{}

// FindEarlier searches Helm's history for a release to roll back to, if the status contains none.
type FindEarlier struct{}

// RollBack rolls the main chart back to a revision.
type RollBack struct{ Revision int32 }

// Wait ends the reconcile: nothing more can be done for now.
type Wait struct{ On, Message string }

// Hold ends the reconcile until a person approves.
type Hold struct{ Message string }

// Stall stops the change for now: a person must act, and it is checked again.
type Stall struct{ Message string }

// Fail ends the reconcile with a failure: a person must act.
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

// Want is what Git specifies.
type Want struct {
	// Version of both charts.
	Version string
	// Identity is a fingerprint of both charts and their values.
	Identity string
	// Charts are the charts to which Version was resolved.
	Charts *v1alpha1.ResolvedCharts
}

// Seen is what a reconcile has observed and done so far.
type Seen struct {
	// Checked reports whether nothing forbids the change.
	Checked bool
	// RollbackBlockers is why the controller could not be rolled back once the CRDs are new; empty if it can. Approved
	// reports whether a person has accepted that.
	RollbackBlockers string
	Approved         bool
	// ExpectedPools are the NodePools whose nodes Karpenter may replace because of the change.
	ExpectedPools []string
	// Claims are the live NodeClaims, as found by Check and RollBack.
	Claims []cluster.Claim
	// Migrated reports whether the new CRDs lose no stored version.
	Migrated bool
	// CRDs and Controller are the releases that this reconcile has installed.
	CRDs, Controller *v1alpha1.ReleaseStatus
	// Established reports whether every CRD is served.
	Established cluster.Readiness
	// Rollout reports whether the controller of the version is up and leads. If it was overdue and diagnosed, one
	// replica that leads is enough, and the message names the missing one.
	Rollout cluster.Readiness
	// Cause is why the pods do not become ready, according to the pods.
	Cause string
	// Searched reports whether Helm's history was searched for a release to roll back to. Earlier is that release; nil
	// if there is none.
	Searched bool
	Earlier  *v1alpha1.ReleaseStatus
	// RolledBack is the release to which this reconcile has rolled back.
	RolledBack *v1alpha1.ReleaseStatus
	// Lost reports whether the release to roll back to no longer exists because a user has uninstalled it.
	Lost bool
	// Again reports whether a person requests a retry of what failed.
	Again bool
}
