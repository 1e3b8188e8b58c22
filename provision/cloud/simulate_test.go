package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// simulator answers iam:SimulatePrincipalPolicy: what its function returns for an action on a resource, one result in a page.
type simulator struct {
	result func(action, resource string) string
	// nested puts the results of resources into one of the action.
	nested bool

	mu    sync.Mutex
	asked []url.Values
}

// members returns the values of a list in a form.
func members(form url.Values, name string) []string {
	var all []string
	for n := 1; form.Has(fmt.Sprintf("%s.member.%d", name, n)); n++ {
		all = append(all, form.Get(fmt.Sprintf("%s.member.%d", name, n)))
	}
	return all
}

func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	if form.Get("Action") == "GetCallerIdentity" {
		fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, form)
	s.mu.Unlock()
	var results []string
	for _, action := range members(form, "ActionNames") {
		var inner []string
		for _, resource := range members(form, "ResourceArns") {
			text := s.result(action, resource)
			if s.nested {
				inner = append(inner, `<member><EvalResourceName>`+resource+`</EvalResourceName><EvalResourceDecision>`+text+`</EvalResourceDecision></member>`)
				continue
			}
			results = append(results, `<member><EvalActionName>`+action+`</EvalActionName><EvalResourceName>`+resource+`</EvalResourceName>`+text+`</member>`)
		}
		if s.nested {
			results = append(results, `<member><EvalActionName>`+action+`</EvalActionName><EvalResourceName>*</EvalResourceName><EvalDecision>implicitDeny</EvalDecision>`+
				`<ResourceSpecificResults>`+strings.Join(inner, "")+`</ResourceSpecificResults></member>`)
		}
	}
	at := 0
	if marker := form.Get("Marker"); marker != "" {
		at = slices.Index(results, marker)
	}
	more := ""
	if at+1 < len(results) {
		more = `<IsTruncated>true</IsTruncated><Marker><![CDATA[` + results[at+1] + `]]></Marker>`
	}
	fmt.Fprintf(w, `<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>%s</EvaluationResults>%s</SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>`, results[at], more)
}

