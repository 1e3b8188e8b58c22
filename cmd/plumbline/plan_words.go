package main

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// beside are the lines on nodes and pods that follow the table.
func (r planReport) beside() []string {
	var lines []string
	for _, pace := range r.Pace {
		lines = append(lines, pace.lines...)
	}
	for _, pods := range r.Pods {
		lines = append(lines, pods.lines()...)
	}
	for _, c := range r.Changes {
		lines = append(lines, c.Notes...)
	}
	return lines
}

// unknown says of which changes it cannot be told which nodes they are on, and why.
func (r planReport) unknown() []string {
	var found []string
	for _, c := range r.Changes {
		if c.Unavailable != "" {
			found = append(found, fmt.Sprintf("%s: which nodes is unavailable: %s", c.Object, c.Unavailable))
		}
	}
	return found
}

// nodesOf says on how many nodes the effect is.
func nodesOf(c planjson.Change) any {
	if c.UpTo {
		return fmt.Sprintf("up to %d", c.Nodes)
	}
	return c.Nodes
}

// whatOf sums a change up on one line.
func whatOf(c planjson.Change) string {
	// The message of an Update names its fields without their values.
	if len(c.Fields) == 0 || c.Message != "" && c.Action != string(plan.Update) {
		return c.Message
	}
	first := c.Fields[0]
	text := fmt.Sprintf("%s: %s → %s", first.Path, orNothing(first.From), orNothing(first.To))
	if more := len(c.Fields) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func orNothing(value string) string {
	if value == "" {
		return "–"
	}
	return value
}
