package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/calendar"
)

// ReasonFrozen is the reason of what waits for spec.guard.windows, or for the end of a freeze.
const ReasonFrozen = "Frozen"

// awaitsWindow is what such a Change waits for.
const awaitsWindow = "a window of spec.guard"

// MaxEmergency is how long an emergency lasts at the most: the annotation is not forgotten for longer.
const MaxEmergency = 24 * time.Hour

// Frozen is why no node may be removed or replaced now. The zero value is that it may.
type Frozen struct {
	// Message says it, and what to do in an emergency. It does not change by itself.
	Message string
	// Until is when that ends; zero where nobody knows.
	Until time.Time
	// Begins is when it does, where it does not yet; zero where that is more than a day ahead.
	Begins time.Time
}

// FrozenNow is why no node may be removed or replaced now; zero where it may, and where there is no Plan.
func (p *Plan) FrozenNow() Frozen {
	if p == nil {
		return Frozen{}
	}
	return p.Frozen
}

// Emergency says until when there is one, by the annotation of a NodeSync, and otherwise what is wrong
// with it; empty where there is none.
func Emergency(annotation string, now time.Time) (until time.Time, mistake string) {
	if annotation == "" {
		return time.Time{}, ""
	}
	until, err := time.Parse(time.RFC3339, annotation)
	switch {
	case err != nil:
		return time.Time{}, "has to be a time, such as 2026-12-24T20:00:00Z"
	case until.After(now.Add(MaxEmergency)):
		return time.Time{}, fmt.Sprintf("has to be within %d hours", int(MaxEmergency.Hours()))
	case !until.After(now):
		return time.Time{}, ""
	}
	return until, ""
}

// frozen says whether nodes may be removed or replaced at the time of the Plan. What was asked for by name,
// the deletion of a NodeSync, is not asked for.
func (p Policy) frozen() (Frozen, error) {
	if p.Deleting || p.Offline {
		return Frozen{}, nil
	}
	days, err := calendar.Of(p.Guard, p.Now)
	if err != nil {
		return Frozen{}, err
	}
	until, mistake := Emergency(p.Emergency, p.Now)
	closed := days.At(p.Now)
	switch {
	case closed.By == "":
		return Frozen{Begins: days.Closes(p.Now, p.Now.Add(MaxEmergency))}, nil
	case !until.IsZero():
		return Frozen{Begins: until}, nil
	}
	message := fmt.Sprintf("%s; in an emergency: plumbline emergency %s -n %s --until 2h --reason TEXT", closed, p.Owner.Name, p.Owner.Namespace)
	if mistake != "" {
		message = closed.String() + "; the annotation " + v1alpha1.EmergencyAnnotation + " of the NodeSync does not count: it " + mistake
	}
	return Frozen{Message: message, Until: closed.Until}, nil
}

// freeze has the Changes wait that would end or replace nodes, but for what reverts.
func (m *maker) freeze(p *Plan) {
	if p.Frozen.Message == "" {
		return
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if !weighs(c) {
			continue
		}
		if c.Reverts = m.reverts(c); c.Reverts != nil {
			continue
		}
		c.Action, c.Reason, c.WaitsFor = Wait, ReasonFrozen, awaitsWindow
		c.Message = p.Frozen.Message
		if len(c.Editors) > 0 {
			c.Message += fmt.Sprintf("; until then what %s changed on %s is not reverted", strings.Join(c.Editors, ", "), c.Ref)
		}
	}
}

// reverts are the NodePools in which a Change takes back one that Karpenter is rolling out: nodes that
// it replaces for that, and has not replaced yet, stay. Another pool of the same class may have a rollout
// of its own, which is not taken back.
func (m *maker) reverts(c *Change) []string {
	if c.UpTo {
		return nil
	}
	var pools []string
	for _, n := range m.claims()[c.Ref] {
		if n.Drifted && !n.Deleting && slices.Contains(c.DriftReasons, n.DriftReason) && !slices.Contains(c.touched, n.UID) {
			pools = append(pools, n.Pool)
		}
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}
