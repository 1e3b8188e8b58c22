package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/render"
)

// typeOf is what is known of the instance's type: none before it is launched.
func (r *whyReport) typeOf() string {
	known := slices.DeleteFunc([]string{r.InstanceType, r.CapacityType, r.Zone}, func(word string) bool { return word == "" })
	return cmp.Or(strings.Join(known, ", "), "unknown")
}

func (r *whyReport) of() string {
	if r.NodeSync == "" {
		return ""
	}
	return ", of nodesync/" + r.NodeSync
}

// commit says which commit it ended by, or which one was in force.
func (r *whyReport) commit() string {
	commit := render.ShortRevision(r.Revision)
	switch {
	case r.ByRevision && r.Cause == recorder.Removed:
		return commit + ", the first one without the pool"
	case r.ByRevision:
		return commit + ", whose rollout was under way"
	}
	return commit + ", in force when the deletion began"
}

// colourOfCause is red for what nobody has asked for.
func colourOfCause(cause recorder.Cause) text.Color {
	switch cause {
	case recorder.InstanceGone, recorder.Interrupted, recorder.Unhealthy, recorder.LaunchFailed, recorder.NotRegistered:
		return text.FgRed
	case recorder.ByHand, recorder.PoolDeleted, recorder.Unknown:
		return text.FgYellow
	default:
		return text.Reset
	}
}
