package awssim_test

import (
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestStackLikeMoto uses one client for the simulator and for moto, whose CloudFormation is another project's: both
// respond the same.
func TestStackLikeMoto(t *testing.T) {
	t.Run("simulator", func(t *testing.T) { lifecycle(t, newStacks(t, awssim.Options{}, "tester")) })
	t.Run("moto", func(t *testing.T) {
		program, err := exec.LookPath("moto_server")
		if err != nil {
			t.Skip("moto_server is not on PATH: pip install 'moto[server]'")
		}
		lifecycle(t, startMoto(t, program).stacks("tester"))
	})
}

// startMoto serves moto until the test ends.
func startMoto(t *testing.T, program string) *account {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	noError(t, err)
	address := listener.Addr().String()
	noError(t, listener.Close())
	_, port, err := net.SplitHostPort(address)
	noError(t, err)
	server := exec.CommandContext(t.Context(), program, "-H", "127.0.0.1", "-p", port) // the end of the context kills it
	noError(t, server.Start())
	t.Cleanup(func() { _ = server.Wait() }) // killed, which is its only end
	within(t, time.Minute, "moto's start", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/moto-api/data.json", nil)
		noError(t, err)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		noError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	return &account{url: "http://" + address}
}

// lifecycle creates, changes and deletes a stack.
func lifecycle(t *testing.T, s *stacks) {
	t.Helper()
	_, err := s.client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String(stackName)})
	denial(t, err, "ValidationError", "Stack with id plumbline-prod does not exist")
	names := []string{"NodeRole", "Profile", "Policy", "Controller", "Queue", "Rule"}
	first := only(t, nil, names...)
	set := s.changeSet(t, types.ChangeSetTypeCreate, first)
	if len(set.Changes) != len(names) || set.ExecutionStatus != types.ExecutionStatusAvailable {
		t.Errorf("%d changes, %s; want %d that can be executed", len(set.Changes), set.ExecutionStatus, len(names))
	}
	if got := s.stack(t, stackName).StackStatus; got != types.StackStatusReviewInProgress {
		t.Errorf("the stack is %s before the execution", got)
	}
	if got := s.execute(t, set); got != types.StackStatusCreateComplete {
		t.Fatalf("the stack is %s", got)
	}
	if diff := cmp.Diff(s.tags, s.stack(t, stackName).Tags, cmp.Comparer(func(x,
		y types.Tag,
	) bool {
		return *x.Key == *y.Key && *x.Value == *y.Value
	})); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	wantEvents := []string{"plumbline-prod REVIEW_IN_PROGRESS", "plumbline-prod CREATE_IN_PROGRESS", "plumbline-prod CREATE_COMPLETE"}
	var events []string
	for _, want := range wantEvents {
		for _, e := range find(s.events(t, stackName), want) {
			events = append(events, e[:len(want)])
		}
	}
	if diff := cmp.Diff(wantEvents, events); diff != "" {
		t.Errorf("events of the stack (-want +got):\n%s", diff)
	}
	template, err := s.client.GetTemplate(t.Context(), &cloudformation.GetTemplateInput{StackName: aws.String(stackName)})
	noError(t, err)
	if *template.TemplateBody != first {
		t.Errorf("template = %s", *template.TemplateBody)
	}

	empty := s.changeSet(t, types.ChangeSetTypeUpdate, first)
	if want := "The submitted information didn't contain changes. Submit different information to create a change set."; empty.Status != types.ChangeSetStatusFailed || aws.ToString(empty.StatusReason) != want {
		t.Errorf("change set without changes is %s: %s", empty.Status, aws.ToString(empty.StatusReason))
	}
	_, err = s.client.DeleteChangeSet(t.Context(), &cloudformation.DeleteChangeSetInput{
		ChangeSetName: empty.ChangeSetId,
		StackName:     aws.String(stackName),
	})
	noError(t, err)
	next := s.changeSet(t, types.ChangeSetTypeUpdate, only(t, func(resources map[string]any) {
		properties(t, resources,
			"Controller")["Description"] = "changed"
	}, names...))
	if len(next.Changes) != 1 || next.Changes[0].ResourceChange.Action != types.ChangeActionModify || *next.Changes[0].ResourceChange.LogicalResourceId != "Controller" {
		t.Errorf("changes = %v, want that of the role", next.Changes)
	}
	if got := s.execute(t, next); got != types.StackStatusUpdateComplete {
		t.Fatalf("the stack is %s", got)
	}
	roles := iam.NewFromConfig(s.config("tester"))
	role, err := roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("Controller-prod")})
	noError(t, err)
	if got := aws.ToString(role.Role.Description); got != "changed" {
		t.Errorf("description of the role = %q", got)
	}
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s", got)
	}
	_, err = roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("Controller-prod")})
	wantCode(t, err, "NoSuchEntity")
}
