package blocker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Cause is a reason why a node is not terminated or replaced.
type Cause struct {
	// Words complete the phrase "waits for". Short is the same with the most important part first: the budget, then its
	// pod.
	Words, Short string
	// Kind is the cause as one word, if a person could terminate the node in spite of it.
	Kind v1alpha1.BreakGlassCause
	// Namespace and Name identify the pod that blocks the node.
	Namespace, Name string
	// Object has a finalizer of another controller. It is written as for kubectl: kind/name.
	Object string
	// Passing reports whether each drain waits briefly for such a cause: a pod that terminates, a volume
	// that is detached, Karpenter itself.
	Passing bool
}

// WaitsFor names what blocks a node, or the first few of several pods. The other fields are those of the
// first cause.
func (n *Node) WaitsFor(e Evidence) Cause {
	all := n.Causes(e)
	words := make([]string, 0, len(all))
	for _, c := range all {
		words = append(words, c.Words)
	}
	first := all[0]
	first.Words = finding.First(words)
	return first
}

// Causes returns what blocks a node, sorted by their words: one Cause for each pod if pods do, otherwise one.
func (n *Node) Causes(e Evidence) []Cause {
	if denied := n.denied(); denied != "" {
		return one(Cause{Words: "AWS: " + denied})
	}
	if n.Stays {
		return one(n.notReplacedBecause(e))
	}
	if c, held := n.finalizers(); held {
		return one(c)
	}
	if pods := n.pods(e); len(pods) > 0 {
		return pods
	}
	if len(n.Volumes) > 0 {
		return one(n.volumes(e.DaemonSets))
	}
	if !n.Drained.IsZero() {
		return one(n.refused(e))
	}
	if n.Terminating {
		return one(Cause{Words: fmt.Sprintf("EC2 to terminate %s (the request is accepted)", cloud.InstanceID(n.ProviderID)), Passing: true})
	}
	if len(n.Waits) > 0 {
		return one(Cause{Words: n.Waits[0], Passing: true})
	}
	return one(Cause{Words: "Karpenter to terminate it", Passing: true})
}

// finalizers returns the wait for other controllers' finalizers on the NodeClaim or its Node, if Karpenter has removed
// its own and only these are left.
func (n *Node) finalizers() (Cause, bool) {
	switch {
	case Held(n.Finalizers):
		return n.foreign("nodeclaim", "NodeClaim", n.Claim, n.Finalizers), true
	case Held(n.NodeFinalizers):
		return n.foreign("node", "Node", n.Name, n.NodeFinalizers), true
	}
	return Cause{}, false
}

// Held reports whether only finalizers of controllers other than Karpenter block the deletion of a terminating object.
func Held(finalizers []string) bool {
	return len(finalizers) > 0 && !slices.Contains(finalizers, karpv1.TerminationFinalizer)
}

// foreign returns the wait for other controllers' finalizers. Karpenter removes its own once the instance is
// terminated, but other clients can remove it, too: Karpenter has finished only if EC2 has accepted the termination.
// Otherwise the Cause offers no command, because the command could remove the NodeClaim of a running instance.
func (n *Node) foreign(resource, kind, name string, finalizers []string) Cause {
	waits := fmt.Sprintf("%s of %s/%s", WaitsForFinalizers(finalizers), kind, name)
	if !n.Terminating {
		return Cause{Words: waits + "; Karpenter's own finalizer was removed, and it is unknown whether EC2 has terminated the instance"}
	}
	return Cause{
		Words:  waits + "; Karpenter is done with it",
		Kind:   v1alpha1.CauseObjectFinalizer,
		Object: resource + "/" + name,
	}
}

// WaitsForFinalizers names finalizers for the phrase "waits for", and who removes them.
func WaitsForFinalizers(finalizers []string) string {
	var karpenters, others []string
	for _, f := range finalizers {
		if f == karpv1.TerminationFinalizer || f == awsv1.TerminationFinalizer {
			karpenters = append(karpenters, f)
		} else {
			others = append(others, f)
		}
	}
	var words []string
	if len(karpenters) > 0 {
		words = append(words, "Karpenter to remove finalizer "+finding.Few(karpenters, ", "))
	}
	if len(others) > 0 {
		words = append(words, "another controller to remove finalizer "+finding.Few(others, ", "))
	}
	return strings.Join(words, ", and ")
}

func one(c Cause) []Cause {
	c.Short = cmp.Or(c.Short, c.Words)
	return []Cause{c}
}

// pods returns one Cause for each pod that is not evicted.
func (n *Node) pods(e Evidence) []Cause {
	var all []Cause
	blocking := plan.BlockingBudgets(e.Budgets)
	for i := range n.Pods {
		if pod := &n.Pods[i]; Drains(pod) {
			all = append(all, n.until(why(pod, blocking, e.Now)))
		}
	}
	slices.SortFunc(all, byWords)
	return all
}

