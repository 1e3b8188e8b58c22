package soak

import (
	"context"
	"fmt"
)

// action is an action of the soak test. It returns what it did; empty if it could do nothing, in which case another one
// is drawn.
type action struct {
	name   string
	weight int
	do     func(*soak, context.Context) (string, error)
}

// actions returns all actions, with their frequencies.
func actions() []action {
	return []action{
		{"add-pool", 10, (*soak).addPool},
		{"change-pool", 12, (*soak).changePool},
		{"remove-pool", 10, (*soak).removePool},
		{"rename-pool", 4, (*soak).renamePool},
		{"add-class", 4, (*soak).addClass},
		{"change-class", 2, (*soak).changeClass},
		{"remove-class", 4, (*soak).removeClass},
		{"rename-class", 2, (*soak).renameClass},
		{"break", 5, (*soak).breakCommit},
		{"drop-pools", 3, (*soak).dropPools},
		{"mend", 5, (*soak).mend},
		{"revert", 5, (*soak).revert},
		{"force-push", 3, (*soak).forcePush},
		{"notes", 3, (*soak).writeNotes},
		{"scale", 16, (*soak).scaleLoad},
		{"edit-by-hand", 3, (*soak).editByHand},
		{"kill", 4, (*soak).killDaemon},
		{"stop", 2, (*soak).stopDaemon},
		{"freeze", 3, (*soak).freezeDaemon},
		{"api-fault", 6, (*soak).faultAPI},
		{"cut-watches", 3, (*soak).cutWatches},
		{"git-fault", 5, (*soak).faultGit},
		{"status-fault", 5, (*soak).faultStatuses},
		{"chart-fault", 3, (*soak).faultCharts},
		{"aws-fault", 8, (*soak).faultAWS},
		{"aws-error", 5, (*soak).breakCalls},
		{"ec2-answers", 6, (*soak).loosenAnswers},
		{"zone-outage", 3, (*soak).disruptZone},
		{"protect", 2, (*soak).protectInstance},
		{"stop-instance", 2, (*soak).stopInstance},
		{"eks-status", 2, (*soak).updateCluster},
		{"no-controller", 2, (*soak).scaleController},
	}
}

// act performs one action, drawn from the seed.
func (s *soak) act(ctx context.Context) error {
	all := actions()
	total := 0
	for _, a := range all {
		total += a.weight
	}
	for {
		at := s.draw.IntN(total)
		for _, a := range all {
			if at -= a.weight; at >= 0 {
				continue
			}
			what, err := a.do(s, ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			if what != "" {
				s.journal.did(a.name, what)
				return nil
			}
			break
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
}

// pick draws one of several names; empty if there is none.
func (s *soak) pick(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[s.draw.IntN(len(names))]
}
