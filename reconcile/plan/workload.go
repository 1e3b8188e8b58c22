package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// Named limits how many pods and workloads are listed.
const Named = 5

// Impact is what happens to the pods on some nodes.
type Impact struct {
	// Pods is how many pods are evicted: pods of DaemonSets, static pods and completed pods do not count.
	Pods int `json:"pods"`
	// Budgets are the PodDisruptionBudgets of these pods that allow no disruption now.
	Budgets []Budget `json:"budgets,omitempty"`
	// Nodes is how many nodes have such pods, and Undrainable how many of these run a pod whose PodDisruptionBudget can
	// never allow an eviction, and have no terminationGracePeriod, which would complete their drain.
	Nodes       int `json:"nodes"`
	Undrainable int `json:"undrainable,omitempty"`
	// Overridden is how many of these nodes run a pod that a PodDisruptionBudget or karpenter.sh/do-not-disrupt keeps,
	// and that is evicted all the same once the node's terminationGracePeriod is over.
	Overridden int `json:"overridden,omitempty"`
	// Blocked is how many of these nodes run a pod whose PodDisruptionBudget allows no disruption, now or ever, and have
	// no terminationGracePeriod: with one, Karpenter starts to replace a drifted node all the same (NewCandidate in
	// karpenter pkg/controllers/disruption/types.go, 1.14.3).
	Blocked int `json:"-"`
	// DoNotDisrupt are pods with the annotation karpenter.sh/do-not-disrupt: their nodes are not replaced while they
	// run, unless they have a terminationGracePeriod.
	DoNotDisrupt Pods `json:"doNotDisrupt"`
	// Single are workloads with no other pod in the cluster: they are unavailable until a new one runs.
	Single Pods `json:"single"`
	// Bare are pods without a controller: nothing recreates them.
	Bare Pods `json:"bare"`
}

// Budget is a PodDisruptionBudget that allows no disruption, and how many of the pods it selects.
type Budget struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Never reports whether it requires all of its pods to be healthy: it allows an eviction only if it is changed, or
	// if its workload gets more pods.
	Never bool `json:"never,omitempty"`
}

// Pods are pods or workloads, as namespace/name: their number, and the first names.
type Pods struct {
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

func (p *Pods) add(namespace, name string) {
	p.Count++
	p.Names = append(p.Names, namespace+"/"+name)
}

// first keeps the first names in order, so that the output is stable.
func (p *Pods) first() {
	slices.Sort(p.Names)
	p.Names = p.Names[:min(len(p.Names), Named)]
}

// Drains maps the names of nodes to their terminationGracePeriod; empty for one whose drain may take any time.
type Drains map[string]string

// WorkloadsOf returns the Impact of terminating nodes. pods and budgets are those of the whole cluster.
func WorkloadsOf(nodes Drains, pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, at time.Time) Impact {
	var i Impact
	of := controlled(pods)
	h := holding{
		budgets: BlockingBudgets(budgets), pods: map[int]int{},
		drains: map[string]bool{}, moves: map[string]bool{}, overridden: map[string]bool{},
	}
	for n := range pods {
		pod := &pods[n]
		grace, drains := nodes[pod.Spec.NodeName]
		if !drains || !evicted(pod) {
			continue
		}
		i.Pods++
		protected := Undisrupted(pod, at)
		if protected {
			i.DoNotDisrupt.add(pod.Namespace, pod.Name)
		}
		switch owner := metav1.GetControllerOf(pod); {
		case owner == nil:
			i.Bare.add(pod.Namespace, pod.Name)
		case owner.Kind != "Job" && of[owner.UID] == 1:
			i.Single.add(pod.Namespace, workloadOf(pod, owner))
		}
		h.add(pod, grace != "", protected)
	}
	i.Nodes, i.Undrainable, i.Blocked, i.Overridden = len(h.drains), countFalse(h.drains), countFalse(h.moves), len(h.overridden)
	for b, n := range h.pods {
		i.Budgets = append(i.Budgets, Budget{Name: budgets[b].Namespace + "/" + budgets[b].Name, Pods: n, Never: neverAllows(&budgets[b])})
	}
	slices.SortFunc(i.Budgets, func(a, b Budget) int { return cmp.Compare(a.Name, b.Name) })
	for _, found := range []*Pods{&i.DoNotDisrupt, &i.Single, &i.Bare} {
		found.first()
	}
	return i
}

// holding records which PodDisruptionBudgets allow no disruption of pods, and on which nodes these run.
type holding struct {
	budgets *Blocking
	// pods is how many pods each budget selects, by its index.
	pods map[int]int
	// drains and moves report, by node, whether it may ever drain, and whether it may now.
	drains, moves map[string]bool
	// overridden are the nodes whose terminationGracePeriod overrides what keeps one of their pods.
	overridden map[string]bool
}

// add adds a pod. bounded reports whether its node has a terminationGracePeriod, and protected whether its annotation
// keeps it from being disrupted.
func (h *holding) add(pod *corev1.Pod, bounded, protected bool) {
	node, may, now := pod.Spec.NodeName, true, true
	for _, b := range h.budgets.of(pod) {
		h.pods[b]++
		may, now = may && !neverAllows(&h.budgets.all[b]), false
	}
	if bounded && (protected || !now) {
		h.overridden[node], may, now = true, true, true
	}
	before, seen := h.drains[node]
	h.drains[node], h.moves[node] = may && (before || !seen), now && (h.moves[node] || !seen)
}

// countFalse counts the nodes whose value is false.
func countFalse(nodes map[string]bool) (n int) {
	for _, may := range nodes {
		if !may {
			n++
		}
	}
	return n
}

// neverAllows reports whether a PodDisruptionBudget can never allow an eviction: it requires as many healthy pods as
// its workloads have.
func neverAllows(budget *policyv1.PodDisruptionBudget) bool {
	return budget.Status.ExpectedPods > 0 && budget.Status.DesiredHealthy >= budget.Status.ExpectedPods
}

// controlled counts the running pods of each controller.
func controlled(pods []corev1.Pod) map[types.UID]int {
	of := map[types.UID]int{}
	for n := range pods {
		if owner := metav1.GetControllerOf(&pods[n]); owner != nil && evicted(&pods[n]) {
			of[owner.UID]++
		}
	}
	return of
}

// evicted reports whether draining a node evicts a pod, as Karpenter does: not if it has completed or is terminating,
// belongs to a DaemonSet, or is static.
func evicted(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	return !ended && (owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node")
}

// Undisrupted reports whether the annotation keeps a pod from being disrupted: "true", or a duration that has not passed
// since the pod started, or one whose pod has not started yet (IsDoNotDisruptActive in karpenter
// pkg/utils/pod/scheduling.go, 1.12.0 to 1.15.0).
func Undisrupted(pod *corev1.Pod, now time.Time) bool {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "true" {
		return true
	}
	until, err := time.ParseDuration(value)
	return err == nil && until > 0 && (pod.Status.StartTime == nil || now.Sub(pod.Status.StartTime.Time) < until)
}

// workloadOf returns the name of a pod's controller, or of the Deployment above it: the name of a ReplicaSet is that of
// its Deployment plus the hash of the pod template.
func workloadOf(pod *corev1.Pod, owner *metav1.OwnerReference) string {
	if hash := pod.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Name
}

// Words returns the Impact as text lines; none if no pod runs there.
func (i Impact) Words() []string {
	if i.Pods == 0 {
		return nil
	}
	lines := []string{english.Plural(i.Pods, "pod is", "pods are") + " evicted from these nodes"}
	lines = append(lines, i.budgets()...)
	if i.DoNotDisrupt.Count > 0 {
		lines = append(lines, "karpenter.sh/do-not-disrupt: "+i.DoNotDisrupt.words())
	}
	if i.Overridden > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s drain all the same once their terminationGracePeriod is over: it overrides PodDisruptionBudgets and karpenter.sh/do-not-disrupt",
			i.Overridden, english.Plural(i.Nodes, "node", "")))
	}
	if i.Single.Count > 0 {
		lines = append(lines, "workloads with a single pod, unavailable until a new pod runs: "+i.Single.words())
	}
	if i.Bare.Count > 0 {
		lines = append(lines, "pods without a controller, which are not recreated: "+i.Bare.words())
	}
	return lines
}

