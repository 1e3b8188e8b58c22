package deploy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// AWS is CloudFormation.
type AWS interface {
	Stack(ctx context.Context, name string) (*cloud.Stack, error)
	StackTemplate(ctx context.Context, name string) (string, error)
	StackEvents(ctx context.Context, stack, after string) ([]cloud.StackEvent, error)
	ChangeSet(ctx context.Context, stack, id string) (cloud.ChangeSet, error)
	CreateChangeSet(ctx context.Context, r cloud.ChangeSetRequest) (id string, err error)
	ExecuteChangeSet(ctx context.Context, stack, id, token string) error
	DeleteChangeSet(ctx context.Context, stack, id string) error
	DeleteStack(ctx context.Context, stack, token string) error
	ContinueRollback(ctx context.Context, stack, token string) error
}

// Deployer changes one stack.
type Deployer struct {
	AWS AWS
	// Stack is its name. Token begins the tokens of this run in the stack's events: letters, digits and hyphens, at most 100.
	Stack, Token string
	// Say prints progress.
	Say func(what string)
	// Wait waits until the next query.
	Wait func(ctx context.Context) error
}

// lostFor is how many queries in a row may fail while a stack is followed: CloudFormation continues without its caller.
const lostFor = 60

// Plan is what would change.
type Plan struct {
	// Kind is CREATE, UPDATE or IMPORT; empty if there is nothing to do.
	Kind    string
	Changes []cloud.StackChange
	// Before and After are the templates.
	Before, After bootstrap.Template
	id            string
	// made reports whether the change set has created the stack, in REVIEW_IN_PROGRESS.
	made bool
}

// FailedError reports that a stack could not be changed, and what AWS refused.
type FailedError struct {
	Stack, Status string
	// Cause is the resource and AWS's words.
	Cause string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("stack %s is %s: %s", e.Stack, e.Status, e.Cause)
}

// Denied reports whether AWS denied an action to the caller, or to CloudFormation on behalf of the caller, or did while a
// stack was changed.
func Denied(err error) bool {
	var denied *cloud.DeniedError
	var failed *FailedError
	if errors.As(err, &failed) {
		for _, words := range []string{"not authorized", "AccessDenied", "Access denied", "UnauthorizedOperation"} {
			if strings.Contains(failed.Cause, words) {
				return true
			}
		}
	}
	return errors.As(err, &denied)
}

// ConflictError reports that another client has changed the stack since the plan.
type ConflictError struct{ Err error }

func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap returns CloudFormation's error.
func (e *ConflictError) Unwrap() error { return e.Err }

// Current returns the stack and its template. The template is empty if nothing of the stack exists.
func (d *Deployer) Current(ctx context.Context) (*cloud.Stack, bootstrap.Template, error) {
	stack, err := d.AWS.Stack(ctx, d.Stack)
	if err != nil || bootstrap.Empty(stack) {
		return stack, bootstrap.Template{}, err
	}
	text, err := d.AWS.StackTemplate(ctx, d.Stack)
	if err != nil {
		return stack, bootstrap.Template{}, err
	}
	template, err := bootstrap.Parse(text)
	return stack, template, err
}

// Failure returns why the last operation on a stack failed, in AWS's words; empty if no event tells it.
func (d *Deployer) Failure(ctx context.Context, stack *cloud.Stack) (string, error) {
	if stack == nil || !bootstrap.Failed(stack.Status) {
		return "", nil
	}
	events, err := d.AWS.StackEvents(ctx, stack.ID, "")
	return bootstrap.Failure(events), err
}

