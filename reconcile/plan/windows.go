package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// ahead is how far windows are listed, and listed how many of them are written out.
const (
	ahead  = 30 * 24 * time.Hour
	listed = 3
)

// Window is a time in which disruption budgets let Karpenter replace nodes for drift.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// AtATime is the most that they allow at a time in it.
	AtATime int `json:"atATime"`
}

// Windows are those of the next 30 days in which the disruption budgets of a NodePool let Karpenter
// replace any of so many nodes, by its own reading of them at each time at which one begins or ends;
// none where they always do, never do, or cannot be read. The last one is cut off where the 30 days are
// over.
func Windows(object *Object, nodes int, now time.Time) []Window {
	pool, err := typed[karpv1.NodePool](object.Unstructured)
	if err != nil {
		return nil
	}
	b, err := readBudgets(pool, nodes, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return nil
	}
	end := now.Add(ahead)
	turning, whole := b.turns(now, horizon)
	if len(turning) == 0 || !whole {
		return nil // one that turns each minute is not looked at for so long
	}
	var found []Window
	from, shut := now, false
	for _, at := range append(turning, end) {
		if at.After(end) {
			at = end
		}
		n := b.at(from)
		switch last := len(found) - 1; {
		case n == 0:
			shut = true
		case last >= 0 && found[last].To.Equal(from):
			found[last].To, found[last].AtATime = at, max(found[last].AtATime, n)
		default:
			found = append(found, Window{From: from, To: at, AtATime: n})
		}
		if from = at; !at.Before(end) {
			break
		}
	}
	if !shut {
		return nil
	}
	return found
}

// WindowWords list the first of them; empty where there are none.
func (p PoolPace) WindowWords(now time.Time) string {
	if len(p.Windows) == 0 {
		return ""
	}
	var parts []string
	var open time.Duration
	for i, w := range p.Windows {
		open += w.To.Sub(w.From)
		if i < listed {
			parts = append(parts, fmt.Sprintf("%s to %s (up to %d at a time)", ClockTime(w.From, now), ClockTime(w.To, now), w.AtATime))
		}
	}
	words := fmt.Sprintf("NodePool/%s: %s in 30 days, %s in all: %s", p.Pool, english.Plural(len(p.Windows), "window", ""), hours(open), strings.Join(parts, "; "))
	if more := len(p.Windows) - listed; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

// hours writes a duration by the hour, or by the minute where it is under one.
func hours(d time.Duration) string {
	if d < time.Hour {
		return Short(d.Round(time.Minute))
	}
	return Short(d.Round(time.Hour))
}
