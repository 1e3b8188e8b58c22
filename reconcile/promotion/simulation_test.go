package promotion_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// TestMonthOfAFleet simulates 1,000 clusters in six rings over a month of random commits, failures, silences and faults of
// the Git host. A model that does not use the package checks each commit that a cluster takes.
func TestMonthOfAFleet(t *testing.T) {
	f := simulate(t, 1, []int{1, 4, 25, 120, 350, 500}, 30*24*time.Hour)
	t.Logf("%d commits, taken %d times, %d as reverts, %d in emergencies", len(f.commits), f.taken, f.by[promotion.PassedRevert], f.by[promotion.PassedEmergency])
	if f.taken < 5_000 || f.by[promotion.PassedRevert] == 0 || f.by[promotion.PassedEmergency] == 0 {
		t.Error("too little has happened to show anything")
	}
}

// TestSmallFleets simulates many fleets, so that rare orders of events occur.
func TestSmallFleets(t *testing.T) {
	for seed := range uint64(40) {
		simulate(t, seed, []int{1, 2, 3, 4, 5, 5}, 14*24*time.Hour)
	}
}

// TestSameSeedSameRun: the gate depends on its values only, not on the order of maps or on a clock.
func TestSameSeedSameRun(t *testing.T) {
	sizes := []int{1, 3, 6, 10, 20, 20}
	one, two := simulate(t, 7, sizes, 14*24*time.Hour), simulate(t, 7, sizes, 14*24*time.Hour)
	if one.log.Sum64() != two.log.Sum64() {
		t.Error("two runs of the same seed differ")
	}
}

const (
	tick = 20 * time.Minute
	// fetches is how rarely a cluster asks the gate: once in so many ticks on average.
	fetches = 8
)

// began is a Monday.
var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// member is a cluster as it really is.
type member struct {
	promotion.Member
	floor     promotion.Floor
	applied   string
	record    promotion.Record
	rollsTo   time.Time // zero if no rollout is in progress
	fails     bool
	downUntil time.Time
	dead      bool
	pushed    time.Time
	changed   bool
	succeeded map[string]time.Time // when first, by commit
}

// content is what a commit really does.
type content struct {
	bad    bool
	kind   promotion.Kind
	share  float64
	inputs int
}

type snapshot struct {
	history *promotion.History
	records promotion.Records
}

type fleet struct {
	*testing.T
	rand    *rand.Rand
	now     time.Time
	faults  bool
	members []*member
	by      map[promotion.Passed]int
	taken   int
	log     interface {
		io.Writer
		Sum64() uint64
	}

	rings     map[promotion.Member]int // the newest rings.yaml
	paused    [6]bool
	commits   []promotion.Commit
	real      map[string]content
	ancestors map[string]map[string]bool
	tip       string
	history   *promotion.History

	hostDown  time.Time
	published promotion.Records
	seen      []snapshot // newest first
	verified  map[string]error
}

func simulate(t *testing.T, seed uint64, sizes []int, length time.Duration) *fleet {
	t.Helper()
	f := &fleet{
		T: t, rand: rand.New(rand.NewPCG(seed, 1)), now: began, faults: true, by: map[promotion.Passed]int{}, log: fnv.New64a(),
		rings: map[promotion.Member]int{}, real: map[string]content{}, ancestors: map[string]map[string]bool{}, published: promotion.Records{},
	}
	for ring, size := range sizes {
		for i := range size {
			m := promotion.Member{Cluster: fmt.Sprintf("c%d-%d", ring, i), NodeSync: "nodes"}
			f.members = append(f.members, &member{Member: m, floor: floorOf(ring), succeeded: map[string]time.Time{}})
			f.rings[m] = ring
		}
	}
	f.commit(promotion.Commit{Rings: f.parse()}, content{})
	for _, m := range f.members {
		m.record = promotion.Record{Cluster: m.Cluster, NodeSync: m.NodeSync}
		m.take(f, f.tip, "")
		m.conclude(f, promotion.Succeeded)
		m.rollsTo = time.Time{}
	}
	for f.now.Before(began.Add(length)) && !t.Failed() {
		f.change()
		f.step()
	}
	f.settle()
	return f
}

