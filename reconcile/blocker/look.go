package blocker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// Most is how many nodes are diagnosed at a time.
	Most = 3
	// RefusedAfter is how long after the drain a termination counts as refused: Karpenter requests it in the same
	// reconcile.
	RefusedAfter = 10 * time.Second
)

const (
	readSoonest = 5 * time.Second
	readSlowest = time.Minute
)

// ReadAgain returns how long to wait before the causes that have blocked nodes for some time are read again: a new
// cause is reported within seconds, and a lasting one costs one read a minute. There is no watch on
// PodDisruptionBudgets and finalizers.
func ReadAgain(kept time.Duration) time.Duration { return min(max(kept/6, readSoonest), readSlowest) }

// Look finds out what blocks nodes.
type Look struct {
	// Reader reads past the watch cache.
	Reader client.Reader
	// DaemonSets returns those of CSI drivers and CNI plugins. It is called only if a volume blocks a node.
	DaemonSets func(context.Context) plan.DaemonSets
	// Protected reports whether EC2 protects an instance from termination. If nil, EC2 is not queried.
	Protected func(ctx context.Context, providerID string) (bool, error)
	// Log returns the end of the log of Karpenter's controller; empty if it cannot be read. If nil, no log is read. It
	// is called only if EC2 does not accept a termination.
	Log func(context.Context) string
	Now time.Time
}

// At finds out what blocks the first few of some nodes. The Evidence is valid even if there is an error: it omits what
// could not be read.
func (l Look) At(ctx context.Context, nodes []Node) (Evidence, error) {
	e := Evidence{Now: l.Now}
	var failures []error
	volumes := &storagev1.VolumeAttachmentList{}
	if err := l.Reader.List(ctx, volumes); err != nil {
		failures = append(failures, err)
	}
	namespaces := map[string]bool{}
	for _, n := range nodes[:min(Most, len(nodes))] {
		for _, v := range volumes.Items {
			if n.Name != "" && v.Spec.NodeName == n.Name {
				n.Volumes = append(n.Volumes, v)
			}
		}
		if err := n.read(ctx, l.Reader); err != nil {
			failures = append(failures, err)
		}
		if l.Log != nil && l.refuses(n) {
			n.Logged = lastError(l.Log(ctx), n.Drained, n.Claim, n.Name)
		}
		n.Protection = l.protection(ctx, n)
		if len(n.Volumes) > 0 {
			e.DaemonSets = l.DaemonSets(ctx)
		}
		for i := range n.Pods {
			namespaces[n.Pods[i].Namespace] = true
		}
		e.Nodes = append(e.Nodes, n)
	}
	for namespace := range namespaces {
		budgets := &policyv1.PodDisruptionBudgetList{}
		if err := l.Reader.List(ctx, budgets, client.InNamespace(namespace)); err != nil {
			failures = append(failures, err)
		}
		e.Budgets = append(e.Budgets, budgets.Items...)
	}
	slices.SortFunc(e.Budgets, func(a, b policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return e, errors.Join(failures...)
}

// read reads the pods and the finalizers of the node, and the events of it and its NodeClaim. Events of objects without
// a namespace are in the namespace default.
func (n *Node) read(ctx context.Context, reader client.Reader) error {
	var failures []error
	about := []string{n.Claim}
	if n.Name != "" {
		about = append(about, n.Name)
		pods := &corev1.PodList{}
		if err := reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
			failures = append(failures, err)
		}
		n.Pods = pods.Items
		node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if err := reader.Get(ctx, client.ObjectKey{Name: n.Name}, node); client.IgnoreNotFound(err) != nil {
			failures = append(failures, err)
		}
		n.NodeFinalizers = FinalizersOf(node)
	}
	for _, name := range about {
		events := &corev1.EventList{}
		if err := reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), client.MatchingFields{"involvedObject.name": name}); err != nil {
			failures = append(failures, err)
		}
		n.Events = append(n.Events, events.Items...)
	}
	slices.SortFunc(n.Events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return errors.Join(failures...)
}

// refuses reports whether EC2 has not accepted the termination of a node for a while.
func (l Look) refuses(n Node) bool {
	return !n.Drained.IsZero() && !l.Now.Before(n.Drained.Add(RefusedAfter))
}

