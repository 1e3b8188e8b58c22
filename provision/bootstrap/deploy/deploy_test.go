package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/manifests"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// fake is CloudFormation with one stack, whose operations take two queries.
type fake struct {
	stack    *cloud.Stack
	template string
	events   []cloud.StackEvent
	// sets are change sets by ID: their templates.
	sets map[string]string
	// next is the state that the operation in progress ends in, after left more queries, and failure why it fails.
	next, failure string
	left          int
	// fails are errors by method, and calls the methods that were called.
	fails map[string]error
	calls []string
	kinds []string
}

func (f *fake) call(name string) error {
	f.calls = append(f.calls, name)
	return f.fails[name]
}

func (f *fake) start(status, next string) {
	f.stack.Status, f.next, f.left = status, next, 2
	f.event("AWS::CloudFormation::Stack", status, "")
}

func (f *fake) event(kind, status, reason string) {
	e := cloud.StackEvent{Event: fmt.Sprint(len(f.events)), ID: "KarpenterNodeRole", Name: "KarpenterNodeRole-production", Type: kind, Status: status, Reason: reason, Token: "other"}
	f.events = append([]cloud.StackEvent{e}, f.events...)
}

func (f *fake) Stack(context.Context, string) (*cloud.Stack, error) {
	if err := f.call("Stack"); err != nil {
		delete(f.fails, "Stack")
		return nil, err
	}
	if f.next != "" {
		if f.left--; f.left == 0 {
			if f.failure != "" {
				f.event("AWS::IAM::Role", "CREATE_FAILED", f.failure)
			} else {
				f.event("AWS::IAM::Role", "CREATE_COMPLETE", "")
			}
			f.stack.Status, f.next = f.next, ""
		}
	}
	if f.stack == nil {
		return nil, nil
	}
	is := *f.stack
	return &is, nil
}

func (f *fake) StackTemplate(context.Context, string) (string, error) {
	return f.template, f.call("StackTemplate")
}

func (f *fake) StackEvents(_ context.Context, _, after string) ([]cloud.StackEvent, error) {
	for i, e := range f.events {
		if e.Event == after {
			return f.events[:i], nil
		}
	}
	return f.events, nil
}

func (f *fake) ChangeSet(_ context.Context, _, id string) (cloud.ChangeSet, error) {
	if err := f.call("ChangeSet"); err != nil {
		return cloud.ChangeSet{}, err
	}
	if f.sets[id] == f.template {
		return cloud.ChangeSet{Status: "FAILED", Reason: "The submitted information didn't contain changes."}, nil
	}
	return cloud.ChangeSet{ID: id, Status: "CREATE_COMPLETE", Changes: []cloud.StackChange{{Action: "Add", ID: "KarpenterNodeRole"}}}, nil
}

func (f *fake) CreateChangeSet(_ context.Context, r cloud.ChangeSetRequest) (string, error) {
	if err := f.call("CreateChangeSet"); err != nil {
		return "", err
	}
	if f.sets[r.Name] != "" {
		return "", &cloud.AnswerError{Code: "IdempotentParameterMismatch"}
	}
	f.kinds = append(f.kinds, r.Kind)
	if f.stack == nil {
		f.stack = &cloud.Stack{Name: r.Stack, ID: "id", Status: "REVIEW_IN_PROGRESS"}
	}
	f.sets[r.Name] = r.Template
	return r.Name, nil
}

func (f *fake) ExecuteChangeSet(_ context.Context, _, id, _ string) error {
	if err := f.call("ExecuteChangeSet"); err != nil {
		return err
	}
	kind := f.kinds[len(f.kinds)-1]
	next := kind + "_COMPLETE"
	if f.failure != "" {
		next = "ROLLBACK_COMPLETE"
	} else {
		f.template = f.sets[id]
	}
	f.start(kind+"_IN_PROGRESS", next)
	return nil
}

func (f *fake) DeleteChangeSet(context.Context, string, string) error {
	return f.call("DeleteChangeSet")
}

func (f *fake) DeleteStack(context.Context, string, string) error {
	if err := f.call("DeleteStack"); err != nil {
		return err
	}
	f.start("DELETE_IN_PROGRESS", "DELETE_COMPLETE")
	return nil
}

func (f *fake) ContinueRollback(context.Context, string, string) error {
	if err := f.call("ContinueRollback"); err != nil {
		return err
	}
	f.start("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE")
	return nil
}

