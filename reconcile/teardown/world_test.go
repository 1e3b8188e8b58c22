package teardown

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// model is a world with one pool in it: what is really so, what the cache says,
// and what plumbline has written down.
type model struct {
	now       time.Time
	pool      *modelPool
	claims    map[string]modelClaim
	instances map[string]string
	hidden    map[string]bool // by EC2's eventual consistency
	lacking   map[string]int  // answers that a hidden one was lacking in
	cache     *modelCache

	controller, cloud, arrivals, ec2 bool
	hold                             bool

	status *v1alpha1.Removal
	record map[string]bool
	missed map[string]int
	noted  time.Time
	serial int
	gone   bool
}

type modelPool struct {
	version               int
	terminating, noGrowth bool
}

type modelClaim struct {
	version  int
	instance string
	deleting bool
}

type modelCache struct {
	pool   *modelPool
	claims map[string]modelClaim
}

func newModel(nodes int) *model {
	m := &model{
		now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), pool: &modelPool{version: 1},
		claims: map[string]modelClaim{}, instances: map[string]string{}, hidden: map[string]bool{}, lacking: map[string]int{},
		controller: true, cloud: true, arrivals: true, ec2: true, cache: &modelCache{},
	}
	for range nodes {
		m.launch()
	}
	m.sync()
	m.find()
	return m
}

// find writes the removal down, as the pass that finds it does.
func (m *model) find() {
	at := metav1.NewTime(m.now)
	m.status = &v1alpha1.Removal{Kind: render.NodePool, Name: "batch", UID: "uid", Phase: v1alpha1.RemovalPacing, RecordedAt: at, Since: at, LastProgress: at}
}

func (m *model) launch() {
	if m.pool == nil || m.pool.noGrowth || m.pool.terminating {
		return
	}
	m.serial++
	id := fmt.Sprintf("i-%d", m.serial)
	m.instances[id], m.hidden[id] = "running", true
	m.claims[fmt.Sprintf("batch-%d", m.serial)] = modelClaim{version: 1, instance: id}
}

// sync brings the caches up to date. Each kind has its own, and any may lag.
func (m *model) sync() {
	m.syncPool()
	m.syncClaims()
}

func (m *model) syncClaims() { m.cache.claims = maps.Clone(m.claims) }

func (m *model) syncPool() {
	m.cache.pool = nil
	if m.pool != nil {
		p := *m.pool
		m.cache.pool = &p
	}
}

// strip is someone who takes a finalizer off: the NodeClaim is gone and its
// instance runs on. (One that EC2 has never shown and that had no time to be
// noted would be known to nobody.)
func (m *model) strip() {
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		id := m.claims[name].instance
		if _, noted := m.record[id]; noted || !m.hidden[id] {
			delete(m.claims, name)
			return
		}
	}
}

// collect is Karpenter's own collector of instances without a NodeClaim.
func (m *model) collect() {
	for id, state := range m.instances {
		owned := slices.ContainsFunc(slices.Collect(maps.Values(m.claims)), func(c modelClaim) bool { return c.instance == id })
		if m.controller && state == "running" && !owned {
			m.instances[id] = "shutting-down"
		}
	}
}

// karpenter ends what is to be ended, one step at a time.
func (m *model) karpenter() {
	if !m.controller {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		c := m.claims[name]
		if !c.deleting {
			continue
		}
		switch m.instances[c.instance] {
		case "running":
			m.instances[c.instance] = "shutting-down"
		case "terminated", "absent":
			delete(m.claims, name)
		}
		return
	}
}

// amazon ends instances and forgets them, and shows new ones.
func (m *model) amazon() {
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		switch {
		case m.hidden[id]:
			delete(m.hidden, id)
			return
		case m.instances[id] == "shutting-down":
			m.instances[id] = "terminated"
			return
		case m.instances[id] == "terminated":
			m.instances[id] = "absent"
			return
		}
	}
}

// jump is a clock that is put forward or back.
func (m *model) jump(by time.Duration) { m.now = m.now.Add(by) }

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

func (m *model) alive() []string {
	var alive []string
	for id, state := range m.instances {
		if state == "running" || state == "shutting-down" {
			alive = append(alive, id)
		}
	}
	slices.Sort(alive)
	return alive
}

// observe makes the Observation of a pass, from the cache or past it. before is
// the status as the pass has read it back.
func (m *model) observe(fresh bool, recorded bool) Observation {
	seen := m.cache
	if fresh {
		seen = &modelCache{pool: m.pool, claims: m.claims}
	}
	o := Observation{
		Fresh: fresh, Recorded: recorded, Noted: maps.Clone(m.record), NotedAt: m.noted, Missed: maps.Clone(m.missed),
		Controller: Gate{Open: m.controller, Message: "controller"},
		Cloud:      Gate{Open: m.cloud, Message: "cloud"},
		Arrivals:   Gate{Open: m.arrivals, Message: "arrivals"},
	}
	if m.hold {
		o.Hold = &Hold{Reason: "Held", Message: "held"}
	}
	if seen.pool != nil {
		o.Exists, o.Terminating, o.GrowthStopped = true, seen.pool.terminating, seen.pool.noGrowth
		o.ResourceVersion = fmt.Sprint(seen.pool.version)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.claims)) {
		c := seen.claims[name]
		claim := Claim{Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(c.version), ProviderID: c.instance}
		if c.deleting {
			claim.Deleting = m.now
		}
		o.NodeClaims = append(o.NodeClaims, claim)
	}
	return o
}

// consistent is after how many answers EC2 shows a new instance at the latest.
const consistent = settledAnswers - 1

// ask is EC2's answer, or none.
func (m *model) ask() (*Answer, string) {
	if !m.ec2 {
		return nil, "throttled"
	}
	for id := range m.hidden {
		if m.lacking[id]++; m.lacking[id] > consistent {
			delete(m.hidden, id)
		}
	}
	answer := &Answer{}
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if state := m.instances[id]; !m.hidden[id] && state != "absent" {
			answer.Instances = append(answer.Instances, Instance{ProviderID: id, State: state, Gone: state == "terminated"})
		}
	}
	missed := map[string]int{}
	for id, seen := range m.record {
		if !seen && !slices.ContainsFunc(answer.Instances, func(i Instance) bool { return i.ProviderID == id }) {
			missed[id] = m.missed[id] + 1
		}
	}
	m.missed = missed
	return answer, ""
}