// until adds when the terminationGracePeriod of the node overrides what keeps a pod.
func (n *Node) until(c Cause) Cause {
	if overridden := c.Kind == v1alpha1.CauseBudget || c.Kind == v1alpha1.CauseDoNotDisrupt; n.Deadline.IsZero() || !overridden {
		return c
	}
	words := fmt.Sprintf(", until the node's terminationGracePeriod ends at %s", n.Deadline.UTC().Format(time.RFC3339))
	c.Words, c.Short = c.Words+words, c.Short+words
	return c
}

// notReplacedBecause returns why Karpenter does not replace a node: the pod that it waits for, if that is known,
// otherwise Karpenter's own message.
func (n *Node) notReplacedBecause(e Evidence) Cause {
	kept := slices.DeleteFunc(n.pods(e), func(c Cause) bool { return c.withoutReason() })
	if len(kept) > 0 {
		return kept[0]
	}
	for i := range slices.Backward(n.Events) {
		if blocksDrift(&n.Events[i]) && !n.isOutdated(&n.Events[i], e) {
			return Cause{Words: "Karpenter to replace it; Karpenter reports: " + quoted(&n.Events[i], e.Now)}
		}
	}
	return Cause{Words: "Karpenter to replace it"}
}

func byWords(a, b Cause) int { return cmp.Compare(a.Words, b.Words) }

// volumes names the volumes that are not detached, and explains it if the reason is that their driver was evicted
// from the node.
func (n *Node) volumes(sets plan.DaemonSets) Cause {
	var volumes []string
	evicted := map[string]bool{}
	for _, v := range n.Volumes {
		volume := v.Name
		if v.Spec.Source.PersistentVolumeName != nil {
			volume = fmt.Sprintf("%s (VolumeAttachment %s)", *v.Spec.Source.PersistentVolumeName, v.Name)
		}
		volumes = append(volumes, "volume "+volume+" to be detached by "+v.Spec.Attacher)
		for _, set := range sets.Intolerant() {
			if slices.Contains(set.Drivers, v.Spec.Attacher) {
				evicted[fmt.Sprintf("%s does not tolerate %s:NoSchedule, so none of its pods is left on the node to unmount the volume: %s",
					set, karpv1.DisruptedTaintKey, set.Patch())] = true
			}
		}
	}
	slices.Sort(volumes)
	words := finding.First(volumes)
	for _, why := range slices.Sorted(maps.Keys(evicted)) {
		words += "; " + why
	}
	return Cause{Words: words, Kind: v1alpha1.CauseVolume, Passing: len(evicted) == 0}
}

