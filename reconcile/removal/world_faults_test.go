package removal

import (
	"fmt"
	"slices"
	"time"
)

// jump is a clock that is put forward or back.
func (m *model) jump(by time.Duration) {
	if !m.steady {
		m.now = m.now.Add(by)
	}
}

// loseRecord is someone who deletes the record. (Of an instance that EC2 has
// never shown, nobody would know any more.)
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

// hides reports whether EC2's next answer lacks an instance that exists.
func (m *model) hides(id string) bool {
	if !m.hidden[id] {
		return false
	}
	a := m.lacking[id]
	if a.Answers == 0 {
		a.Since = m.now
	}
	a.Answers++
	if a.Answers > consistent && (!m.steady || m.now.Sub(a.Since) >= settled) {
		delete(m.hidden, id)
		return false
	}
	m.lacking[id] = a
	return true
}

// flap has EC2's answers lack an instance that they have shown. (Of one that
// nobody has noted, nobody would know; one that was seen ending does not matter.)
func (m *model) flap(which int) {
	id := fmt.Sprintf("i-%d", which)
	if seen, noted := m.record[id]; noted && !seen.ending() {
		m.hidden[id] = true
	}
}

// lag has EC2's next answer show an instance as it was.
func (m *model) lag(which int) { m.lags[fmt.Sprintf("i-%d", which)] = true }

// stop is someone who stops an instance, or the hardware below it that fails.
func (m *model) stop(which int) {
	id := fmt.Sprintf("i-%d", which)
	switch m.instances[id] {
	case "running":
		m.instances[id] = "stopping"
	case "stopping":
		m.instances[id] = "stopped"
	}
}
