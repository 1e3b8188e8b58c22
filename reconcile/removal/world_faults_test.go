package removal

import (
	"fmt"
	"slices"
	"time"
)

// jump sets the clock forward or back.
func (m *model) jump(by time.Duration) {
	if !m.steady {
		m.now = m.now.Add(by)
	}
}

// loseRecord deletes the record, as another client would, unless there are instances that EC2 has never returned:
// nothing else would know them.
func (m *model) loseRecord() {
	if len(m.hidden) == 0 {
		m.record = nil
	}
}

// garbage collects what a pool deleted by hand has left.
func (m *model) garbage() {
	if m.pool != nil && !m.pool.terminating {
		return
	}
	for name, c := range m.claims {
		c.deleting = true
		m.claims[name] = c
	}
	if m.pool != nil && len(m.claims) == 0 {
		m.pool = nil
	}
}

func runs(state string) bool { return state == "running" || state == "stopping" || state == "stopped" }

func (m *model) alive() []string {
	var alive []string
	for id, state := range m.instances {
		if runs(state) || state == "shutting-down" {
			alive = append(alive, id)
		}
	}
	slices.Sort(alive)
	return alive
}

// hides reports whether EC2's next response omits an instance that exists.
func (m *model) hides(id string) bool {
	if !m.hidden[id] {
		return false
	}
	a := m.lacking[id]
	if a.Answers == 0 {
		a.Since = m.now
	}
	a.Answers++
	if a.Answers > consistent && (!m.steady || m.now.Sub(a.Since) >= absenceProof) {
		delete(m.hidden, id)
		return false
	}
	m.lacking[id] = a
	return true
}

// flap makes EC2's responses omit an instance that they contained before, unless it was not noted, because nothing else
// would know it. One that was seen shutting down does not matter.
func (m *model) flap(which int) {
	id := fmt.Sprintf("i-%d", which)
	if seen, noted := m.record[id]; noted && !seen.isTerminating() {
		m.hidden[id] = true
	}
}

// lag makes EC2's next response contain an outdated state of an instance.
func (m *model) lag(which int) { m.lags[fmt.Sprintf("i-%d", which)] = true }

// stop stops an instance, as a person or a hardware failure would.
func (m *model) stop(which int) {
	id := fmt.Sprintf("i-%d", which)
	switch m.instances[id] {
	case "running":
		m.instances[id] = "stopping"
	case "stopping":
		m.instances[id] = "stopped"
	}
}
