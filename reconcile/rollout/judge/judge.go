package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Wave is the nodes that a rollout has replaced in one NodePool since a time: those of a wave and of earlier ones, because
// pods of drained nodes also move to nodes of earlier waves.
type Wave struct {
	// Pool is the name of the NodePool.
	Pool string
	// Began is when the first node was replaced. What happened before does not count.
	Began time.Time
	// New are the names of the Nodes that were launched since; Old those of the pool's Nodes that are not replaced yet.
	New, Old []string
	// Latest are those of New that the wave itself has launched: it is Good only if something runs on one of them. If it is
	// empty, any of New will do.
	Latest []string
	// Excused are the workloads (Workload.ID) that failed on old nodes as well: in earlier verdicts of the rollout
	// (Verdict.Excused), or before their node was replaced (Failing). If none of their pods is left on an old node to
	// compare with, those on new nodes are compared with the share that failed when that was first seen: it follows the ID,
	// as "Deployment gpu/train 5d4f 20%", if it is less than half.
	Excused []string
}

// State is the result of judging a wave, or one workload on its nodes.
type State string

// The states. Undecided means that pods still start. Inconclusive means that nothing ran there that proves anything, or
// that a comparison could not be made.
const (
	Good         State = "Good"
	Bad          State = "Bad"
	Undecided    State = "Undecided"
	Inconclusive State = "Inconclusive"
)

// Verdict is the judgement of a wave.
type Verdict struct {
	State State
	// Message is one line without times; the worst workloads come first.
	Message string
	// Again is when to look again, whatever the State: a wave that is Good now can become Bad while it is watched.
	Again time.Time
	// Workloads are those with pods on the wave's nodes, the worst first. Findings about the nodes themselves have the
	// Kind Node and the name of the pool.
	Workloads []Workload
	// Good are the names of the wave's nodes (Wave.New) that are good, in order: without a problem of their own, and each
	// pod on them works or does not count, at least one that does not belong to a DaemonSet works.
	Good []string
}

// HasFailingPods reports whether pods fail on the wave's nodes, whether they count or not.
func (v Verdict) HasFailingPods() bool {
	return slices.ContainsFunc(v.Workloads, func(w Workload) bool { return w.Kind != kindNode && w.New.Failing > 0 })
}

// Workload is the pods of one controller with one pod template, and how they do on the wave's nodes and on old ones.
type Workload struct {
	Kind, Namespace, Name string
	// Template is the hash of the pod template; empty if the pods have none.
	Template string
	State    State
	// New counts pods on the wave's nodes. Old counts those on old nodes; they are read only if some of New fail. For
	// the Kind Node, both count nodes; Old those of the sample.
	New, Old Count
	// Cause is why most of the failing pods fail. Excuse is why they do not count; empty if they do, or none fails.
	Cause, Excuse string
	// Latest reports whether one of its pods is on a node of the wave itself (Wave.Latest).
	Latest bool
}

// Count counts pods or nodes. The others work.
type Count struct{ All, Failing, Starting int }

const (
	// lookEvery is the time between two looks at up to lookNodes nodes; at more nodes it is longer in proportion.
	lookEvery = 15 * time.Second
	lookNodes = 64
	// waitedFor is how long after its last node was created a wave waits for new pods.
	waitedFor = 10 * time.Minute
)

// Judge judges a wave by what was observed.
func Judge(seen Observation, now time.Time) Verdict {
	judged := seen.judgeWorkloads(now)
	for _, w := range seen.judgeNodes(now) {
		if !explains(w, judged) {
			judged = append(judged, w)
		}
	}
	slices.SortFunc(judged, worstFirst)
	state := seen.state(judged)
	return Verdict{State: state, Message: seen.message(state, judged), Again: now.Add(seen.interval()), Workloads: judged, Good: seen.goodNodes(judged, now)}
}

func (seen *Observation) interval() time.Duration {
	return lookEvery * time.Duration(max(len(seen.Wave.New), lookNodes)) / lookNodes
}

// state returns the state of the wave from those of the workloads on it.
func (seen *Observation) state(judged []Workload) State {
	has := func(that func(Workload) bool) bool { return slices.ContainsFunc(judged, that) }
	switch {
	case has(func(w Workload) bool { return w.State == Bad }):
		return Bad
	case has(func(w Workload) bool { return w.State == Undecided }):
		return Undecided
	case has(func(w Workload) bool { return w.isUnknown() }):
		return Inconclusive
	case has(func(w Workload) bool { return w.State == Good && w.proves() && w.Latest }):
		return Good
	}
	return Inconclusive
}

// proves reports whether the pods of a workload show that workloads run on the nodes.
func (w *Workload) proves() bool { return w.Kind != kindDaemonSet && w.Kind != kindNode }

// isUnknown reports whether it is unknown if the failing pods of a workload count.
func (w *Workload) isUnknown() bool { return w.Excuse == notCompared || w.Excuse == unknownAge }

