package iam

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plain returns AWS's answers without a key that is unknown.
func plain(answer func(Request) Answer) func(Request) Simulated {
	return func(r Request) Simulated { return Simulated{Answer: answer(r)} }
}

// simulated are AWS's answers for a version in a cluster: allowed, unless answer returns another decision.
func simulated(t *testing.T, version string, c Cluster, answer func(Request) Simulated) Simulation {
	t.Helper()
	requests, err := Requests(version, c)
	if err != nil {
		t.Fatal(err)
	}
	s := Simulation{Requests: requests}
	for _, one := range requests {
		s.Answers = append(s.Answers, answer(one))
	}
	return s
}

// TestJudgeSimulated: if AWS decides as plumbline does, there is no finding; a different decision is one, and one that is
// unknown is none.
func TestJudgeSimulated(t *testing.T) {
	policies := documents(controller(t, "1.15.0", prod()))
	own := within(policies, nil)
	for name, c := range map[string]struct {
		answer func(Request) Answer
		want   []Finding
	}{
		"the same": {own, nil},
		"one is denied": {func(r Request) Answer {
			if answer := own(r); r.Action != "ec2:TerminateInstances" || answer.Decision == Denied {
				return answer
			}
			return Answer{Decision: Denied}
		}, []Finding{{
			Kind: Differs, Actions: []string{"ec2:TerminateInstances"},
			Message: "by plumbline's evaluation the policies decide Allowed, and by iam:SimulatePrincipalPolicy Denied",
		}}},
		"two are allowed for other clusters": {func(r Request) Answer {
			if r.Action == "ec2:TerminateInstances" || r.Action == "ec2:DeleteLaunchTemplate" {
				return Answer{Decision: Allowed}
			}
			return own(r)
		}, []Finding{{
			Kind: Differs, Actions: []string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"},
			Message: "by plumbline's evaluation the policies decide Denied, and by iam:SimulatePrincipalPolicy Allowed",
		}}},
		"all are unknown": {func(Request) Answer { return Answer{Unknown, "a service control policy"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := JudgeSimulated(policies, "1.15.0", prod(), simulated(t, "1.15.0", prod(), plain(c.answer)))
			if diff := cmp.Diff(c.want, found); diff != "" || err != nil {
				t.Errorf("(-want +got), error %v:\n%s", err, diff)
			}
		})
	}
	if _, err := Requests("9.0.0", prod()); err == nil {
		t.Error("a version that plumbline does not know has requests")
	}
}

// TestWhatOnlyAWSDecides: AWS's answer stands beside what plumbline does not evaluate, unless it depends on an unknown key.
func TestWhatOnlyAWSDecides(t *testing.T) {
	d := parsed(t, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}]}`)
	s := simulated(t, "1.15.0", prod(), func(r Request) Simulated {
		switch r.Action {
		case "ec2:TerminateInstances":
			return Simulated{Answer: Answer{Unknown, "a service control policy"}}
		case "ec2:DeleteLaunchTemplate":
			return r.Simulated(false, false, []string{"aws:SourceIp"})
		}
		return Simulated{Answer: Answer{Decision: Denied}}
	})
	found, err := JudgeSimulated([]Document{d}, "1.15.0", prod(), s)
	if err != nil || len(found) == 0 {
		t.Fatalf("%v, error %v", found, err)
	}
	for _, f := range found {
		says := strings.Contains(f.Message, "; iam:SimulatePrincipalPolicy answers: denied")
		silent := f.Actions[0] == "ec2:TerminateInstances" || f.Actions[0] == "ec2:DeleteLaunchTemplate"
		if f.Kind != Undecided || says == silent {
			t.Errorf("%+v", f)
		}
	}
	reasons, answers := s.Unknown()
	if diff := cmp.Diff([]string{"a service control policy"}, reasons); diff != "" || answers == 0 {
		t.Errorf("%d answers are unknown (-want +got):\n%s", answers, diff)
	}
}

// TestALimitOfTheSession: AWS evaluates no policy of a session, so what only that denies is no difference.
func TestALimitOfTheSession(t *testing.T) {
	policies := documents(controller(t, "1.15.0", prod()))
	session := parsed(t, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"ec2:TerminateInstances","Resource":"*"}]}`)
	s := simulated(t, "1.15.0", prod(), plain(within(policies, nil)))
	found, err := JudgeSimulated(policies, "1.15.0", prod(), s, session)
	if err != nil || len(found) != 1 || found[0].Kind != Missing {
		t.Errorf("%+v, error %v; want that the termination is missing", found, err)
	}
	s.Limits = []Document{session}
	if found, err = JudgeSimulated(policies, "1.15.0", prod(), s, session); err != nil || len(found) != 2 || found[1].Kind != Differs {
		t.Errorf("%+v, error %v; want a difference, because AWS evaluates a boundary", found, err)
	}
}

