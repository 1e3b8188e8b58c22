package removal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

const modelStall = 10 * time.Minute

// pass runs one reconcile in the model: it answers questions and then carries out each action, with other events
// between them, and a crash before the action with the given number. It writes the status at its end.
func (m *model) pass(t *rapid.T, crashBefore int, between func()) {
	if m.status == nil || m.gone {
		return
	}
	recorded := m.record != nil
	before, held := *m.status, m.hold
	o := m.observe(false, recorded)
	removal, actions := Next(before, o, m.now, modelStall)
	for slices.ContainsFunc(actions, question) {
		between()
		asked, reread := o.EC2 == nil && o.NoResponse == "" && slices.Contains(actions, Action(AskEC2{})), slices.Contains(actions, Action(Reread{}))
		ec2, silence, pods, leader := o.EC2, o.NoResponse, o.Pods, o.Leader
		if asked {
			ec2, silence = m.ask()
		}
		if slices.ContainsFunc(actions, func(a Action) bool { _, is := a.(ReadPods); return is }) {
			pods = &Pods{}
			if m.pending {
				pods.Waiting = "pod"
			}
		}
		if slices.Contains(actions, Action(AskLeader{})) {
			leader = &Gate{Open: m.leader, Message: "lease"}
		}
		o = m.observe(o.Fresh || reread, recorded)
		o.EC2, o.NoResponse, o.Pods, o.Leader = ec2, silence, pods, leader
		if held {
			o.Hold = &Hold{Reason: "Held", Message: "held"}
		} else {
			o.Hold = nil
		}
		removal, actions = Next(before, o, m.now, modelStall)
	}
	for i, a := range actions {
		if i == crashBefore {
			return
		}
		between()
		if m.status == nil { // A revert completed elsewhere: the record no longer exists when it is read back.
			return
		}
		m.do(t, a, recorded, held, o)
	}
	if len(actions) == crashBefore {
		return
	}
	m.status = &removal
	m.gone = removal.Phase == v1alpha1.RemovalGone
	if m.gone && len(m.alive()) > 0 {
		t.Fatalf("Gone is said while %v live", m.alive())
	}
}

func question(a Action) bool {
	switch a.(type) {
	case AskEC2, Reread, ReadPods, AskLeader:
		return true
	}
	return false
}

func (m *model) do(t *rapid.T, a Action, recorded, held bool, o Observation) {
	if _, note := a.(Note); !note && (!recorded || held && o.Exists) {
		t.Fatalf("%s, recorded %v, held %v", a, recorded, held)
	}
	switch a := a.(type) {
	case Note:
		if m.record == nil {
			m.record = map[string]Seen{}
		}
		for _, id := range a.Fresh {
			m.record[id] = ""
		}
		for _, i := range a.Seen {
			m.record[i.ProviderID] = Seen(i.State)
		}
	case Forget:
		m.record = nil
	case RestoreGrowth:
		m.grow()
	case StopGrowth:
		if !pastPacing(*m.status) && (!o.Arrivals.Open || !o.Grace.Open || !o.Cloud.Open || len(o.NodeClaims) > 0 && !o.Successor.Open && len(o.undeleted()) > 0) {
			t.Fatalf("growth is stopped behind a closed gate")
		}
		if m.pool != nil {
			m.pool.noGrowth = true
			m.pool.version++
		}
	case DeleteNodeClaim:
		c, exists := m.claims[a.Name]
		if !exists || fmt.Sprint(c.version) != a.ResourceVersion {
			return
		}
		if _, noted := m.record[c.instance]; !noted {
			t.Fatalf("%s: %s is not in the record", a, c.instance)
		}
		if !o.Controller.Open || !o.Cloud.Open || !o.Successor.Open || o.Leader == nil || !o.Leader.Open {
			t.Fatalf("%s behind a closed gate", a)
		}
		if !pastPacing(*m.status) && (!o.Arrivals.Open || !o.Grace.Open) {
			t.Fatalf("%s before the removal may begin", a)
		}
		if o.Pods == nil || o.Pods.Waiting != "" {
			t.Fatalf("%s while pods wait", a)
		}
		if m.leaving() >= m.pace.limit(len(o.NodeClaims)) {
			t.Fatalf("%s while %d are leaving", a, m.leaving())
		}
		c.deleting = true
		c.version++
		m.claims[a.Name] = c
	case DeleteObject:
		if m.pool == nil || fmt.Sprint(m.pool.version) != a.ResourceVersion {
			return
		}
		if len(m.claims) > 0 || len(m.alive()) > 0 {
			t.Fatalf("the pool is deleted while it has the NodeClaims %v and EC2 the instances %v", m.claims, m.alive())
		}
		if o.EC2 == nil || !o.Cloud.Open {
			t.Fatalf("the pool is deleted and EC2 was not asked")
		}
		m.pool = nil
	}
}

