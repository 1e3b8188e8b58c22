package judge

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// nodeStarts is how long a new node may take until it is Ready, and devicesStart until its device plugins offer their
// resources: an operator may install a driver first.
const (
	nodeStarts   = 5 * time.Minute
	devicesStart = 10 * time.Minute
)

// isZero completes the cause of a resource that a node does not offer.
const isZero = " is 0"

// judgeNodes judges the nodes of the wave, one Workload for each problem that any of them has.
func (seen *Observation) judgeNodes(now time.Time) []Workload {
	found := map[string]*Workload{}
	note := func(problem string) *Workload {
		if found[problem] == nil {
			found[problem] = &Workload{
				Kind: kindNode, Name: seen.Wave.Pool, Cause: problem, New: Count{All: len(seen.New)}, Old: Count{All: len(seen.Old)},
			}
		}
		return found[problem]
	}
	missing := map[corev1.ResourceName]bool{}
	for i := range seen.New {
		n := &seen.New[i]
		for _, c := range n.Conditions {
			if !seen.isProblem(c) {
				continue
			}
			if w := note(c.problem()); n.starting(c, now) {
				w.New.Starting++
			} else {
				w.New.Failing++
			}
		}
		for _, resource := range seen.missing(n) {
			missing[resource] = true
		}
	}
	for i := range seen.Old {
		for _, c := range seen.Old[i].Conditions {
			if w := found[c.problem()]; w != nil && seen.isProblem(c) {
				w.Old.Failing++
			}
		}
	}
	for resource := range missing {
		*note(string(resource) + isZero) = seen.judgeResource(resource, now)
	}
	var all []Workload
	for _, problem := range slices.Sorted(maps.Keys(found)) {
		w := found[problem]
		w.State, w.Excuse = nodeState(w.New, w.Old)
		all = append(all, *w)
	}
	return all
}

// goodNodes returns the names of the wave's nodes that are good, given the judged workloads and nodes.
func (seen *Observation) goodNodes(judged []Workload, now time.Time) []string {
	excused := excusedIn(judged)
	works, fails := map[string]bool{}, map[string]bool{}
	last := seen.lastNode().Add(waitedFor)
	for i := range seen.Pods {
		p := &seen.Pods[i]
		of := Workload{Kind: p.Workload.Kind, Namespace: p.Workload.Namespace, Name: p.Workload.Name, Template: p.Workload.Template}
		switch how, _ := p.health(seen.Wave.Began, now, seen.Owners[p.Workload].Deadline); how {
		case healthy:
			works[p.Node] = works[p.Node] || of.proves()
		case failing:
			fails[p.Node] = fails[p.Node] || !excused[of.ID()]
		case starting:
			fails[p.Node] = fails[p.Node] || !p.Created.After(last)
		case ignored:
		}
	}
	var good []string
	for i := range seen.New {
		n := &seen.New[i]
		if works[n.Name] && !fails[n.Name] && !seen.isSick(n, excused) {
			good = append(good, n.Name)
		}
	}
	slices.Sort(good)
	return good
}

// excusedIn returns the workloads, by ID, and the problems of nodes, by cause, that do not count.
func excusedIn(judged []Workload) map[string]bool {
	excused := map[string]bool{}
	for i := range judged {
		w := &judged[i]
		if w.Excuse == "" || w.isUnknown() {
			continue
		}
		if w.Kind == kindNode {
			excused[w.Cause] = true
		} else {
			excused[w.ID()] = true
		}
	}
	return excused
}

// isSick reports whether a node has a problem that counts.
func (seen *Observation) isSick(n *Node, excused map[string]bool) bool {
	return slices.ContainsFunc(n.Conditions, func(c Condition) bool { return seen.isProblem(c) && !excused[c.problem()] }) ||
		slices.ContainsFunc(seen.missing(n), func(resource corev1.ResourceName) bool { return !excused[string(resource)+isZero] })
}

// nodeState returns the State for a problem of nodes, and why it does not count.
func nodeState(on, old Count) (state State, excuse string) {
	switch {
	case worse(on, old):
		return Bad, ""
	case on.Starting > 0:
		return Undecided, ""
	case !worse(on, Count{}):
		return Inconclusive, fewFail
	}
	return Inconclusive, failsOnOld
}