// Plan computes what a template changes in a stack that is at rest, by a change set that Execute executes. A stack with this
// template has no changes, and no change set is needed to know that. Errors: *ConflictError if another client was first.
func (d *Deployer) Plan(ctx context.Context, stack *cloud.Stack, before, want bootstrap.Template) (Plan, error) {
	p := Plan{Before: before, After: want, made: stack == nil}
	same, err := equal(before, want)
	if err != nil || same {
		return p, err
	}
	token := d.token()
	request := cloud.ChangeSetRequest{
		Stack: d.Stack, Name: token, Kind: "UPDATE", Token: token, Tags: map[string]string{bootstrap.Tag: d.Stack},
	}
	if bootstrap.Empty(stack) {
		request.Kind = "CREATE"
		if imported := want.Import(); len(imported.Resources) > 0 {
			request.Kind, p.After = "IMPORT", imported
			request.Import = imports(imported)
		}
	}
	text, err := p.After.JSON()
	if err != nil {
		return p, err
	}
	request.Template = string(text)
	if p.id, err = d.AWS.CreateChangeSet(ctx, request); err != nil {
		return p, conflict(err)
	}
	p.Kind = request.Kind
	for {
		set, err := d.AWS.ChangeSet(ctx, d.Stack, p.id)
		switch {
		case err != nil && !passes(err):
			return p, conflict(err) // another run has created the stack by its own
		case err != nil || set.Pending():
			if err := d.Wait(ctx); err != nil {
				return p, err
			}
		case set.Empty():
			p.Kind = ""
			return p, d.AWS.DeleteChangeSet(ctx, d.Stack, p.id)
		case set.Status == "FAILED":
			return p, errors.Join(&FailedError{Stack: d.Stack, Status: "unchanged: the change set failed", Cause: set.Reason}, d.Discard(ctx, p))
		default:
			p.Changes = set.Changes
			return p, nil
		}
	}
}

// token returns one for a single request: CloudFormation takes a request with a token that it knows for a repetition.
func (d *Deployer) token() string { return d.Token + "-" + strings.ToLower(rand.Text()[:8]) }

func equal(a, b bootstrap.Template) (bool, error) {
	first, err := a.YAML()
	if err != nil {
		return false, err
	}
	second, err := b.YAML()
	return string(first) == string(second), err
}

func imports(t bootstrap.Template) []cloud.ImportedResource {
	var all []cloud.ImportedResource
	for id, name := range t.NamesIn() {
		all = append(all, cloud.ImportedResource{ID: id, Type: t.Resources[id].Type, Identifier: map[string]string{"RoleName": name}})
	}
	return all
}

// conflict gives its type to an error by which CloudFormation refuses a request because the stack is in another state than
// before: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ExecuteChangeSet.html#API_ExecuteChangeSet_Errors
func conflict(err error) error {
	var answer *cloud.AnswerError
	if !errors.As(err, &answer) {
		return err
	}
	switch {
	case slices.Contains([]string{"InvalidChangeSetStatus", "ChangeSetNotFound", "AlreadyExistsException"}, answer.Code),
		answer.Code == "ValidationError" && strings.Contains(answer.Detail, "_IN_PROGRESS"):
		return &ConflictError{err}
	}
	return err
}

// passes reports whether an error passes by itself.
func passes(err error) bool {
	var throttled *cloud.ThrottledError
	var unreachable *cloud.UnreachableError
	return errors.As(err, &throttled) || errors.As(err, &unreachable)
}

// Discard deletes the change set of a plan that is not executed, and the stack if only the change set has created it.
func (d *Deployer) Discard(ctx context.Context, p Plan) error {
	if p.Kind == "" {
		return nil
	}
	if err := d.AWS.DeleteChangeSet(ctx, d.Stack, p.id); err != nil || !p.made {
		return err
	}
	stack, err := d.AWS.Stack(ctx, d.Stack)
	if err != nil || stack == nil || stack.Status != "REVIEW_IN_PROGRESS" {
		return err // another run has continued with it
	}
	return d.AWS.DeleteStack(ctx, d.Stack, d.token())
}

// Execute executes a plan, and follows the stack until it is done. Errors: *ConflictError if another client was first,
// *FailedError if AWS refused a resource.
func (d *Deployer) Execute(ctx context.Context, p Plan) error {
	after, err := d.last(ctx, d.Stack)
	if err != nil {
		return err
	}
	if err := d.AWS.ExecuteChangeSet(ctx, d.Stack, p.id, d.token()); err != nil {
		return conflict(err)
	}
	_, err = d.follow(ctx, after, true)
	return err
}

