package removal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
)

// TestNextIsIdempotent checks that an idle removal is never written: repeated reconciles do not change it.
func TestNextIsIdempotent(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(0, 2).Draw(t, "nodes"))
		m.record = map[string]Seen{}
		o := m.observe(true, true)
		o.GrowthStopped = rapid.Bool().Draw(t, "growth stopped")
		o.Controller.Open, o.Cloud.Open, o.Arrivals.Open = rapid.Bool().Draw(t, "controller"), rapid.Bool().Draw(t, "cloud"), rapid.Bool().Draw(t, "arrivals")
		o.Successor.Open, o.Pods = rapid.Bool().Draw(t, "successor"), &Pods{}
		o.Leader = &Gate{Open: rapid.Bool().Draw(t, "leader")}
		o.GrowthWithheld = o.GrowthStopped
		once, _ := Next(*m.status, o, m.now, modelStall)
		twice, _ := Next(once, o, m.now.Add(time.Minute), modelStall)
		// The removal may pass a gate because it has started; afterwards nothing changes.
		third, _ := Next(twice, o, m.now.Add(2*time.Minute), modelStall)
		if diff := cmp.Diff(twice, third); diff != "" {
			t.Fatalf("written again without a cause:\n%s", diff)
		}
	})
}

// TestALivingInstanceIsNeverGone checks that a removal does not complete while instances run without a NodeClaim, even
// if EC2's responses are stale and inconsistent.
func TestALivingInstanceIsNeverGone(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(1, 3).Draw(t, "nodes"))
		m.steady = rapid.Bool().Draw(t, "steady clock")
		for range 3 {
			m.sync()
			m.pass(t, -1, func() {})
		}
		for range m.instances {
			m.strip()
		}
		which := func(t *rapid.T) int { return rapid.IntRange(0, 3).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"pass":   func(t *rapid.T) { m.sync(); m.pass(t, -1, func() {}) },
			"crash":  func(t *rapid.T) { m.pass(t, rapid.IntRange(0, 2).Draw(t, "before"), func() {}); m.absent = nil },
			"flap":   func(t *rapid.T) { m.flap(which(t)) },
			"lag":    func(t *rapid.T) { m.lag(which(t)) },
			"stop":   func(t *rapid.T) { m.stop(which(t)) },
			"amazon": func(*rapid.T) { m.amazon() },
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "now") == 0 {
					m.collect()
				}
			},
			"time":     func(t *rapid.T) { m.now = m.now.Add(time.Duration(rapid.IntRange(1, 700).Draw(t, "s")) * time.Second) },
			"forward":  func(*rapid.T) { m.jump(24 * time.Hour) },
			"backward": func(*rapid.T) { m.jump(-time.Hour) },
		})
		m.mustEnd(t)
	})
}
