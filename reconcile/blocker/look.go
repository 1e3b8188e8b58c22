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
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// Most is how many nodes are looked into at a time.
	Most = 3
	// RefusedAfter is how long after the drain a termination that EC2 takes is asked
	// for at the latest: Karpenter does it in the same reconcile.
	RefusedAfter = 10 * time.Second
)

const (
	readSoonest = 5 * time.Second
	readSlowest = time.Minute
)

// ReadAgain returns after how long the causes are read again that have kept nodes for some time: a new one is reported within
// seconds, and one that lasts costs a read a minute. No watch reports a change of a PodDisruptionBudget or a finalizer.
func ReadAgain(kept time.Duration) time.Duration { return min(max(kept/6, readSoonest), readSlowest) }

// Look finds out what hangs on nodes.
type Look struct {
	// Reader reads past the watch cache.
	Reader client.Reader
	// DaemonSets are those of CSI drivers and CNI plugins. They are asked for only where a volume
	// keeps a node.
	DaemonSets func(context.Context) plan.DaemonSets
	// Protected reports whether EC2 protects an instance from termination; nil if EC2 cannot be asked.
	Protected func(ctx context.Context, providerID string) (bool, error)
	// Log is the end of the log of Karpenter's controller, empty if it cannot be read; nil if nobody
	// reads it. It is asked for only where EC2 does not take a termination.
	Log func(context.Context) string
	Now time.Time
}

// At finds out what hangs on the first few of some nodes. The Evidence is good also where there is an
// error: it lacks what could not be read.
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

// read finds the pods and the finalizers of the node, and the events of it and its NodeClaim:
// those of objects without a namespace are in the default one.
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

// refuses reports whether EC2 has not taken the termination of a node for a while.
func (l Look) refuses(n Node) bool {
	return !n.Drained.IsZero() && !l.Now.Before(n.Drained.Add(RefusedAfter))
}

// protection asks EC2 whether it protects the instance of a node that is drained, and whose
// termination it does not take. One that EC2 does not answer about stays unknown: the right to ask
// is not everywhere.
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

// Evidence is what was found out about nodes that do not go.
type Evidence struct {
	// Nodes are a few of them, in the order in which they were given.
	Nodes []Node
	// Budgets are the PodDisruptionBudgets of the namespaces of their pods.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets are those of CSI drivers and CNI plugins, where a volume keeps a node.
	DaemonSets plan.DaemonSets
	// Now is the time of the reconcile.
	Now time.Time
}

// Node is one node that does not go, and what hangs on it.
type Node struct {
	// Claim is the name of its NodeClaim, Name its own; empty until it has registered.
	Claim, Name string
	// ProviderID is that of its instance; empty if it has none.
	ProviderID string
	// Drained is since when it is drained and its volumes are detached, while EC2
	// has not taken its termination; zero if that is not so.
	Drained time.Time
	// Waits are the messages of the NodeClaim's conditions that tell what it waits for.
	Waits []string
	// Terminating reports whether EC2 has accepted the termination of its instance.
	Terminating bool
	// Finalizers are those of the NodeClaim while it is terminating.
	Finalizers []string
	// Stays reports whether Karpenter could replace it, and has not begun to.
	Stays bool
	// Since is when its removal began: what Karpenter has said before may not be so any more. Initialized reports that
	// the node is, whatever Karpenter has said of it meanwhile.
	Since       time.Time
	Initialized bool

	// NodeFinalizers are those of its Node while that is terminating. Look finds them, and what follows.
	NodeFinalizers []string
	Pods           []corev1.Pod
	Volumes        []storagev1.VolumeAttachment
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
	// Logged is the newest error in the log of Karpenter's controller about a node that is drained; empty
	// if there is none, or the log cannot be read.
	Logged string
	// Protection is whether EC2 protects the instance of a node that is drained from termination.
	Protection Protection
}

// Protection is what EC2 says of an instance's termination protection.
type Protection string

// What it says; empty if it was not asked, or has not answered.
const (
	Protected   Protection = "Protected"
	Unprotected Protection = "Unprotected"
)

// NodeOf is the node of a NodeClaim that ends, before anything was read of it.
func NodeOf(claim *karpv1.NodeClaim) Node {
	return Node{
		Claim: claim.Name, Name: claim.Status.NodeName, ProviderID: claim.Status.ProviderID,
		Drained: Drained(claim), Waits: Waits(claim), Terminating: Terminating(claim), Finalizers: FinalizersOf(claim),
	}
}

// FinalizersOf are those of an object that is terminating; none of another one.
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

// Title is its name in a sentence.
func (n *Node) Title() string {
	if n.Name == "" {
		return "not registered yet"
	}
	return n.Name
}

// Waits are the messages of the conditions that tell what the end of a NodeClaim waits for.
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

// Drained is since when nothing but EC2 is in the way of a NodeClaim's end. Of a
// termination that EC2 refuses Karpenter says nothing but this, in conditions as
// in events (sigs.k8s.io/karpenter pkg/controllers/node/termination/controller.go,
// awaitInstanceTermination): InstanceTerminating does not become True.
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

// Drains reports whether Karpenter evicts a pod and waits for it. DaemonSets' pods
// go last and come back; naming them would hide what they wait for.
func Drains(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	return !mirror && !ended && (owner == nil || owner.Kind != "DaemonSet") && !podutil.ToleratesDisruptedNoScheduleTaint(pod)
}

// Undisrupted reports whether the pod's annotation keeps it, at that time.
func Undisrupted(pod *corev1.Pod, now time.Time) bool { return undisrupted(pod, now) != "" }

// why says what keeps a pod on its node.
func why(pod *corev1.Pod, e Evidence) Cause {
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
	for _, b := range e.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			budget := "PodDisruptionBudget " + b.Namespace + "/" + b.Name
			c = c.because(v1alpha1.CauseBudget, ", of which "+budget+" allows no disruption"+numbers(b.Status))
			c.Short = budget + ", which allows no disruption" + numbers(b.Status) + " of " + name
			return c
		}
	}
	if words := undisrupted(pod, e.Now); words != "" {
		return c.because(v1alpha1.CauseDoNotDisrupt, words)
	}
	return c
}

// because adds to a pod what keeps it.
func (c Cause) because(kind v1alpha1.BreakGlassCause, words string) Cause {
	c.Kind, c.Words, c.Passing = kind, c.Words+words, false
	c.Short = c.Words
	return c
}

// bare reports whether nothing is known to keep the pod.
func (c Cause) bare() bool { return c.Words == "pod "+c.Namespace+"/"+c.Name }

// numbers are those by which a budget allows nothing; none if its controller has not counted.
func numbers(s policyv1.PodDisruptionBudgetStatus) string {
	if s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf(" (healthy: %d of %d, %d needed)", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy)
}

// undisrupted reports that the pod's annotation keeps it: "true", or for some time from its start on
// (IsDoNotDisruptActive in sigs.k8s.io/karpenter pkg/utils/pod/scheduling.go, since 1.14). One
// whose time is over keeps nothing.
func undisrupted(pod *corev1.Pod, now time.Time) string {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "true" {
		return ", annotated " + karpv1.DoNotDisruptAnnotationKey
	}
	lasts, err := time.ParseDuration(value)
	if err != nil || lasts <= 0 || pod.Status.StartTime == nil {
		return ""
	}
	until := pod.Status.StartTime.Add(lasts)
	if now.Before(until) {
		return ", annotated " + karpv1.DoNotDisruptAnnotationKey + " until " + until.UTC().Format(time.RFC3339)
	}
	return ""
}
