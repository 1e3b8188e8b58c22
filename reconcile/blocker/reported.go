package blocker

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// disruptionBlocked is the reason of the event by which Karpenter reports why it does not replace a node
// (sigs.k8s.io/karpenter pkg/controllers/disruption/events/events.go).
const disruptionBlocked = "DisruptionBlocked"

// repeatedWithin is how old an event of Karpenter may be that still holds: it repeats one every two minutes while it is so
// (defaultDedupeTimeout in sigs.k8s.io/karpenter pkg/events/recorder.go), and passes over its nodes take a while.
const repeatedWithin = 5 * time.Minute

// notYet are what Karpenter reports of a node that is not there yet, or not initialized
// (sigs.k8s.io/karpenter pkg/controllers/state/statenode.go, ValidateNodeDisruptable).
const (
	noNode        = "does not have an associated node"
	uninitialized = "isn't initialized"
)

// budgetNamed finds the PodDisruptionBudget that an event of Karpenter names
// (sigs.k8s.io/karpenter pkg/controllers/state/statenode.go, ValidatePodsDisruptable).
var budgetNamed = regexp.MustCompile(`PodDisruptionBudget=\[?([a-z0-9.-]+)/([a-z0-9.-]+)`)

// WhyNotDisrupted reads what Karpenter reported last of why it does not replace a NodeClaim; empty if it has reported nothing
// since a time. hasNode reports whether it has a node. A PodDisruptionBudget that an event names is read again: one that is gone, or
// allows a disruption, is not quoted.
func WhyNotDisrupted(ctx context.Context, reader client.Reader, nodeClaim string, hasNode bool, since, now time.Time) (string, error) {
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.name": nodeClaim}
	if err := reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), about); err != nil {
		return "", fmt.Errorf("read why NodeClaim/%s is not replaced: %w", nodeClaim, err)
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	for i := range slices.Backward(events.Items) {
		e := &events.Items[i]
		if e.Reason != disruptionBlocked || e.LastTimestamp.Time.Before(since) || hasNode && strings.Contains(e.Message, noNode) {
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

// NamesBudget reports whether Karpenter gives a PodDisruptionBudget as the reason in what WhyNotDisrupted returned.
func NamesBudget(words string) bool { return budgetNamed.MatchString(words) }

// budgetBlocks reports whether the PodDisruptionBudget that a message names allows no disruption; true if it names none.
func budgetBlocks(ctx context.Context, reader client.Reader, message string) (bool, error) {
	named := budgetNamed.FindStringSubmatch(message)
	if named == nil {
		return true, nil
	}
	budgets := &policyv1.PodDisruptionBudgetList{} // listed, as for a drain: the daemon has no right to get one
	if err := reader.List(ctx, budgets, client.InNamespace(named[1])); err != nil {
		return false, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", named[1], err)
	}
	return Evidence{Budgets: budgets.Items}.blocks(named[1], named[2]), nil
}

// quoted is what an event says, with its time if Karpenter has not repeated it: that may not be so any more.
func quoted(e *corev1.Event, now time.Time) string {
	message, at := strings.TrimSuffix(e.Message, "."), reportedAt(e)
	if at.IsZero() || now.Sub(at) <= repeatedWithin {
		return message
	}
	return fmt.Sprintf("%s (reported at %s, and not since)", message, at.UTC().Format(time.RFC3339))
}

// reportedAt is when an event was reported last; zero if it does not tell.
func reportedAt(e *corev1.Event) time.Time { return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time) }

// over reports whether what an event reports of a node no longer holds.
func (n *Node) over(event *corev1.Event, e Evidence) bool {
	at := reportedAt(event)
	if named := budgetNamed.FindStringSubmatch(event.Message); named != nil && !e.blocks(named[1], named[2]) {
		return true
	}
	return !at.IsZero() && at.Before(n.Since) || n.Name != "" && strings.Contains(event.Message, noNode) || n.Initialized && strings.Contains(event.Message, uninitialized)
}

// blocks reports whether a PodDisruptionBudget allows no disruption.
func (e Evidence) blocks(namespace, name string) bool {
	return slices.ContainsFunc(e.Budgets, func(b policyv1.PodDisruptionBudget) bool {
		return b.Namespace == namespace && b.Name == name && b.Status.DisruptionsAllowed == 0
	})
}