func floorOf(ring int) promotion.Floor {
	floor := promotion.Floor{Ring: fmt.Sprintf("ring-%d", ring)}
	if ring > 2 {
		floor.MinSoak = 30 * time.Minute
	}
	return floor
}

// settle ends all faults, and expects every cluster to take the newest commit.
func (f *fleet) settle() {
	f.faults, f.hostDown, f.paused = false, time.Time{}, [6]bool{}
	for _, m := range f.members {
		m.downUntil = time.Time{}
		if m.dead {
			delete(f.rings, m.Member)
		}
	}
	for range 2 { // a change of the rings applies from the next commit on
		f.commit(promotion.Commit{Rings: f.parse()}, content{kind: promotion.KindImage, share: 0.5, inputs: len(f.commits)})
		f.step()
	}
	for end := f.now.Add(10 * 24 * time.Hour); f.now.Before(end) && !f.Failed(); {
		f.step()
		if f.behind() == nil {
			return
		}
	}
	if m := f.behind(); m != nil && !f.Failed() {
		answer, err := f.view(0).Gate(m.Member, m.floor, m.applied)
		f.Fatalf("%s has not taken the newest commit %s ten days after the last fault, but %s: %+v %v", m, f.tip, m.applied, answer, err)
	}
}

func (f *fleet) behind() *member {
	for _, m := range f.members {
		if _, in := f.rings[m.Member]; in && (m.applied != f.tip || !m.rollsTo.IsZero()) {
			return m
		}
	}
	return nil
}

// parse writes and reads rings.yaml.
func (f *fleet) parse() *promotion.Rings {
	f.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: config.plumbline.dev/v1alpha1\nkind: Rings\nsilentAfter: 2h\nclusters:\n")
	for _, m := range f.members {
		if ring, in := f.rings[m.Member]; in {
			fmt.Fprintf(&text, "- {name: %s, nodeSync: %s, labels: {ring: r%d}}\n", m.Cluster, m.NodeSync, ring)
		}
	}
	text.WriteString("rings:\n")
	for i := range 6 {
		fmt.Fprintf(&text, "- name: ring-%d\n  matchLabels: {ring: r%d}\n  soak: %dm\n  shortSoak: %dm\n", i, i, 60*i, 20*i)
		switch i {
		case 2:
			text.WriteString("  after: [ring-0]\n")
		case 3:
			text.WriteString("  after: [ring-1, ring-2]\n  windows: [{schedule: \"0 8 * * *\", duration: 10h}]\n")
		case 4:
			text.WriteString("  atLeast: 90%\n")
		case 5:
			text.WriteString("  maxClusters: 100\n")
		}
		if f.paused[i] {
			text.WriteString("  paused: incident\n")
		}
	}
	rings, err := promotion.Parse(promotion.File, []byte(text.String()))
	if err != nil {
		f.Fatal(err)
	}
	return rings
}

// commit pushes a commit on the tip, or on another parent.
func (f *fleet) commit(c promotion.Commit, real content) {
	c.Hash, c.At = fmt.Sprintf("commit-%d", len(f.commits)), f.now
	c.Inputs = fmt.Sprint(real.inputs)
	if c.Parents == nil && f.tip != "" {
		c.Parents = []string{f.tip}
	}
	all := map[string]bool{c.Hash: true}
	for _, parent := range c.Parents {
		for hash := range f.ancestors[parent] {
			all[hash] = true
		}
	}
	f.commits, f.real[c.Hash], f.ancestors[c.Hash], f.tip = append(f.commits, c), real, all, c.Hash
	f.history = promotion.NewHistory(f.tip, f.commits)
}