func TestNextKeepsItsPromises(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(0, 3).Draw(t, "nodes"))
		m.steady = rapid.Bool().Draw(t, "steady clock")
		toggle := func(b *bool) func(*rapid.T) {
			return func(*rapid.T) { *b = !*b }
		}
		still := func() {}
		busy := func() {
			switch rapid.IntRange(0, 4).Draw(t, "meanwhile") {
			case 0:
				m.karpenter()
			case 1:
				m.amazon()
			case 2:
				m.launch()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"pass":          func(t *rapid.T) { m.pass(t, -1, busy) },
			"pass, stable":  func(t *rapid.T) { m.sync(); m.pass(t, -1, still) },
			"crash":         func(t *rapid.T) { m.pass(t, rapid.IntRange(0, 4).Draw(t, "before"), busy); m.absent = nil },
			"forward":       func(*rapid.T) { m.jump(24 * time.Hour) },
			"backward":      func(*rapid.T) { m.jump(-time.Hour) },
			"sync pool":     func(*rapid.T) { m.syncPool() },
			"sync claims":   func(*rapid.T) { m.syncClaims() },
			"strip":         func(*rapid.T) { m.strip() },
			"collect":       func(*rapid.T) { m.collect() },
			"karpenter":     func(*rapid.T) { m.karpenter() },
			"amazon":        func(*rapid.T) { m.amazon() },
			"flap":          func(t *rapid.T) { m.flap(rapid.IntRange(0, 3).Draw(t, "which")) },
			"lag":           func(t *rapid.T) { m.lag(rapid.IntRange(0, 3).Draw(t, "which")) },
			"stop":          func(t *rapid.T) { m.stop(rapid.IntRange(0, 3).Draw(t, "which")) },
			"garbage":       func(*rapid.T) { m.garbage() },
			"launch":        func(*rapid.T) { m.launch() },
			"time":          func(t *rapid.T) { m.now = m.now.Add(time.Duration(rapid.IntRange(1, 700).Draw(t, "s")) * time.Second) },
			"controller":    toggle(&m.controller),
			"cloud":         toggle(&m.cloud),
			"arrivals":      toggle(&m.arrivals),
			"ec2":           toggle(&m.ec2),
			"successor":     toggle(&m.successor),
			"leader":        toggle(&m.leader),
			"pods":          toggle(&m.pending),
			"hold":          toggle(&m.hold),
			"revert":        func(*rapid.T) { m.revert() },
			"lose record":   func(*rapid.T) { m.loseRecord() },
			"deleted":       func(*rapid.T) { m.deletedByHand(false) },
			"deleted fg":    func(*rapid.T) { m.deletedByHand(true) },
			"growth undone": func(*rapid.T) { m.grow() },
		})
		m.mustEnd(t)
	})
}

// revert is a newer revision that contains the entry again, or removes it once more.
func (m *model) revert() {
	switch {
	case m.gone:
	case m.status == nil:
		m.find()
	default:
		m.status = nil
		m.grow()
	}
}

func (m *model) grow() {
	if m.pool != nil {
		m.pool.noGrowth = false
		m.pool.version++
	}
}

func (m *model) deletedByHand(foreground bool) {
	switch {
	case m.pool == nil:
	case foreground:
		m.pool.terminating = true
		m.pool.version++
	default:
		m.pool = nil
	}
}