// last returns the newest event of a stack; empty if it has none.
func (d *Deployer) last(ctx context.Context, stack string) (string, error) {
	events, err := d.AWS.StackEvents(ctx, stack, "")
	if err != nil || len(events) == 0 {
		return "", err
	}
	return events[0].Event, nil
}

// Owner returns who started the operation on a stack that is in progress: the token of its newest event; empty if it has
// none, or the run's own.
func (d *Deployer) Owner(ctx context.Context) string {
	events, err := d.AWS.StackEvents(ctx, d.Stack, "")
	if err != nil || len(events) == 0 || strings.HasPrefix(events[0].Token, d.Token) {
		return ""
	}
	return events[0].Token
}

// Follow prints the events of a stack after one, until no operation on it is in progress. It returns the stack, or nil once
// it is deleted. Errors: *FailedError if the operation failed.
func (d *Deployer) Follow(ctx context.Context, after string) (*cloud.Stack, error) {
	return d.follow(ctx, after, false)
}

// follow is Follow. With started it waits for an event of the operation first: a stack may be in its earlier state for a
// moment after the request.
func (d *Deployer) follow(ctx context.Context, after string, started bool) (*cloud.Stack, error) {
	id, lost := d.Stack, 0
	for queries := 1; ; queries++ {
		stack, err := d.AWS.Stack(ctx, id)
		var events []cloud.StackEvent
		if err == nil && stack != nil {
			id = stack.ID
			events, err = d.AWS.StackEvents(ctx, id, after)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && passes(err) && lost < lostFor:
			lost++
		case err != nil:
			return nil, err
		case stack == nil:
			return nil, nil
		default:
			lost = 0
			after = d.print(events, after)
			started = started && len(events) == 0 && queries < lostFor
			if !started && atRest(stack) {
				return d.ended(ctx, stack)
			}
		}
		if err := d.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// atRest reports whether no operation on a stack is in progress.
func atRest(stack *cloud.Stack) bool {
	return !strings.HasSuffix(stack.Status, "_IN_PROGRESS") || stack.Status == "REVIEW_IN_PROGRESS"
}

// print prints events, the oldest first, and returns the newest.
func (d *Deployer) print(events []cloud.StackEvent, after string) string {
	for i := len(events) - 1; i >= 0; i-- {
		if words := bootstrap.Words(events[i]); words != "" {
			d.Say(words)
		}
		after = events[i].Event
	}
	return after
}

// ended returns a stack at rest; nil if it was deleted.
func (d *Deployer) ended(ctx context.Context, stack *cloud.Stack) (*cloud.Stack, error) {
	if stack.Status == "DELETE_COMPLETE" {
		return nil, nil
	}
	if !bootstrap.Failed(stack.Status) {
		return stack, nil
	}
	cause, err := d.Failure(ctx, stack)
	if err != nil || cause == "" {
		cause = stack.Reason
	}
	return stack, &FailedError{Stack: d.Stack, Status: stack.Status, Cause: cause}
}

// Delete deletes the stack, and follows it until it is gone.
func (d *Deployer) Delete(ctx context.Context, stack *cloud.Stack) error {
	after, err := d.last(ctx, stack.ID)
	if err != nil {
		return err
	}
	if err := d.AWS.DeleteStack(ctx, d.Stack, d.token()); err != nil {
		return conflict(err)
	}
	inProgress := &Deployer{AWS: d.AWS, Stack: stack.ID, Token: d.Token, Say: d.Say, Wait: d.Wait}
	_, err = inProgress.follow(ctx, after, true)
	return err
}

// Continue continues a rollback that failed, and follows it. Errors: *FailedError if it fails again.
func (d *Deployer) Continue(ctx context.Context, stack *cloud.Stack) error {
	after, err := d.last(ctx, stack.ID)
	if err != nil {
		return err
	}
	if err := d.AWS.ContinueRollback(ctx, d.Stack, d.token()); err != nil {
		return conflict(err)
	}
	next, err := d.follow(ctx, after, true)
	if next != nil && next.Status == "UPDATE_ROLLBACK_COMPLETE" {
		return nil // that is what was wanted
	}
	return err
}