func (f *fleet) get(hash string) *promotion.Commit {
	var number int
	_, _ = fmt.Sscanf(hash, "commit-%d", &number)
	return &f.commits[number]
}

// ringsAt returns the newest valid rings of a commit and the first parents before it.
func (f *fleet) ringsAt(hash string) *promotion.Rings {
	c := f.get(hash)
	for c.Rings == nil {
		c = f.get(c.Parents[0])
	}
	return c.Rings
}

// change makes what happens at random in one tick.
func (f *fleet) change() {
	if f.rand.IntN(60) == 0 {
		f.hostDown = f.now.Add(time.Duration(f.rand.IntN(180)) * time.Minute)
	}
	if f.rand.IntN(12) > 0 {
		return
	}
	rings := f.ringsAt(f.tip)
	real := content{bad: f.rand.IntN(5) == 0, share: f.rand.Float64() / 2, inputs: len(f.commits)}
	real.kind = []promotion.Kind{promotion.KindOther, promotion.KindImage, promotion.KindKarpenter}[f.rand.IntN(3)]
	c := promotion.Commit{Rings: rings}
	switch f.rand.IntN(16) {
	case 0: // a revert
		if before := f.get(f.tip).Parents; len(before) > 0 {
			real = f.real[before[0]]
		}
	case 1:
		c.Emergency = "alice"
	case 2:
		c.Rings, c.Invalid = nil, errors.New("rings.yaml:1: invalid")
	case 3: // a forced push
		if before := f.get(f.tip).Parents; len(before) > 0 {
			c.Parents = before
		}
	case 4: // a merge of a branch whose commits were never the tip
		tip := f.tip
		f.commit(promotion.Commit{Rings: rings, Parents: []string{tip}}, content{bad: true, inputs: len(f.commits)})
		c.Parents = []string{tip, f.tip}
	case 5:
		f.togglePause()
		c.Rings, real = f.parse(), f.real[f.tip]
	case 6: // clusters that are gone are retired, and one moves to the next ring
		for _, m := range f.members {
			if m.dead {
				delete(f.rings, m.Member)
			}
		}
		if m := f.members[f.rand.IntN(len(f.members))]; !m.dead && f.rings[m.Member] < 5 && f.alone(f.rings[m.Member]) == nil {
			f.rings[m.Member]++
		}
		c.Rings = f.parse()
	case 7:
		real.share = 0
	}
	f.commit(c, real)
}

// togglePause resumes the ring that is paused, or pauses one.
func (f *fleet) togglePause() {
	ring := f.rand.IntN(6)
	for i, paused := range f.paused {
		if paused {
			ring = i
		}
	}
	f.paused[ring] = !f.paused[ring]
}

// alone returns the only cluster of a ring; nil if there are more.
func (f *fleet) alone(ring int) (only *member) {
	for _, m := range f.members {
		if r, in := f.rings[m.Member]; in && r == ring && !m.dead {
			if only != nil {
				return nil
			}
			only = m
		}
	}
	return only
}

// step is one tick of all clusters.
func (f *fleet) step() {
	f.now, f.verified = f.now.Add(tick), map[string]error{}
	up := !f.now.Before(f.hostDown)
	if up {
		records := make(promotion.Records, len(f.published))
		for m, s := range f.published {
			records[m] = s
		}
		f.seen = append([]snapshot{{f.history, records}}, f.seen[:min(3, len(f.seen))]...)
	}
	views := make([]*promotion.View, len(f.seen))
	for _, m := range f.members {
		if f.faults {
			m.disturb(f)
		}
		if m.dead || f.now.Before(m.downUntil) {
			continue
		}
		if !m.rollsTo.IsZero() && !f.now.Before(m.rollsTo) {
			m.rollsTo = time.Time{}
			state := promotion.Succeeded
			if m.fails {
				state = promotion.Failed
			}
			m.conclude(f, state)
		}
		if len(f.seen) > 0 && f.rand.IntN(fetches) == 0 {
			lag := 0
			if f.faults && f.rand.IntN(10) == 0 {
				lag = f.rand.IntN(len(f.seen))
			}
			if views[lag] == nil {
				views[lag] = f.view(lag)
			}
			m.fetch(f, views[lag])
		}
		if up && !f.now.Before(promotion.PushDue(m.pushed, m.changed, 2*time.Hour)) {
			m.record = m.record.Again(f.now)
			record := m.record
			f.published[m.Member], m.pushed, m.changed = promotion.Standing{Record: &record}, f.now, false
		}
	}
}