// budgets returns the lines about PodDisruptionBudgets: one for all that can never allow an eviction, and one for each,
// or one for all, of those that allow none now.
func (i Impact) budgets() []string {
	var never, now []string
	var lines []string
	for _, b := range i.Budgets {
		if b.Never {
			never = append(never, b.Name)
			continue
		}
		now = append(now, b.Name)
		lines = append(lines, fmt.Sprintf("PodDisruptionBudget %s allows no disruption now: %s",
			b.Name, english.PluralWord(b.Pods, "1 of these pods waits for it", fmt.Sprintf("%d of these pods wait for it", b.Pods))))
	}
	if len(now) > Named {
		lines = []string{fmt.Sprintf("%d PodDisruptionBudgets allow no disruption now: %s", len(now), some(now, len(now)))}
	}
	switch {
	case len(never) == 0:
		return lines
	case i.Undrainable == 0:
		return append([]string{fmt.Sprintf("%s can never allow an eviction: %s", english.Plural(len(never), "PodDisruptionBudget", ""), some(never, len(never)))}, lines...)
	}
	first := fmt.Sprintf("%d of %s can drain: %s can never allow an eviction: %s; add replicas or change the budgets (only a terminationGracePeriod overrides them)",
		i.Nodes-i.Undrainable, english.Plural(i.Nodes, "node", ""), english.Plural(len(never), "PodDisruptionBudget", ""), some(never, len(never)))
	return append([]string{first}, lines...)
}

// Blocks lists the PodDisruptionBudgets that block the drain of these nodes now, and counts the nodes; empty if there
// are none.
func (i Impact) Blocks() string {
	if len(i.Budgets) == 0 || i.Blocked == 0 {
		return ""
	}
	names, verb := make([]string, 0, len(i.Budgets)), "can never allow an eviction"
	for _, b := range i.Budgets {
		names = append(names, b.Name)
		if !b.Never {
			verb = english.PluralWord(len(i.Budgets), "allows", "allow") + " no disruption now"
		}
	}
	return fmt.Sprintf("%d of %s can drain: %s %s: %s", i.Nodes-i.Blocked, english.Plural(i.Nodes, "node", ""),
		english.Plural(len(i.Budgets), "PodDisruptionBudget", ""), verb, some(names, len(names)))
}

// some lists the first names, and counts the others.
func some(names []string, count int) string {
	names = names[:min(len(names), Named)]
	return strings.Join(names, ", ") + shortlist.More(" ", count-len(names))
}

func (p Pods) words() string { return some(p.Names, p.Count) }