func deployer(f *fake) (*Deployer, *[]string) {
	f.sets = map[string]string{}
	var said []string
	return &Deployer{
		AWS: f, Stack: "plumbline-production", Token: "run", Say: func(what string) { said = append(said, what) },
		Wait: func(ctx context.Context) error { return ctx.Err() },
	}, &said
}

func template(version string) bootstrap.Template {
	return bootstrap.Template{
		Resources: map[string]bootstrap.Resource{bootstrap.NodeRole: {Type: "AWS::IAM::Role", Properties: map[string]any{"RoleName": version}}},
	}
}

// run plans and executes a template once.
func run(t *testing.T, d *Deployer, want bootstrap.Template) (Plan, error) {
	t.Helper()
	stack, before, err := d.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := d.Plan(t.Context(), stack, before, want)
	if err != nil || plan.Kind == "" {
		return plan, err
	}
	return plan, d.Execute(t.Context(), plan)
}

func TestCreateThenNothing(t *testing.T) {
	f := &fake{}
	d, said := deployer(f)
	if _, err := run(t, d, template("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"stack: create in progress", "created IAM::Role KarpenterNodeRole-production"}, *said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	f.calls = nil
	plan, err := run(t, d, template("a"))
	if err != nil || plan.Kind != "" {
		t.Errorf("again: %+v, %v", plan, err)
	}
	for _, call := range f.calls {
		if call != "Stack" && call != "StackTemplate" {
			t.Errorf("a stack that is up to date: %s", call)
		}
	}
	if _, err := run(t, d, template("b")); err != nil || f.kinds[1] != "UPDATE" {
		t.Errorf("update: %v, %v", f.kinds, err)
	}
}

// TestDenied: a refusal is named with the resource, whether at the request or while the stack is created.
func TestDenied(t *testing.T) {
	f := &fake{failure: "User: arn:aws:iam::1:user/a is not authorized to perform: iam:CreateRole"}
	d, _ := deployer(f)
	_, err := run(t, d, template("a"))
	var failed *FailedError
	if !errors.As(err, &failed) || !Denied(err) || !strings.Contains(failed.Cause, "IAM::Role KarpenterNodeRole-production: User") {
		t.Errorf("got %v", err)
	}
	if stack, before, err := d.Current(t.Context()); err != nil || len(before.Resources) > 0 || stack.Status != "ROLLBACK_COMPLETE" {
		t.Errorf("after a failed creation: %+v, %v, %v", stack, before, err)
	}
	f = &fake{fails: map[string]error{"CreateChangeSet": &cloud.DeniedError{Action: "cloudformation:CreateChangeSet"}}}
	d, _ = deployer(f)
	if _, err := run(t, d, template("a")); !Denied(err) {
		t.Errorf("got %v", err)
	}
}

// TestConflict: a change set that another run made obsolete is reported as such.
func TestConflict(t *testing.T) {
	var f *fake
	var d *Deployer
	for request, code := range map[string]string{"ChangeSet": "ChangeSetNotFound", "ExecuteChangeSet": "InvalidChangeSetStatus"} {
		f = &fake{fails: map[string]error{request: &cloud.AnswerError{Code: code}}}
		d, _ = deployer(f)
		_, err := run(t, d, template("a"))
		var conflict *ConflictError
		if !errors.As(err, &conflict) || Denied(err) {
			t.Errorf("%s: got %v", request, err)
		}
	}
	f.event("AWS::CloudFormation::Stack", "CREATE_IN_PROGRESS", "")
	if got := d.Owner(t.Context()); got != "other" {
		t.Errorf("owner %q", got)
	}
}

// TestFollowSurvivesThrottling: CloudFormation continues while it cannot be queried.
func TestFollowSurvivesThrottling(t *testing.T) {
	f := &fake{stack: &cloud.Stack{ID: "id"}}
	d, _ := deployer(f)
	f.start("CREATE_IN_PROGRESS", "CREATE_COMPLETE")
	f.fails = map[string]error{"Stack": &cloud.ThrottledError{}}
	if stack, err := d.Follow(t.Context(), ""); err != nil || stack.Status != "CREATE_COMPLETE" {
		t.Errorf("%+v, %v", stack, err)
	}
}

// TestInterrupted: a run that stops leaves the operation to CloudFormation, and the next one follows it to its end.
func TestInterrupted(t *testing.T) {
	f := &fake{}
	d, _ := deployer(f)
	ctx, stop := context.WithCancel(t.Context())
	d.Wait = func(context.Context) error { stop(); return ctx.Err() }
	plan, err := d.Plan(ctx, nil, bootstrap.Template{}, template("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Execute(ctx, plan); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	second, _ := deployer(f)
	if stack, err := second.Follow(t.Context(), ""); err != nil || stack.Status != "CREATE_COMPLETE" {
		t.Errorf("%+v, %v", stack, err)
	}
	if plan, err := run(t, second, template("a")); err != nil || plan.Kind != "" {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestImportComesFirst(t *testing.T) {
	f := &fake{}
	d, _ := deployer(f)
	want := template("a")
	role := want.Resources[bootstrap.NodeRole]
	role.DeletionPolicy = "Retain"
	want.Resources[bootstrap.NodeRole] = role
	want.Resources[bootstrap.Queue] = bootstrap.Resource{Type: "AWS::SQS::Queue"}
	for range 2 {
		if _, err := run(t, d, want); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"IMPORT", "UPDATE"}, f.kinds); diff != "" {
		t.Errorf("change sets (-want +got):\n%s", diff)
	}
}

func TestDiscard(t *testing.T) {
	f := &fake{}
	d, _ := deployer(f)
	plan, err := d.Plan(t.Context(), nil, bootstrap.Template{}, template("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(t.Context(), plan); err != nil || f.stack.Status != "DELETE_IN_PROGRESS" {
		t.Errorf("%+v, %v: a stack that only the plan has created stays", f.stack, err)
	}
}

func TestDeleteAndContinue(t *testing.T) {
	f := &fake{stack: &cloud.Stack{ID: "id", Status: "UPDATE_ROLLBACK_FAILED"}}
	d, _ := deployer(f)
	if err := d.Continue(t.Context(), f.stack); err != nil || f.stack.Status != "UPDATE_ROLLBACK_COMPLETE" {
		t.Errorf("continue: %+v, %v", f.stack, err)
	}
	if err := d.Delete(t.Context(), f.stack); err != nil || f.stack.Status != "DELETE_COMPLETE" {
		t.Errorf("delete: %+v, %v", f.stack, err)
	}
}

// owned is an account in which another tool has created a role of nodes with an access entry, and a queue.
type owned struct{ Account }

func (owned) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{Account: "111122223333"}, nil
}

func (owned) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{Name: "production", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/production", AuthenticationMode: "API"}, nil
}

func (owned) Addons(context.Context, string) ([]cloud.Addon, error) {
	return []cloud.Addon{{Name: cloud.PodIdentityAgent}}, nil
}

func (owned) Association(context.Context, string, string, string) (*cloud.Association, error) {
	return nil, nil
}

func (owned) AccessEntry(_ context.Context, _, arn string) (*cloud.AccessEntry, error) {
	return &cloud.AccessEntry{RoleARN: arn}, nil
}

func (owned) NodeRole(_ context.Context, name string) (cloud.Role, error) {
	if name != "KarpenterNodeRole-production" {
		return cloud.Role{}, &cloud.NotFoundError{}
	}
	return cloud.Role{ARN: "arn:aws:iam::111122223333:role/" + name}, nil
}

func (owned) ProfileRoles(context.Context, string) ([]string, error) {
	return nil, &cloud.NotFoundError{}
}

func (owned) Queue(context.Context, string) (cloud.Queue, error) { return cloud.Queue{}, nil }

func (owned) HasPolicy(context.Context, string) (bool, error) { return false, nil }

// TestReadFindsWhatTheStackLacks: as long as the stack does not have a resource, as between an import and the creation of the
// others, its name may be taken; what the stack has is not looked for.
func TestReadFindsWhatTheStackLacks(t *testing.T) {
	wish := bootstrap.Wish{Region: "eu-west-1", Version: "1.15.0", Daemon: iam.Template{Prefix: "PlumblinePolicy-", Text: manifests.DaemonPolicy}}
	f := &fake{}
	d, _ := deployer(f)
	facts, err := d.Read(t.Context(), owned{}, "production", wish)
	if err != nil || facts.Found[bootstrap.NodeRole] == nil || len(facts.Found) != 2 || !facts.Entry {
		t.Errorf("new: %+v, %v", facts.Found, err)
	}
	f.stack = &cloud.Stack{ID: "id", Status: "IMPORT_COMPLETE"}
	f.template = `{"Resources":{"KarpenterNodeRole":{"Type":"AWS::IAM::Role","DeletionPolicy":"Retain","Properties":{"RoleName":"KarpenterNodeRole-production"}}}}`
	facts, err = d.Read(t.Context(), owned{}, "production", wish)
	if _, queue := facts.Found[bootstrap.Queue]; err != nil || !queue || len(facts.Found) != 1 || !facts.Entry {
		t.Errorf("imported: %+v, %v", facts.Found, err)
	}
}