// protection queries EC2 whether it protects the instance of a drained node whose termination it does not accept. If
// the query fails, this stays unknown: not every role has the permission.
func (l Look) protection(ctx context.Context, n Node) Protection {
	if l.Protected == nil || !l.refuses(n) {
		return ""
	}
	protected, err := l.Protected(ctx, n.ProviderID)
	switch {
	case err != nil:
		return ""
	case protected:
		return Protected
	}
	return Unprotected
}

// Evidence is what was found out about blocked nodes.
type Evidence struct {
	// Nodes are a few of them, in the order of the input.
	Nodes []Node
	// Budgets are the PodDisruptionBudgets of the namespaces of their pods.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets are those of CSI drivers and CNI plugins, if a volume blocks a node.
	DaemonSets plan.DaemonSets
	// Now is the time of the reconcile.
	Now time.Time
}

// Node is one blocked node, and what may block it.
type Node struct {
	// Claim is the name of its NodeClaim. Name is its own name; empty until it has registered.
	Claim, Name string
	// ProviderID is that of its instance; empty if it has none.
	ProviderID string
	// Drained is since when it is drained and its volumes are detached while EC2 has not accepted its termination;
	// otherwise zero.
	Drained time.Time
	// Deadline is when its terminationGracePeriod is over: from then on its drain overrides PodDisruptionBudgets and
	// karpenter.sh/do-not-disrupt. Zero if it never does.
	Deadline time.Time
	// Waits are the messages of the NodeClaim's conditions that say what it waits for.
	Waits []string
	// Terminating reports whether EC2 has accepted the termination of its instance.
	Terminating bool
	// Finalizers are those of the NodeClaim while it is terminating.
	Finalizers []string
	// Stays reports whether Karpenter could replace it, and has not started to.
	Stays bool
	// Since is when its removal began: earlier reports of Karpenter may be outdated. Initialized reports whether the
	// node is initialized, whatever Karpenter has reported in the meantime.
	Since       time.Time
	Initialized bool

	// NodeFinalizers are those of its Node while that is terminating. Look reads these and the following fields.
	NodeFinalizers []string
	Pods           []corev1.Pod
	Volumes        []storagev1.VolumeAttachment
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
	// Logged is the latest error in the log of Karpenter's controller about a drained node; empty if there is none, or
	// the log cannot be read.
	Logged string
	// Protection is whether EC2 protects the instance of a drained node from termination.
	Protection Protection
}

// Protection is an instance's termination protection, as EC2 reports it.
type Protection string

// Its values; empty if EC2 was not queried, or did not respond.
const (
	Protected   Protection = "Protected"
	Unprotected Protection = "Unprotected"
)

// NodeOf returns the node of a terminating NodeClaim, before anything was read about it.
func NodeOf(claim *karpv1.NodeClaim) Node {
	return Node{
		Claim: claim.Name, Name: claim.Status.NodeName, ProviderID: claim.Status.ProviderID,
		Drained: Drained(claim), Deadline: Deadline(claim), Waits: Waits(claim), Terminating: Terminating(claim), Finalizers: FinalizersOf(claim),
	}
}

// FinalizersOf returns the finalizers of an object if it is terminating, otherwise none.
func FinalizersOf(object metav1.Object) []string {
	if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return object.GetFinalizers()
}

// Terminating reports whether EC2 has accepted the termination of a NodeClaim's instance.
func Terminating(claim *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c status.Condition) bool {
		return c.Type == karpv1.ConditionTypeInstanceTerminating && c.Status == metav1.ConditionTrue
	})
}

// Title returns its name for a sentence.
func (n *Node) Title() string {
	if n.Name == "" {
		return "not registered yet"
	}
	return n.Name
}

// Waits returns the messages of the conditions that say what the termination of a NodeClaim waits for.
func Waits(claim *karpv1.NodeClaim) []string {
	var waits []string
	for _, condition := range claim.Status.Conditions {
		switch condition.Type {
		case karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating:
			if condition.Status != metav1.ConditionTrue && condition.Message != "" {
				waits = append(waits, condition.Type+": "+condition.Message)
			}
		}
	}
	return waits
}