// mustEnd checks that a removal completes once all gates are open, and that a reverted one has left the pool.
func (m *model) mustEnd(t *rapid.T) {
	m.controller, m.cloud, m.arrivals, m.ec2, m.hold = true, true, true, true, false
	m.successor, m.leader, m.pending = true, true, false
	if m.status == nil {
		return
	}
	for range 40 + 20*len(m.instances) {
		if m.gone {
			if len(m.claims) > 0 || m.record != nil {
				t.Fatalf("Gone, and NodeClaims %v and record %v are left", m.claims, m.record)
			}
			return
		}
		m.now = m.now.Add(time.Minute)
		m.garbage()
		m.karpenter()
		m.collect()
		m.amazon()
		m.sync()
		m.pass(t, -1, func() {})
	}
	t.Fatalf("it never ends: %+v, NodeClaims %v, instances %v", m.status, m.claims, m.instances)
}

// owned adds a pod on a node, with or without an owner such as a DaemonSet.
func (s *stage) owned(name, kind, node string) {
	s.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "any", UID: "any", Controller: &yes}}
	}
	if err := s.client.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

// TestDriveEmptyNodesFirst checks that nodes whose termination moves no pod are terminated first if NodeClaims are
// deleted a few at a time, and that only the workloads of the terminated ones are noted.
func TestDriveEmptyNodesFirst(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"AtOnce":                             func(*stage) {},
		"the last pool":                      func(s *stage) { s.pace.AwaitPods = false },
		"what Karpenter cannot replace":      func(s *stage) { s.pace.Replaces = true },
		"a static pool without its replicas": func(s *stage) { s.scale("batch") },
	} {
		t.Run(name, func(t *testing.T) {
			s := pacedPool(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
			for _, name := range []string{"a", "b", "c", "d"} { // without Karpenter's hash
				s.launch(name, "batch", "batch-uid")
			}
			s.replica("web-a", "web", "node-a")
			s.owned("bare", "", "node-b")
			s.owned("agent", "DaemonSet", "node-c")
			s.replica("job-d", "job", "node-d")
			change(s)
			s.find(render.NodePool, "batch", "batch-uid")
			s.pass()
			for i, want := range []string{"c", "a", "b", "d"} {
				if lines := s.pass(); lines[len(lines)-1] != "delete NodeClaim/"+want {
					t.Fatalf("%d: %v, want the end of %s", i, lines, want)
				}
				if record := s.record()["batch-uid"]; strings.Contains(record, `"name":"job"`) && want != "d" || strings.Contains(record, `"name":"web"`) && want == "c" {
					t.Errorf("noted before the end of %s: %s", want, record)
				}
				if want != "c" && want != "b" {
					s.evict(map[string]string{"a": "web-a", "d": "job-d"}[want])
				}
				s.karpenter("terminated")
			}
		})
	}
}

// TestDriveLooksForEmptyNodes checks that only a limited number of a pool's nodes is checked.
func TestDriveLooksForEmptyNodes(t *testing.T) {
	left := make([]Claim, looksAtOnce+10)
	for i := range left {
		left[i].Node = "node"
	}
	for ends, want := range map[int]int{0: 0, 1: looksAtOnce, looksAtOnce + 1: looksAtOnce + 1, len(left): len(left), len(left) + 1: len(left)} {
		if got := (Observation{Turn: Turn{Terminations: ends}}).podsToRead(left); len(got) != want {
			t.Errorf("where %d end, %d are looked at, want %d", ends, len(got), want)
		}
	}
	if got := (Observation{Turn: Turn{Terminations: 1}}).podsToRead(append([]Claim{{Name: "bare"}}, left...)); len(got) != 1 {
		t.Errorf("%d are looked at before one without a node ends", len(got))
	}
}

// scale sets a pool's replicas to 0.
func (s *stage) scale(name string) {
	s.t.Helper()
	object := pool(name, "", nil)
	if !s.exists(object) {
		s.t.Fatal("there is no " + name)
	}
	object.Object["spec"] = map[string]any{"replicas": int64(0)}
	if err := s.client.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}