func (f *fleet) view(lag int) *promotion.View {
	return promotion.NewView(f.seen[lag].history, f.seen[lag].records, f.now)
}

// disturb lets a cluster fail late, be silent, or vanish.
func (m *member) disturb(f *fleet) {
	switch n := f.rand.IntN(40_000); {
	case n < 1 && f.alone(f.rings[m.Member]) == nil:
		m.dead = true
	case n < 8:
		m.downUntil = f.now.Add(time.Duration(f.rand.IntN(12)) * time.Hour)
	case n < 10 && m.rollsTo.IsZero() && !m.dead:
		m.conclude(f, promotion.Failed)
		m.rollsTo, m.fails = f.now.Add(2*time.Hour), false
	}
}

// fetch asks the gate, and takes what it returns.
func (m *member) fetch(f *fleet, view *promotion.View) {
	answer, err := view.Gate(m.Member, m.floor, m.applied)
	var not *promotion.NotInRingError
	if errors.As(err, &not) && not.Ring != "" {
		minSoak := m.floor.MinSoak
		m.floor = promotion.Floor{Ring: not.Ring, MinSoak: minSoak} // its operators follow rings.yaml
		if not.Ring == "ring-0" {
			m.floor.MinSoak = 0
		}
		return
	}
	if err != nil || answer.Commit == m.applied {
		return
	}
	if wrong := f.allowed(m, answer); wrong != nil {
		f.Fatalf("%s: %s with %s applied took %s by %s: %v", f.now, m, m.applied, answer.Commit, answer.By, wrong)
	}
	f.taken++
	f.by[answer.By]++
	fmt.Fprintln(f.log, f.now, m.Member, answer.Commit)
	m.take(f, answer.Commit, answer.By)
}

func (m *member) take(f *fleet, commit string, by promotion.Passed) {
	real := f.real[commit]
	m.applied, m.changed = commit, true
	m.record = m.record.Next(promotion.Verdict{
		Commit: commit, State: promotion.InProgress, Effect: real.effect(), Reverted: by == promotion.PassedRevert,
	}, f.now)
	m.fails = real.bad && f.rand.IntN(2) == 0
	m.rollsTo = f.now.Add(time.Duration(f.rand.IntN(90)) * time.Minute)
}

func (c content) effect() promotion.Effect {
	return promotion.Effect{Kind: c.kind, Nodes: int(c.share * 20), Of: 20}
}

func (m *member) conclude(f *fleet, state promotion.State) {
	m.record = m.record.Next(promotion.Verdict{Commit: m.applied, State: state, Effect: f.real[m.applied].effect()}, f.now)
	m.changed = true
	if _, before := m.succeeded[m.applied]; state == promotion.Succeeded && !before {
		m.succeeded[m.applied] = f.now
	}
}

// allowed is the model: it returns what is wrong with what a cluster takes.
func (f *fleet) allowed(m *member, answer promotion.Answer) error {
	c, rings := f.get(answer.Commit), f.ringsAt(m.applied)
	if c.Rings == nil {
		return errors.New("it has no valid rings")
	}
	if answer.By == promotion.PassedRevert {
		for old := range m.succeeded {
			if f.get(old).Inputs == c.Inputs && f.ancestors[m.applied][old] {
				return nil
			}
		}
		return errors.New("it reverts nothing")
	}
	then := f.get(c.Parents[0]).Rings
	key := fmt.Sprint(c.Hash, f.ringNumber(rings, m), answer.By, m.floor.MinSoak, m.applied, f.ringNumber(then, m))
	if err, known := f.verified[key]; known {
		return err
	}
	err := f.allowedBy(rings, then, m, c, answer.By)
	f.verified[key] = err
	return err
}

