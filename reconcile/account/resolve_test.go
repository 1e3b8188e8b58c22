package account

import (
	"context"
	"errors"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// resolutionAWS is an account that denies subnets, and records the queries.
type resolutionAWS struct {
	asked []string
	query cloud.Query
	limit time.Duration
	// gone is why EC2 returns no instance, and refused why Karpenter resolves no alias.
	gone, refused error
}

func (a *resolutionAWS) note(ctx context.Context, what string) {
	a.asked = append(a.asked, what)
	if until, ok := ctx.Deadline(); ok {
		a.limit = time.Until(until)
	}
}

func (a *resolutionAWS) AMIs(ctx context.Context, _ *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error) {
	a.note(ctx, "AMIs "+kubernetes)
	return []awsv1.AMI{{ID: "ami-1"}}, a.refused
}

func (a *resolutionAWS) Subnets(ctx context.Context, _ *awsv1.EC2NodeClass) ([]string, error) {
	a.note(ctx, "subnets")
	return nil, &cloud.DeniedError{Action: "ec2:DescribeSubnets", Detail: "no policy", Resource: "*"}
}

func (a *resolutionAWS) SecurityGroups(ctx context.Context, _ *awsv1.EC2NodeClass) ([]string, error) {
	a.note(ctx, "groups")
	return []string{"sg-1"}, nil
}

func (a *resolutionAWS) Reservations(ctx context.Context, _ *awsv1.EC2NodeClass) ([]string, error) {
	a.note(ctx, "reservations")
	return nil, nil
}

func (a *resolutionAWS) Running(ctx context.Context, query cloud.Query) (map[string]cloud.Instance, error) {
	a.note(ctx, "instances")
	a.query = query
	return map[string]cloud.Instance{"aws:///a/i-1": {ID: "i-1", Subnet: "subnet-1", SecurityGroups: []string{"sg-2"}, Reservation: "cr-1"}}, a.gone
}

var ref = render.Ref{Kind: render.EC2NodeClass, Name: "default"}

func ask(t *testing.T, a *resolutionAWS, change func(*Resolution), q plan.Question) plan.Answer {
	t.Helper()
	s := &Resolution{
		Cloud:   func(context.Context) (ResolutionCloud, error) { return a, nil },
		Cluster: "prod", Kubernetes: "1.36", Timeout: 5 * time.Second,
	}
	change(s)
	q.Ref = ref
	return s.Answers(t.Context(), []plan.Question{q})[ref]
}

func unchanged(*Resolution) {}

// TestOnlyWhatIsAsked checks that only the content of the Question is queried, within the timeout; what AWS denies is
// unavailable with the action to allow, and the rest is known.
func TestOnlyWhatIsAsked(t *testing.T) {
	a := &resolutionAWS{}
	answer := ask(t, a, unchanged, plan.Question{AMIs: true})
	if !cmp.Equal(a.asked, []string{"AMIs 1.36"}) || len(answer.AMIs.Found) != 1 || a.limit == 0 || a.limit > 5*time.Second {
		t.Errorf("asked %v within %s: %+v", a.asked, a.limit, answer)
	}
	a = &resolutionAWS{}
	answer = ask(t, a, unchanged, plan.Question{SecurityGroups: true, Subnets: true, Reservations: true, Claims: []*plan.NodeClaim{
		{ProviderID: "aws:///a/i-1", Pool: "general"}, {Pool: "batch"},
	}})
	want := plan.Answer{
		SecurityGroups: plan.Resolved[string]{Found: []string{"sg-1"}},
		Subnets:        plan.Resolved[string]{Unavailable: `AWS denies ec2:DescribeSubnets: no policy; add {"Effect":"Allow","Action":"ec2:DescribeSubnets","Resource":"*"} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`},
		Running:        map[string]plan.Running{"aws:///a/i-1": {Subnet: "subnet-1", SecurityGroups: []string{"sg-2"}, Reservation: "cr-1"}},
	}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"groups", "subnets", "reservations", "instances"}, a.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cloud.Query{Cluster: "prod", Pools: []string{"general"}, ProviderIDs: []string{"aws:///a/i-1"}}, a.query); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

// TestWhyThereAreNoAMIs checks that an answer tells an alias without AMIs, and one that Karpenter does not resolve, from
// a failed query.
func TestWhyThereAreNoAMIs(t *testing.T) {
	for name, c := range map[string]struct {
		err                error
		empty, unsupported bool
	}{
		"none":          {err: &resolve.EmptyError{What: "AMI"}, empty: true},
		"not supported": {err: &resolve.UnsupportedError{Class: "default", Err: errors.New("no AL2")}, unsupported: true},
		"a failure":     {err: &cloud.ThrottledError{Action: "ssm:GetParameter"}},
	} {
		amis := ask(t, &resolutionAWS{refused: c.err}, unchanged, plan.Question{AMIs: true}).AMIs
		if amis.Unavailable != c.err.Error() || amis.Empty != c.empty || amis.Unsupported != c.unsupported {
			t.Errorf("%s: %+v", name, amis)
		}
	}
}

// TestInstancesBesideAnError checks that the returned instances are known, and why the others are not.
func TestInstancesBesideAnError(t *testing.T) {
	answer := ask(t, &resolutionAWS{gone: &cloud.ThrottledError{Action: "ec2:DescribeInstances"}}, unchanged, plan.Question{SecurityGroups: true, Claims: []*plan.NodeClaim{{ProviderID: "aws:///a/i-1"}}})
	if len(answer.Running) != 1 || answer.Unavailable != "AWS throttles ec2:DescribeInstances; plumbline retries" {
		t.Errorf("%+v", answer)
	}
}

// TestNotAsked checks that an account that is not verified is not queried, and that without a client there is no
// answer.
func TestNotAsked(t *testing.T) {
	a := &resolutionAWS{}
	answer := ask(t, a, func(s *Resolution) { s.Unverified = Unverified(&cloud.Verdict{}) }, plan.Question{AMIs: true})
	if len(a.asked) > 0 || answer.AMIs.Unavailable != "AWS is not queried: the account is not verified" {
		t.Errorf("asked %v: %+v", a.asked, answer)
	}
	if Unverified(nil) == "" || Unverified(&cloud.Verdict{OK: true}) != "" {
		t.Error("an account counts as verified that was not asked about, or not as it was")
	}
	answer = ask(t, a, func(s *Resolution) {
		s.Cloud = func(context.Context) (ResolutionCloud, error) { return nil, errors.New("no region") }
	}, plan.Question{AMIs: true})
	if answer.AMIs.Unavailable != "no region" {
		t.Errorf("%+v", answer)
	}
}