// isProblem reports whether a condition shows a problem. Those of Kubernetes are known. For others, such as those of the
// node problem detector or of EKS' node monitoring agent, True is a problem unless the type ends as a good state does;
// they count only if there are old nodes to compare with.
func (seen *Observation) isProblem(c Condition) bool {
	switch c.Type {
	case corev1.NodeReady:
		return c.Status != corev1.ConditionTrue
	case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
		return c.Status == corev1.ConditionTrue
	default:
		return len(seen.Old) > 0 && c.reportsProblem()
	}
}

// reportsProblem reports whether the status of a condition that is not one of Kubernetes' own shows a problem.
func (c Condition) reportsProblem() bool {
	for _, good := range []string{"Ready", "Healthy", "Available"} {
		if strings.HasSuffix(string(c.Type), good) {
			return c.Status == corev1.ConditionFalse
		}
	}
	return c.Status == corev1.ConditionTrue
}

// problem returns a condition as the cause of a failure. Ready=Unknown and Ready=False are the same problem.
func (c Condition) problem() string {
	if c.Type == corev1.NodeReady {
		return "the node is not Ready"
	}
	return string(c.Type) + " is " + string(c.Status)
}

// starting reports whether a node is so new that a problem may still be resolved, or is not Ready only for a moment.
func (n *Node) starting(c Condition, now time.Time) bool {
	return c.Type == corev1.NodeReady && (now.Before(n.Created.Add(nodeStarts)) || now.Before(c.Since.Add(unreadyFor))) ||
		c.Type == corev1.NodeNetworkUnavailable && now.Before(n.Created.Add(nodeStarts))
}

// missing returns the extended resources that a node of the wave should offer and does not: those that old nodes of
// its type offer, and those of its type's capacity for which it was launched, or that any old node offers. The capacity
// is not enough: Karpenter assumes that each type has its device plugin, whether the cluster runs it or not
// (computeCapacity in karpenter-provider-aws pkg/providers/instancetype/types.go, 1.15.0).
func (seen *Observation) missing(n *Node) []corev1.ResourceName {
	missing := map[corev1.ResourceName]bool{}
	for resource := range n.Capacity {
		missing[resource] = n.Requested[resource] > 0
	}
	for i := range seen.Old {
		for resource := range seen.Old[i].Offers {
			if seen.Old[i].Type == n.Type || n.Capacity[resource] > 0 {
				missing[resource] = true
			}
		}
	}
	maps.DeleteFunc(missing, func(resource corev1.ResourceName, expected bool) bool { return !expected || n.Offers[resource] > 0 })
	return slices.Sorted(maps.Keys(missing))
}

// judgeResource counts the nodes that do not offer a resource, among those that should.
func (seen *Observation) judgeResource(resource corev1.ResourceName, now time.Time) Workload {
	w := Workload{Kind: kindNode, Name: seen.Wave.Pool, Cause: string(resource) + isZero}
	types := map[string]bool{}
	for i := range seen.New {
		n := &seen.New[i]
		switch {
		case n.Offers[resource] > 0:
		case !slices.Contains(seen.missing(n), resource):
			continue
		case now.Before(n.Created.Add(devicesStart)):
			w.New.Starting++
		default:
			w.New.Failing++
			types[n.Type] = true
		}
		w.New.All++
	}
	for i := range seen.Old {
		switch n := &seen.Old[i]; {
		case n.Offers[resource] > 0:
			w.Old.All++
		case types[n.Type]:
			w.Old.All++
			w.Old.Failing++
		}
	}
	return w
}

// missingFor returns the first resource that a pod requests and that is missing on its node of the wave; empty if there
// is none.
func (seen *Observation) missingFor(pod *Pod) string {
	i := slices.IndexFunc(seen.New, func(n Node) bool { return n.Name == pod.Node })
	if i < 0 || len(pod.Wants) == 0 {
		return ""
	}
	missing := seen.missing(&seen.New[i])
	for _, resource := range pod.Wants {
		if slices.Contains(missing, resource) {
			return string(resource)
		}
	}
	return ""
}

// lastNode returns when the last node of the wave was created; when the wave began if none exists.
func (seen *Observation) lastNode() time.Time {
	last := seen.Wave.Began
	for i := range seen.New {
		if seen.New[i].Created.After(last) {
			last = seen.New[i].Created
		}
	}
	return last
}