// Deadline returns when the terminationGracePeriod of a terminating NodeClaim is over; zero if it has none. Karpenter
// writes that time to an annotation, which a person may have set as well; until then it is computed in the same way
// (ensureTerminationGracePeriodTerminationTimeAnnotation in sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/lifecycle/controller.go, 1.14.3).
func Deadline(claim *karpv1.NodeClaim) time.Time {
	if claim.DeletionTimestamp == nil {
		return time.Time{}
	}
	if at := cluster.TerminatesAt(claim); !at.IsZero() {
		return at
	}
	if grace := claim.Spec.TerminationGracePeriod; grace != nil {
		return claim.DeletionTimestamp.Add(grace.Duration)
	}
	return time.Time{}
}

// Drained returns since when a NodeClaim's termination waits only for EC2. If EC2 refuses the termination, this is the
// only sign of it in conditions and events: InstanceTerminating does not become True (sigs.k8s.io/karpenter
// pkg/controllers/node/termination/controller.go, awaitInstanceTermination).
func Drained(claim *karpv1.NodeClaim) time.Time {
	var since time.Time
	passed := 0
	for _, condition := range claim.Status.Conditions {
		switch condition.Type {
		case karpv1.ConditionTypeInstanceTerminating:
			if condition.Status == metav1.ConditionTrue {
				return time.Time{}
			}
		case karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached:
			if condition.Status != metav1.ConditionTrue {
				return time.Time{}
			}
			passed++
			if condition.LastTransitionTime.After(since) {
				since = condition.LastTransitionTime.Time
			}
		}
	}
	if passed < 2 || claim.DeletionTimestamp == nil || claim.Status.ProviderID == "" {
		return time.Time{}
	}
	return since
}

// Drains reports whether Karpenter evicts a pod and waits for it. Pods of DaemonSets are excluded: they go last and are
// recreated, so naming them would hide the actual cause.
func Drains(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	return !mirror && !ended && (owner == nil || owner.Kind != "DaemonSet") && !podutil.ToleratesDisruptedNoScheduleTaint(pod)
}

// why returns what keeps a pod on its node.
func why(pod *corev1.Pod, blocking *plan.Blocking, now time.Time) Cause {
	name := "pod " + pod.Namespace + "/" + pod.Name
	c := Cause{Words: name, Short: name, Kind: v1alpha1.CausePod, Namespace: pod.Namespace, Name: pod.Name, Passing: true}
	if pod.DeletionTimestamp != nil {
		if len(pod.Finalizers) > 0 {
			return c.because(v1alpha1.CauseFinalizer, ", which waits for its finalizer "+strings.Join(pod.Finalizers, ", "))
		}
		c = c.because(v1alpha1.CausePod, ", which is terminating")
		c.Passing = true
		return c
	}
	if b := blocking.First(pod); b != nil {
		budget := "PodDisruptionBudget " + b.Namespace + "/" + b.Name
		c = c.because(v1alpha1.CauseBudget, ", of which "+budget+" allows no disruption"+numbers(b.Status))
		c.Short = budget + ", which allows no disruption" + numbers(b.Status) + " of " + name
		return c
	}
	if words := undisrupted(pod, now); words != "" {
		return c.because(v1alpha1.CauseDoNotDisrupt, words)
	}
	return c
}

// because adds to a pod's Cause what keeps it.
func (c Cause) because(kind v1alpha1.BreakGlassCause, words string) Cause {
	c.Kind, c.Words, c.Passing = kind, c.Words+words, false
	c.Short = c.Words
	return c
}

// withoutReason reports whether it is unknown what keeps the pod.
func (c Cause) withoutReason() bool { return c.Words == "pod "+c.Namespace+"/"+c.Name }

// numbers returns the numbers because of which a budget allows no disruption; empty if its controller has not counted.
func numbers(s policyv1.PodDisruptionBudgetStatus) string {
	if s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf(" (healthy: %d of %d, %d needed)", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy)
}

// undisrupted returns the words that the pod's annotation prevents its disruption, and until when, if that is limited.
func undisrupted(pod *corev1.Pod, now time.Time) string {
	if !plan.Undisrupted(pod, now) {
		return ""
	}
	words := ", annotated " + karpv1.DoNotDisruptAnnotationKey
	lasts, err := time.ParseDuration(pod.Annotations[karpv1.DoNotDisruptAnnotationKey])
	if err != nil || pod.Status.StartTime == nil {
		return words
	}
	return words + " until " + pod.Status.StartTime.Add(lasts).UTC().Format(time.RFC3339)
}