func (f *fleet) ringNumber(rings *promotion.Rings, m *member) string {
	if rings == nil || rings.Of(m.Member) == nil {
		return "none"
	}
	return rings.Of(m.Member).Name
}

// waitsFor has the rings before each ring, as parse writes them.
var waitsFor = map[string][]string{
	"ring-1": {"ring-0"}, "ring-2": {"ring-0"}, "ring-3": {"ring-0", "ring-1", "ring-2"},
	"ring-4": {"ring-0", "ring-1", "ring-2", "ring-3"}, "ring-5": {"ring-0", "ring-1", "ring-2", "ring-3", "ring-4"},
}

func (f *fleet) allowedBy(rings, then *promotion.Rings, m *member, c *promotion.Commit, by promotion.Passed) error {
	own := f.ringNumber(rings, m)
	ran := len(waitsFor[own]) == 0
	for _, before := range waitsFor[own] {
		good, soaked, all := 0, 0, 0
		late := ""
		for _, other := range f.members {
			if f.ringNumber(rings, other) != before {
				continue
			}
			if record := f.published[other.Member].Record; record != nil {
				if v := record.Of(c.Hash); v != nil && v.State == promotion.Failed && f.now.Sub(v.Since) > 12*time.Hour {
					return fmt.Errorf("it failed on %s", other)
				}
			}
			first, itself := other.reached(f, c.Hash)
			ran = ran || itself
			moved := then != nil && then.Of(m.Member) != nil && !among(waitsFor[f.ringNumber(then, m)], f.ringNumber(then, other))
			wait := m.floor.MinSoak
			if itself && by != promotion.PassedEmergency && !f.ancestors[m.applied][c.Hash] {
				wait = max(wait, soakOf(own, f.real[c.Hash]))
			}
			succeeded := !first.IsZero()
			enough := succeeded && (by == promotion.PassedEmergency || !f.now.Before(first.Add(wait)))
			switch {
			case moved && !enough: // or retired: it counts only if it has soaked
			case enough:
				all, good, soaked = all+1, good+1, soaked+1
			case succeeded:
				all, good, late = all+1, good+1, fmt.Sprintf("%s succeeded %s and soaks for %s", other, first, wait)
			default:
				all++
			}
		}
		need := all
		if before == "ring-4" {
			need = (all*90 + 99) / 100
		}
		if good < need || soaked < need {
			return fmt.Errorf("of %d clusters of %s, %d have succeeded and %d have soaked: %s", all, before, good, soaked, late)
		}
	}
	if !ran {
		return errors.New("no cluster has run it")
	}
	if hour := f.now.Hour(); own == "ring-3" && by == promotion.PassedRings && (hour < 8 || hour >= 18) {
		return errors.New("it is outside the windows")
	}
	return nil
}

// reached returns when a cluster first succeeded on a commit or a descendant, and whether it did on the commit itself.
func (m *member) reached(f *fleet, commit string) (first time.Time, itself bool) {
	for hash, at := range m.succeeded {
		if f.ancestors[hash][commit] && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	_, itself = m.succeeded[commit]
	return first, itself
}

func soakOf(ring string, real content) time.Duration {
	number := int(ring[len(ring)-1] - '0')
	e := real.effect()
	switch {
	case real.kind == promotion.KindKarpenter:
		return time.Duration(60*number) * time.Minute
	case e.Nodes == 0:
		return 0
	case real.kind == promotion.KindImage || e.Nodes*4 >= e.Of:
		return time.Duration(60*number) * time.Minute
	}
	return time.Duration(20*number) * time.Minute
}

func among(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