func TestSimulate(t *testing.T) {
	aws := &simulator{result: func(action, resource string) string {
		switch {
		case action == "ec2:RunInstances":
			return `<EvalDecision>explicitDeny</EvalDecision><OrganizationsDecisionDetail><AllowedByOrganizations>false</AllowedByOrganizations></OrganizationsDecisionDetail>`
		case resource == "arn:subnet":
			return `<EvalDecision>implicitDeny</EvalDecision><MissingContextValues><member>aws:SourceIp</member></MissingContextValues>`
		}
		return `<EvalDecision>allowed</EvalDecision><OrganizationsDecisionDetail><AllowedByOrganizations>true</AllowedByOrganizations></OrganizationsDecisionDetail>`
	}}
	here := map[string][]string{"aws:RequestedRegion": {"eu-west-1"}}
	tagged := map[string][]string{"aws:TagKeys": {"a", "b"}, "aws:RequestTag/a": {"1"}}
	got, err := connect(t, aws, Options{Attempts: 1}).Simulate(t.Context(), controllerID, []Simulation{
		{"ec2:CreateFleet", "arn:image", here},
		{"ec2:RunInstances", "arn:image", here},
		{"ec2:CreateFleet", "arn:subnet", here},
		{"ec2:RunInstances", "arn:subnet", here},
		{"ec2:CreateFleet", "arn:image", tagged},
		{"ec2:TerminateInstances", "arn:instance", here},
	})
	forbidden := Simulated{ByOrganization: true}
	want := []Simulated{{Allowed: true}, forbidden, {Missing: []string{"aws:SourceIp"}}, forbidden, {Allowed: true}, {Allowed: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("(-want +got), error %v:\n%s", err, diff)
	}
	// Four results of the first request, each on a page of its own, and two further requests.
	var contexts []string
	for _, form := range aws.asked {
		if form.Get("PolicySourceArn") != controllerID {
			t.Errorf("asked about %s", form.Get("PolicySourceArn"))
		}
		text := strings.Join(members(form, "ActionNames"), ",") + " on " + strings.Join(members(form, "ResourceArns"), ",")
		for n := 1; form.Has(fmt.Sprintf("ContextEntries.member.%d.ContextKeyName", n)); n++ {
			entry := fmt.Sprintf("ContextEntries.member.%d.", n)
			text += " " + form.Get(entry+"ContextKeyName") + ":" + form.Get(entry+"ContextKeyType") + "=" + form.Get(entry+"ContextKeyValues.member.1")
		}
		contexts = append(contexts, text)
	}
	const both = "ec2:CreateFleet,ec2:RunInstances on arn:image,arn:subnet aws:RequestedRegion:string=eu-west-1"
	wantAsked := []string{
		both, both, both, both, "ec2:CreateFleet on arn:image aws:RequestTag/a:string=1 aws:TagKeys:stringList=a",
		"ec2:TerminateInstances on arn:instance aws:RequestedRegion:string=eu-west-1",
	}
	if diff := cmp.Diff(wantAsked, contexts); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestSimulateByResource: the results of resources may be in one of the action.
func TestSimulateByResource(t *testing.T) {
	aws := &simulator{nested: true, result: func(_, resource string) string {
		return map[bool]string{true: "allowed", false: "implicitDeny"}[resource == "arn:image"]
	}}
	questions := []Simulation{{Action: "ec2:CreateFleet", Resource: "arn:image"}, {Action: "ec2:CreateFleet", Resource: "arn:subnet"}}
	got, err := connect(t, aws, Options{Attempts: 1}).Simulate(t.Context(), controllerID, questions)
	if diff := cmp.Diff([]Simulated{{Allowed: true}, {}}, got); diff != "" || err != nil {
		t.Errorf("(-want +got), error %v:\n%s", err, diff)
	}
}

// TestSimulateFails: a denied call is named, a role of another account is not found, and an answer without a result is an
// error.
func TestSimulateFails(t *testing.T) {
	failing := func(status int, code string) http.Handler {
		return &account{fail: func(action string) (int, string, string) {
			if action == "GetCallerIdentity" {
				return 0, "", ""
			}
			return status, code, "User: x is not authorized to perform: iam:SimulatePrincipalPolicy"
		}}
	}
	question := []Simulation{{Action: "ec2:CreateFleet", Resource: "arn:image"}}
	var denied *DeniedError
	if _, err := connect(t, failing(http.StatusForbidden, "AccessDenied"), Options{Attempts: 1}).Simulate(t.Context(), controllerID, question); !errors.As(err, &denied) || denied.Action != "iam:SimulatePrincipalPolicy" {
		t.Errorf("denied: %v", err)
	}
	var missing *NotFoundError
	if _, err := connect(t, failing(http.StatusNotFound, "NoSuchEntity"), Options{Attempts: 1}).Simulate(t.Context(), controllerID, question); !errors.As(err, &missing) {
		t.Errorf("no such role: %v", err)
	}
	empty := &simulator{nested: true, result: func(string, string) string { return "allowed" }}
	if _, err := connect(t, empty, Options{Attempts: 1}).Simulate(t.Context(), controllerID, []Simulation{{Action: "ec2:CreateFleet", Resource: "arn:a"}}); err != nil {
		t.Errorf("one result: %v", err)
	}
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults/></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>`)
	})
	if _, err := connect(t, other, Options{Attempts: 1}).Simulate(t.Context(), controllerID, question); err == nil || !strings.Contains(err.Error(), "no result for ec2:CreateFleet on arn:image") {
		t.Errorf("no result: %v", err)
	}
	if got, err := connect(t, other, Options{Attempts: 1}).Simulate(t.Context(), controllerID, nil); err != nil || len(got) > 0 {
		t.Errorf("no question: %v, %v", got, err)
	}
}
