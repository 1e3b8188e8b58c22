package main

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// waitFor is what --wait waits for; empty if it is not given. It is a pflag.Value.
type waitFor string

const (
	// waitForApplied is over once the definitions are applied and Ready and no removal is open.
	waitForApplied waitFor = "applied"
	// waitForRollout is over once, besides, each node matches its definitions.
	waitForRollout waitFor = "rollout"
)

// String is the flag's value.
func (w *waitFor) String() string { return string(*w) }

// Set sets the flag's value.
func (w *waitFor) Set(value string) error {
	switch waitFor(value) {
	case waitForApplied, waitForRollout:
		*w = waitFor(value)
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", value, waitForApplied, waitForRollout)
}

// Type is the flag's values, as help shows them.
func (w *waitFor) Type() string { return "applied|rollout" }

// reached reports whether a NodeSync has reached the state, or a person has to do something before it can.
func (w waitFor) reached(sync *v1alpha1.NodeSync) bool {
	switch state := summary.StateOf(sync); {
	case conditions.IsStalled(sync):
		return true
	case !conditions.IsReady(sync):
		return false
	case w == waitForRollout:
		return state == summary.InSync || state == summary.RolloutStopped || state == summary.RolloutFailing
	default:
		return summary.WhyUnknown(sync) == ""
	}
}

// message is what the wait is for, in one line.
func (w waitFor) message(sync *v1alpha1.NodeSync) string {
	if w == waitForRollout && summary.StateOf(sync).OfNodes() {
		return summary.Message(sync)
	}
	return conditions.GetMessage(sync, meta.ReadyCondition)
}

// exit returns the exit code of a wait that is over.
func (w waitFor) exit(sync *v1alpha1.NodeSync) error {
	if w == waitForRollout {
		return exitOf(sync)
	}
	return exitOfReady(sync)
}