// explains reports whether a finding about nodes is already reported as the cause of a workload's failing pods.
func explains(node Workload, workloads []Workload) bool {
	return node.State == Bad && slices.ContainsFunc(workloads, func(w Workload) bool { return w.State == Bad && w.Cause == node.Cause })
}

// worse reports whether things fail on the new nodes, and not because they fail anyway: more than a tenth of them, and
// more than twice the share on old nodes. If there are none on old nodes, they are judged by themselves.
func worse(on, old Count) bool {
	return on.Failing*10 > on.All && (old.All == 0 || on.Failing*old.All > 2*old.Failing*on.All)
}

var severity = map[State]int{Bad: 0, Undecided: 1, Inconclusive: 2, Good: 3}

// worstFirst orders workloads by state, then by the share of failing pods, then by their number. Those that were not
// compared are the first of their state; workloads come before nodes.
func worstFirst(a, b Workload) int {
	return cmp.Or(
		cmp.Compare(severity[a.State], severity[b.State]),
		compareBool(!a.isUnknown(), !b.isUnknown()),
		cmp.Compare(b.New.Failing*a.New.All, a.New.Failing*b.New.All),
		cmp.Compare(b.New.Failing, a.New.Failing),
		cmp.Compare(b.New.Starting, a.New.Starting),
		compareBool(a.Kind == kindNode, b.Kind == kindNode),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Template, b.Template), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Excuse, b.Excuse),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// The excuses of failing pods.
const (
	failsOnOld   = "they fail elsewhere as well"
	failedBefore = "the Deployment was not Available before the wave"
	newTemplate  = "the pod template is newer than the wave"
	unknownAge   = "no pod elsewhere, and unknown whether it is newer than the wave"
	isTask       = "a task that has no pod elsewhere"
	fewFail      = "at most a tenth fail"
	notCompared  = "the pods elsewhere were not read"
)

// judgeWorkloads judges each workload that has pods on the wave's nodes.
func (seen *Observation) judgeWorkloads(now time.Time) []Workload {
	var all []Workload
	for key, group := range seen.groups() {
		on, old := seen.tally(group.on, now), seen.tally(seen.compared(group), now)
		w := Workload{
			Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Template: key.Template,
			New: on.Count, Old: old.Count, Cause: mostFrequent(on.causes), State: Good,
		}
		if on.All == 0 {
			continue
		}
		w.Latest = len(seen.Wave.Latest) == 0 ||
			slices.ContainsFunc(group.on, func(p *Pod) bool { return slices.Contains(seen.Wave.Latest, p.Node) })
		owner := seen.Owners[key]
		if key.Kind == kindPod && on.refused == 0 {
			owner.Template = group.on[0].Created // nothing moves it from one node to another
		}
		if on.Failing > 0 {
			w.Excuse = seen.excuse(w, on, owner)
		}
		switch {
		case on.Failing > 0 && w.Excuse == "":
			w.State = Bad
		case on.awaited > 0:
			w.State = Undecided
		case on.Failing+on.Starting == on.All, w.isUnknown():
			w.State = Inconclusive
		}
		all = append(all, w)
	}
	return all
}

// compared returns the pods of a workload on old nodes with which those on new ones are compared: what an eviction has left
// behind does not show how pods run there, and is compared only with the same on new nodes.
func (seen *Observation) compared(g *group) []*Pod {
	if slices.ContainsFunc(g.on, func(p *Pod) bool { return p.isLeftover() && !p.isIgnored(seen.Wave.Began) }) {
		return g.old
	}
	return slices.DeleteFunc(slices.Clone(g.old), (*Pod).isLeftover)
}

// excuse returns why the failing pods of a workload do not count against the wave; empty if they do.
func (seen *Observation) excuse(w Workload, on tally, owner Owner) string {
	single := w.Old.All == 0
	switch {
	case !worse(w.New, Count{}):
		return fewFail
	case !worse(w.New, w.Old), single && !worse(w.New, seen.Wave.excused(w.ID())):
		return failsOnOld
	case !owner.Unavailable.IsZero() && owner.Unavailable.Before(seen.Wave.Began):
		return failedBefore
	case single && owner.Skipped:
		return notCompared
	case single && !owner.Template.Before(seen.Wave.Began):
		return newTemplate
	case single && on.tasks == on.Failing:
		return isTask
	case single && isCustom(w.Kind) && on.refused == 0:
		return unknownAge
	}
	return ""
}

// isCustom reports whether the pods of a kind of controller are those of an operator: nothing that the daemon may read shows
// when their template was created.
func isCustom(kind string) bool {
	return !slices.Contains([]string{kindDeployment, "ReplicaSet", "ReplicationController", kindDaemonSet, "StatefulSet", "Job", kindPod}, kind)
}

// ID identifies a workload with its pod template: "Deployment gpu/train 5d4f".
func (w *Workload) ID() string {
	return fmt.Sprintf("%s %s/%s %s", w.Kind, w.Namespace, w.Name, w.Template)
}