func TestSimulated(t *testing.T) {
	terminate := Request{Action: "ec2:TerminateInstances", Resource: "arn:x", Region: "eu-west-1", ResourceTags: map[string]string{"a": "b"}}
	describe := Request{Action: "ec2:DescribeInstances", Region: "eu-west-1"}
	launch := Request{Action: "ec2:RunInstances", Resource: "arn:image", Region: "eu-west-1"} // its tags are unknown
	for name, c := range map[string]struct {
		of                      Request
		allowed, byOrganization bool
		missing                 []string
		want                    Decision
		without                 string
	}{
		"allowed":                         {of: terminate, allowed: true, want: Allowed},
		"denied":                          {of: terminate, want: Denied},
		"denied by the organization":      {of: terminate, byOrganization: true, want: Unknown},
		"a key that is absent":            {of: terminate, missing: []string{"aws:RequestTag/c", "ec2:ResourceTag/c", "aws:TagKeys"}, want: Denied},
		"a key that is unknown":           {of: terminate, allowed: true, missing: []string{"aws:SourceIp"}, want: Allowed, without: "aws:SourceIp"},
		"tags of what has none":           {of: describe, missing: []string{"aws:ResourceTag/c"}, want: Denied},
		"tags that are unknown":           {of: launch, missing: []string{"aws:ResourceTag/c"}, want: Denied, without: "aws:ResourceTag/c"},
		"allowed beside a denying policy": {of: terminate, allowed: true, byOrganization: true, want: Allowed},
	} {
		got := c.of.Simulated(c.allowed, c.byOrganization, c.missing)
		if got.Decision != c.want || got.Without != c.without || (got.Reason != "") != (c.want == Unknown) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestContext(t *testing.T) {
	resource, keys := Request{
		Action: "ec2:CreateTags", Resource: "arn:instance", Region: "eu-west-1", RequestTags: map[string]string{"Name": "n", "b": "1"},
		ResourceTags: map[string]string{"owner": "prod"}, Keys: map[string]string{"ec2:CreateAction": "RunInstances"},
	}.Context()
	want := map[string][]string{
		"aws:RequestedRegion": {"eu-west-1"}, "aws:RequestTag/Name": {"n"}, "aws:RequestTag/b": {"1"}, "aws:TagKeys": {"Name", "b"},
		"aws:ResourceTag/owner": {"prod"}, "ec2:ResourceTag/owner": {"prod"}, "ec2:CreateAction": {"RunInstances"},
	}
	if diff := cmp.Diff(want, keys); diff != "" || resource != "arn:instance" {
		t.Errorf("%s (-want +got):\n%s", resource, diff)
	}
	if resource, keys := (Request{Action: "ec2:DescribeInstances", Resource: "arn:x", Region: "eu-west-1"}).Context(); resource != "*" || len(keys) != 1 {
		t.Errorf("an action without a resource type: %s, %v", resource, keys)
	}
}
