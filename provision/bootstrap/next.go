package bootstrap

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Action is what is done with a stack.
type Action string

// The values of Action.
const (
	// Create creates the stack, from a change set.
	Create Action = "Create"
	// Update compares the stack with the template, by a change set.
	Update Action = "Update"
	// Follow waits until the operation in progress has ended, and decides again.
	Follow Action = "Follow"
	// Recreate deletes what a failed creation has left, and creates the stack again.
	Recreate Action = "Recreate"
	// Continue lets a failed rollback of an update continue, and decides again.
	Continue Action = "Continue"
	// Delete deletes the stack.
	Delete Action = "Delete"
	// Nothing is left to do.
	Nothing Action = "Nothing"
	// Refuse leaves the stack as it is.
	Refuse Action = "Refuse"
)

// Next decides what a bootstrap does with a stack, nil if it does not exist, and why if that is not obvious. The states are
// those of https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html#cfn-console-view-stack-data-resources-status-codes
func Next(stack *cloud.Stack, failure string) (action Action, why string) {
	because := ""
	if failure != "" {
		because = ": " + failure
	}
	switch {
	case stack == nil || stack.Status == "DELETE_COMPLETE":
		return Create, ""
	case stack.Status == "REVIEW_IN_PROGRESS":
		return Create, "" // it has a change set that was never executed, and no resources
	case strings.HasSuffix(stack.Status, "_IN_PROGRESS"):
		return Follow, fmt.Sprintf("another operation changes the stack %s (%s)", stack.Name, stack.Status)
	}
	switch stack.Status {
	case "CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE":
		return Update, ""
	case "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED":
		return Recreate, fmt.Sprintf("an earlier creation of the stack failed%s; what is left of the stack is deleted, and it is created again",
			because)
	case "UPDATE_ROLLBACK_FAILED":
		return Continue, fmt.Sprintf("an earlier update failed, and could not be rolled back%s; the rollback is continued first", because)
	case "UPDATE_FAILED":
		return Update, ""
	case "DELETE_FAILED":
		return Refuse, fmt.Sprintf("an earlier deletion failed%s; complete it with --undo", because)
	}
	return Refuse, fmt.Sprintf("plumbline does not know the state %s of the stack %s", stack.Status, stack.Name)
}

// NextOfUndo decides what the deletion of a stack does next.
func NextOfUndo(stack *cloud.Stack) (action Action, why string) {
	switch {
	case stack == nil || stack.Status == "DELETE_COMPLETE":
		return Nothing, ""
	case stack.Status == "REVIEW_IN_PROGRESS":
		return Delete, ""
	case strings.HasSuffix(stack.Status, "_IN_PROGRESS"):
		return Follow, fmt.Sprintf("another operation changes the stack %s (%s)", stack.Name, stack.Status)
	}
	return Delete, ""
}

// Empty reports whether nothing of a stack exists: names that its template has are not in use by it.
func Empty(stack *cloud.Stack) bool {
	if stack == nil {
		return true
	}
	switch stack.Status {
	case "DELETE_COMPLETE", "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE":
		return true
	}
	return false
}

// Failed reports whether an operation in progress has ended with an error, by the stack's state after it.
func Failed(status string) bool {
	return strings.HasSuffix(status, "_FAILED") || strings.HasSuffix(status, "ROLLBACK_COMPLETE")
}

// Failure returns why an operation failed: the first event of a resource that AWS refused. Resources that were cancelled
// because another one failed are not the reason. Empty if no event has one. The events are the newest first.
func Failure(events []cloud.StackEvent) string {
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		if strings.HasSuffix(e.Status, "_FAILED") && !strings.Contains(e.Reason, "cancelled") && e.Reason != "" && !e.OfStack() {
			return fmt.Sprintf("%s %s: %s", kindOf(e.Type), nameOr(e.Name, e.ID), e.Reason)
		}
	}
	return ""
}

func nameOr(name, id string) string {
	if name == "" {
		return id
	}
	return name[strings.LastIndex(name, "/")+1:]
}

// Words returns an event in words: creating IAM::Role KarpenterNodeRole-prod. It is empty for one that tells nothing new.
func Words(e cloud.StackEvent) string {
	verb, known := verbs[e.Status]
	if e.OfStack() {
		return strings.TrimSpace("stack: " + strings.ToLower(strings.ReplaceAll(e.Status, "_", " ")) + reasonOf(e))
	}
	if !known {
		verb = strings.ToLower(strings.ReplaceAll(e.Status, "_", " "))
	}
	if e.Status == "CREATE_IN_PROGRESS" && e.Name != "" && e.Reason == "Resource creation Initiated" {
		return "" // a second event of the same creation
	}
	return fmt.Sprintf("%s %s %s%s", verb, kindOf(e.Type), nameOr(e.Name, e.ID), reasonOf(e))
}

var verbs = map[string]string{
	"CREATE_IN_PROGRESS": "creating", "CREATE_COMPLETE": "created", "CREATE_FAILED": "could not create",
	"UPDATE_IN_PROGRESS": "changing", "UPDATE_COMPLETE": "changed", "UPDATE_FAILED": "could not change",
	"DELETE_IN_PROGRESS": "deleting", "DELETE_COMPLETE": "deleted", "DELETE_FAILED": "could not delete", "DELETE_SKIPPED": "kept",
	"IMPORT_IN_PROGRESS": "importing", "IMPORT_COMPLETE": "imported", "IMPORT_FAILED": "could not import",
}

func reasonOf(e cloud.StackEvent) string {
	if e.Reason == "" || !strings.HasSuffix(e.Status, "_FAILED") {
		return ""
	}
	return ": " + e.Reason
}