// Excused returns the workloads that fail on old nodes as well, in this verdict or in earlier ones, for the next Wave of
// the rollout. They are few, and in order.
func (v Verdict) Excused(earlier []string) []string {
	excused := earlier
	for _, w := range v.Workloads {
		if w.Kind != kindNode && w.Excuse == failsOnOld && w.Old.All > 0 {
			excused = excuse(excused, w)
		}
	}
	return excused
}

// Failing returns the workloads, as in Wave.Excused, with failing pods on the New nodes of an observation, in addition to
// earlier ones. It is for nodes that are being replaced and not drained yet, without a time at which the wave began: what
// fails there fails before the rollout replaces it, even if it is the only pod of its workload. More than a tenth of the
// workload's pods have to fail there and on the Old nodes; pods in a terminal phase do not count.
func (seen *Observation) Failing(earlier []string, now time.Time) []string {
	groups := seen.groups()
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Template, b.Template))
	})
	failing := earlier
	for _, key := range keys {
		on, old := seen.failing(key, groups[key].on, now), seen.failing(key, groups[key].old, now)
		all := Count{All: on.All + old.All, Failing: on.Failing + old.Failing}
		if on.Failing > 0 && worse(all, Count{}) {
			failing = excuse(failing, Workload{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Template: key.Template, Old: all})
		}
	}
	return failing
}

// failing counts the pods of a workload that have not ended, and those of them that fail, whenever that began.
func (seen *Observation) failing(of Key, pods []*Pod, now time.Time) Count {
	var c Count
	for _, p := range pods {
		if p.hasEnded() {
			continue
		}
		c.All++
		if p.fails(now, seen.Owners[of].Deadline) {
			c.Failing++
		}
	}
	return c
}

// excuse adds a workload to those that do not count, with the share of its pods that fail on old nodes. It changes a copy.
func excuse(excused []string, w Workload) []string {
	if id := w.ID(); len(excused) >= maxOwners || slices.ContainsFunc(excused, func(e string) bool { return e == id || isShareOf(e, id) }) {
		return excused
	}
	entry := w.ID()
	if 2*w.Old.Failing < w.Old.All { // otherwise no share on new nodes is more than twice as large
		entry += fmt.Sprintf(" %d%%", (100*w.Old.Failing+w.Old.All-1)/w.Old.All)
	}
	return append(slices.Clone(excused), entry)
}

// isShareOf reports whether an entry of Wave.Excused is the share of a workload.
func isShareOf(entry, id string) bool {
	return strings.HasPrefix(entry, id+" ") && strings.HasSuffix(entry, "%")
}

// excused returns the share of a workload's pods that failed on old nodes; no pods if it is not excused.
func (w Wave) excused(id string) Count {
	for _, entry := range w.Excused {
		if entry == id {
			return Count{All: 1, Failing: 1}
		}
		if !isShareOf(entry, id) {
			continue
		}
		if share, err := strconv.Atoi(entry[len(id)+1 : len(entry)-1]); err == nil {
			return Count{All: 100, Failing: share}
		}
	}
	return Count{}
}

// tally is a Count with what decides about it.
type tally struct {
	Count
	causes map[string]int
	// tasks counts failing pods of tasks that the kubelet has not refused, and refused those that it has, of tasks or not;
	// awaited those starting pods for which the wave waits.
	tasks, refused, awaited int
}

// tally counts pods by their health.
func (seen *Observation) tally(pods []*Pod, now time.Time) tally {
	t := tally{causes: map[string]int{}}
	last := seen.lastNode().Add(waitedFor)
	for _, pod := range pods {
		health, cause := pod.health(seen.Wave.Began, now, seen.Owners[pod.Workload].Deadline)
		if health == ignored {
			continue
		}
		t.All++
		switch health {
		case starting:
			t.Starting++
			if !pod.Created.After(last) {
				t.awaited++
			}
		case failing:
			t.Failing++
			if resource := seen.missingFor(pod); resource != "" {
				cause = resource + isZero
			}
			t.causes[cause]++
			switch {
			case pod.Refused:
				t.refused++
			case pod.Task:
				t.tasks++
			}
		case healthy, ignored:
		}
	}
	return t
}

// mostFrequent returns the cause of the most pods; of several, the first one in order.
func mostFrequent(causes map[string]int) string {
	first := ""
	for cause, n := range causes {
		if most := causes[first]; n > most || n == most && cause < first {
			first = cause
		}
	}
	return first
}

// group is the pods of one workload.
type group struct{ on, old []*Pod }

// groups returns the pods of each workload on the wave's nodes, and on old ones.
func (seen *Observation) groups() map[Key]*group {
	groups := map[Key]*group{}
	for i := range seen.Pods {
		pod := &seen.Pods[i]
		g := groups[pod.Workload]
		if g == nil {
			g = &group{}
			groups[pod.Workload] = g
		}
		if pod.New {
			g.on = append(g.on, pod)
		} else {
			g.old = append(g.old, pod)
		}
	}
	return groups
}
