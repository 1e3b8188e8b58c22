package removal

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// model is a world with one pool: the real state, the state in the cache, and what plumbline has recorded.
type model struct {
	now       time.Time
	pool      *modelPool
	claims    map[string]modelClaim
	instances map[string]string
	hidden    map[string]bool    // by EC2's eventual consistency
	lacking   map[string]Absence // the responses that omitted a hidden one
	lags      map[string]bool    // returned once more as running
	steady    bool               // the clock does not jump
	cache     *modelCache

	controller, cloud, arrivals, ec2 bool
	successor, leader, pending       bool
	hold                             bool
	pace                             Pace

	status *v1alpha1.Removal
	record map[string]Seen
	absent map[string]Absence
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
		claims: map[string]modelClaim{}, instances: map[string]string{}, hidden: map[string]bool{}, lacking: map[string]Absence{}, lags: map[string]bool{},
		controller: true, cloud: true, arrivals: true, ec2: true, cache: &modelCache{},
		successor: true, leader: true, pace: Pace{Grace: 30 * time.Second, MaxUnavailable: intstr.FromInt32(2), AwaitPods: true},
	}
	for range nodes {
		m.launch()
	}
	m.sync()
	m.find()
	return m
}

// find records the removal, like the reconcile that finds it.
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

// sync updates the caches. Each kind has its own, and any may lag.
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

// strip removes a finalizer, as a person would: the NodeClaim is gone and its instance keeps running. It skips an
// instance that EC2 has never returned and that could not be noted yet, because nothing would know it.
func (m *model) strip() {
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		id := m.claims[name].instance
		if _, noted := m.record[id]; noted || !m.hidden[id] {
			delete(m.claims, name)
			return
		}
	}
}

// collect is Karpenter's garbage collection of instances without a NodeClaim.
func (m *model) collect() {
	for id, state := range m.instances {
		owned := slices.ContainsFunc(slices.Collect(maps.Values(m.claims)), func(c modelClaim) bool { return c.instance == id })
		if m.controller && runs(state) && !owned {
			m.instances[id] = "shutting-down"
		}
	}
}

// karpenter terminates what should be terminated, one step at a time.
func (m *model) karpenter() {
	if !m.controller {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		c := m.claims[name]
		if !c.deleting {
			continue
		}
		switch state := m.instances[c.instance]; {
		case runs(state):
			m.instances[c.instance] = "shutting-down"
		case state == "terminated", state == "absent":
			delete(m.claims, name)
		}
		return
	}
}

// amazon terminates instances, drops terminated ones, and shows new ones.
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

// observe returns the Observation of a reconcile, from the cache or past it. before is the status as the reconcile has
// read it back.
func (m *model) observe(fresh bool, recorded bool) Observation {
	seen := m.cache
	if fresh {
		seen = &modelCache{pool: m.pool, claims: m.claims}
	}
	o := Observation{
		Fresh: fresh, Recorded: recorded, Noted: maps.Clone(m.record), Absent: maps.Clone(m.absent),
		Controller: Gate{Open: m.controller, Message: "controller"},
		Cloud:      Gate{Open: m.cloud, Message: "cloud"},
		Arrivals:   Gate{Open: m.arrivals, Message: "arrivals"},
	}
	o.Successor = Gate{Open: m.successor, Message: "successor"}
	o.Grace = Gate{Open: m.status == nil || !m.now.Before(m.status.RecordedAt.Add(m.pace.Grace)), Message: "grace"}
	if m.hold {
		o.Hold = &Hold{Reason: "Held", Message: "held"}
	}
	if seen.pool != nil {
		o.Exists, o.Terminating, o.GrowthStopped = true, seen.pool.terminating, seen.pool.noGrowth
		o.ResourceVersion, o.GrowthWithheld = fmt.Sprint(seen.pool.version), seen.pool.noGrowth
	}
	for _, name := range slices.Sorted(maps.Keys(seen.claims)) {
		c := seen.claims[name]
		claim := Claim{Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(c.version), ProviderID: c.instance}
		if c.deleting {
			claim.Deleting = m.now
		}
		o.NodeClaims = append(o.NodeClaims, claim)
	}
	left := len(o.undeleted())
	o.Turn = m.pace.turn([]share{{recorded: len(o.NodeClaims), leaving: len(o.NodeClaims) - left, left: left}}, 0)
	return o
}

// leaving returns the number of terminating NodeClaims.
func (m *model) leaving() int {
	n := 0
	for _, c := range m.claims {
		if c.deleting {
			n++
		}
	}
	return n
}

// consistent is the maximum number of consecutive EC2 responses that omit an instance that exists. If the clock is
// steady there may be more, within settled.
const consistent = settledAnswers - 1

// ask returns EC2's response, or none.
func (m *model) ask() (*Answer, string) {
	if !m.ec2 {
		return nil, "throttled"
	}
	answer := &Answer{}
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if m.hides(id) || m.instances[id] == "absent" {
			continue
		}
		delete(m.lacking, id)
		state := m.instances[id]
		if m.lags[id] {
			state = "running"
		}
		answer.Instances = append(answer.Instances, Instance{ProviderID: id, State: state, Gone: state == "terminated"})
	}
	clear(m.lags)
	m.absent = absences(m.absent, m.record, answer.shown(), m.now)
	return answer, ""
}