// deniedAction finds the action in AWS's message, and in the SDK's:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
var deniedAction = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)|operation error ([A-Za-z0-9]+): ([A-Za-z]+)`)

// actionOf returns the action that AWS's message reports as denied, otherwise the last one that the SDK names; empty if
// there is none.
func actionOf(message string) string {
	action := ""
	for _, found := range deniedAction.FindAllStringSubmatch(message, -1) {
		if found[1] != "" {
			return found[1]
		}
		action = strings.ToLower(found[2]) + ":" + found[3]
	}
	return action
}

// denied returns what AWS has denied to Karpenter, with the action that is missing in its role.
func (n *Node) denied() string {
	for i := range slices.Backward(n.Events) {
		message, _, _ := strings.Cut(n.Events[i].Message, " Encoded authorization failure message")
		for _, code := range []string{unauthorized, notPermitted, "AccessDenied", "not authorized to perform"} {
			if n.Events[i].Type != corev1.EventTypeWarning || !strings.Contains(message, code) {
				continue
			}
			if action := actionOf(message); action != "" && code != notPermitted {
				return fmt.Sprintf("%s; Karpenter's role does not allow %s", strings.TrimSuffix(message, "."), action)
			}
			return message
		}
	}
	return ""
}

const waitsFor = "waits for "

// WaitsMessage returns the last part of a message, which names what nodes wait for.
func WaitsMessage(all []string) string { return waitsFor + finding.Few(all, "; ") }

// JoinWaits joins another message with what nodes wait for. Either may be empty.
func JoinWaits(first, say string) string {
	if first == "" || say == "" {
		return first + say
	}
	return first + "; " + say
}

// WaitsIn returns the part of a message that names what nodes wait for; empty if there is none.
func WaitsIn(message string) string {
	if strings.HasPrefix(message, waitsFor) {
		return message
	}
	if i := strings.Index(message, "; "+waitsFor); i >= 0 {
		return message[i+len("; "):]
	}
	return ""
}

// disruptionBlocked is the reason of the event by which Karpenter reports why it does not replace a node
// (sigs.k8s.io/karpenter pkg/controllers/disruption/events/events.go).
const disruptionBlocked = "DisruptionBlocked"

// blocksDrift reports whether Karpenter reports in an event why it does not replace a node. Since 1.15.0, it reports in
// the same way why it does not repair an unhealthy one, for example because of the annotation karpenter.sh/do-not-repair
// (sigs.k8s.io/karpenter pkg/controllers/disruption/repair.go, ShouldDisrupt).
func blocksDrift(e *corev1.Event) bool {
	return e.Reason == disruptionBlocked && !strings.HasPrefix(e.Message, "repair ")
}

// repeatedWithin is the maximum age of a Karpenter event that still applies: Karpenter repeats it every two minutes
// while it applies (defaultDedupeTimeout in sigs.k8s.io/karpenter pkg/events/recorder.go), and needs some time to check
// all its nodes.
const repeatedWithin = 5 * time.Minute

// Karpenter reports one of these if the node does not exist yet, or is not initialized
// (sigs.k8s.io/karpenter pkg/controllers/state/statenode.go, ValidateNodeDisruptable).
const (
	noNode        = "does not have an associated node"
	uninitialized = "isn't initialized"
)

// budgetNamed finds the PodDisruptionBudget that a Karpenter event names
// (sigs.k8s.io/karpenter pkg/controllers/state/statenode.go, ValidatePodsDisruptable).
var budgetNamed = regexp.MustCompile(`PodDisruptionBudget=\[?([a-z0-9.-]+)/([a-z0-9.-]+)`)

// WhyNotDisrupted returns Karpenter's last report of why it does not replace a NodeClaim; empty if it has reported
// nothing since a time. hasNode reports whether the NodeClaim has a node. A PodDisruptionBudget that an event names is
// read again: the event is not quoted if the budget no longer exists, or allows a disruption.
func WhyNotDisrupted(ctx context.Context, reader client.Reader, nodeClaim string, hasNode bool, since, now time.Time) (string, error) {
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.name": nodeClaim}
	if err := reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), about); err != nil {
		return "", fmt.Errorf("read why NodeClaim/%s is not replaced: %w", nodeClaim, err)
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	for i := range slices.Backward(events.Items) {
		e := &events.Items[i]
		if !blocksDrift(e) || e.LastTimestamp.Time.Before(since) || hasNode && strings.Contains(e.Message, noNode) {
			continue
		}
		blocks, err := budgetBlocks(ctx, reader, e.Message)
		if err != nil {
			return "", fmt.Errorf("read why NodeClaim/%s is not replaced: %w", nodeClaim, err)
		}
		if blocks {
			return fmt.Sprintf("NodeClaim/%s: %s", nodeClaim, quoted(e, now)), nil
		}
	}
	return "", nil
}

// NamesBudget reports whether the text that WhyNotDisrupted returned names a PodDisruptionBudget as the reason.
func NamesBudget(words string) bool { return budgetNamed.MatchString(words) }

// budgetBlocks reports whether the PodDisruptionBudget that a message names allows no disruption; true if it names none.
func budgetBlocks(ctx context.Context, reader client.Reader, message string) (bool, error) {
	named := budgetNamed.FindStringSubmatch(message)
	if named == nil {
		return true, nil
	}
	budgets := &policyv1.PodDisruptionBudgetList{} // listed, as for a drain: the daemon has no permission to get one
	if err := reader.List(ctx, budgets, client.InNamespace(named[1])); err != nil {
		return false, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", named[1], err)
	}
	return Evidence{Budgets: budgets.Items}.blocks(named[1], named[2]), nil
}

// quoted returns an event's message, with its time if Karpenter has not repeated it recently and it may no longer
// apply.
func quoted(e *corev1.Event, now time.Time) string {
	message, at := strings.TrimSuffix(e.Message, "."), reportedAt(e)
	if at.IsZero() || now.Sub(at) <= repeatedWithin {
		return message
	}
	return fmt.Sprintf("%s (last reported at %s)", message, at.UTC().Format(time.RFC3339))
}

// reportedAt returns when an event was last reported; zero if the event does not contain a time.
func reportedAt(e *corev1.Event) time.Time { return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time) }

// isOutdated reports whether the report of an event about a node no longer applies.
func (n *Node) isOutdated(event *corev1.Event, e Evidence) bool {
	at := reportedAt(event)
	if named := budgetNamed.FindStringSubmatch(event.Message); named != nil && !e.blocks(named[1], named[2]) {
		return true
	}
	return !at.IsZero() && at.Before(n.Since) || n.Name != "" && strings.Contains(event.Message, noNode) ||
		n.Initialized && strings.Contains(event.Message, uninitialized)
}

// blocks reports whether a PodDisruptionBudget allows no disruption.
func (e Evidence) blocks(namespace, name string) bool {
	return slices.ContainsFunc(e.Budgets, func(b policyv1.PodDisruptionBudget) bool {
		return b.Namespace == namespace && b.Name == name && b.Status.DisruptionsAllowed == 0
	})
}
