package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scaling answers what `plumbline migrate` requests of Auto Scaling, in XML, and of EKS, in JSON. It keeps the requests.
type scaling struct {
	asked []string
	// refused, if not empty, is the code of the error for each request that changes something.
	refused string
}

func (s *scaling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "/autoscaling/") {
		s.eks(w, r)
		return
	}
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	action := form.Get("Action")
	if action == "DescribeAutoScalingGroups" {
		s.asked = append(s.asked, "describe "+form.Get("Filters.member.1.Values.member.1")+form.Get("AutoScalingGroupNames.member.1"))
		fmt.Fprint(w, `<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
			<AutoScalingGroupName>web</AutoScalingGroupName><MinSize>1</MinSize><MaxSize>4</MaxSize><DesiredCapacity>2</DesiredCapacity>
			<Tags><member><Key>team</Key><Value>shop</Value></member></Tags>
			<Instances><member><InstanceId>i-1</InstanceId><AvailabilityZone>eu-west-1a</AvailabilityZone><LifecycleState>InService</LifecycleState></member></Instances>
			</member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>`)
		return
	}
	s.asked = append(s.asked, strings.Join([]string{
		action, form.Get("AutoScalingGroupName") + form.Get("InstanceId") + form.Get("Tags.member.1.ResourceId"),
		form.Get("ShouldDecrementDesiredCapacity") + form.Get("DesiredCapacity") + form.Get("Tags.member.1.Value"),
	}, " "))
	if code, message, _ := strings.Cut(s.refused, ": "); code != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<ErrorResponse><Error><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
		return
	}
	fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult></%[1]sResult></%[1]sResponse>`, action)
}

func (s *scaling) eks(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	switch {
	case strings.HasSuffix(r.URL.Path, "/updates/u-1"):
		fmt.Fprint(w, `{"update":{"id":"u-1","status":"Failed","errors":[{"errorCode":"ConfigurationConflict","errorMessage":"no"}]}}`)
	case strings.HasSuffix(r.URL.Path, "/configuration-schemas"):
		fmt.Fprint(w, `{"configurationSchema":"{}"}`)
	case strings.HasSuffix(r.URL.Path, "/fargate-profiles"):
		fmt.Fprint(w, `{"fargateProfileNames":["jobs"]}`)
	case strings.HasSuffix(r.URL.Path, "/fargate-profiles/jobs"):
		fmt.Fprint(w, `{"fargateProfile":{"fargateProfileName":"jobs","selectors":[{"namespace":"jobs","labels":{"a":"b"}}]}}`)
	case strings.Contains(r.URL.Path, "/tags/"):
		fmt.Fprint(w, `{}`)
	default:
		fmt.Fprint(w, `{"update":{"id":"u-1","status":"InProgress"}}`)
	}
}

// TestScaling checks what `plumbline migrate` reads and requests.
func TestScaling(t *testing.T) {
	aws := &scaling{}
	p := &Provisioner{connect(t, aws, Options{Attempts: 1}), func(string) {}}
	groups, err := p.AutoScalingGroups(t.Context(), []string{"kubernetes.io/cluster/prod"}, []string{"web"})
	want := []AutoScalingGroup{{
		Name: "web", Min: 1, Max: 4, Desired: 2, Tags: map[string]string{"team": "shop"}, Instances: []GroupInstance{{"i-1", "eu-west-1a", "InService"}},
	}}
	if diff := cmp.Diff(want, groups); diff != "" || err != nil {
		t.Errorf("groups (-want +got), error %v:\n%s", err, diff)
	}
	profiles, err := p.FargateProfiles(t.Context(), "prod")
	if diff := cmp.Diff([]FargateProfile{{"jobs", []FargateSelector{{"jobs", map[string]string{"a": "b"}}}}}, profiles); diff != "" || err != nil {
		t.Errorf("profiles (-want +got), error %v:\n%s", err, diff)
	}
	if text, err := p.AddonSchema(t.Context(), "coredns", "v1"); text != "{}" || err != nil {
		t.Errorf("schema %q, %v", text, err)
	}
	update, err := p.Update(t.Context(), "prod", "web", "", "u-1")
	if diff := cmp.Diff(EKSUpdate{"Failed", []string{"ConfigurationConflict: no"}}, update); diff != "" || err != nil {
		t.Errorf("update (-want +got), error %v:\n%s", err, diff)
	}
	aws.asked = nil
	id, err := p.SetNodeGroupSizes(t.Context(), "prod", "web", Sizes{0, 4, 2})
	again, err2 := p.UpdateAddon(t.Context(), "prod", "coredns", "{}")
	err = errors.Join(err, err2, p.TagEKS(t.Context(), "arn:a", "key", "value"), p.TagEKS(t.Context(), "arn:a", "key", ""),
		p.SetGroupSizes(t.Context(), "web", Sizes{0, 4, 2}), p.TagGroup(t.Context(), "web", "key", "value"), p.TagGroup(t.Context(), "web", "key", ""),
		p.TerminateInGroup(t.Context(), "i-1"))
	if err != nil || id != "u-1" || again != "u-1" {
		t.Fatalf("%q, %q, %v", id, again, err)
	}
	for i, part := range []string{
		`POST /clusters/prod/node-groups/web/update-config`, `POST /clusters/prod/addons/coredns/update`, `POST /tags/arn`, `DELETE /tags/arn`,
		"UpdateAutoScalingGroup web 2", "CreateOrUpdateTags web value", "DeleteTags web ", "TerminateInstanceInAutoScalingGroup i-1 true",
	} {
		if !strings.HasPrefix(aws.asked[i], part) {
			t.Errorf("request %d is %s, want %s", i, aws.asked[i], part)
		}
	}
	if !strings.Contains(aws.asked[0], `"minSize":0`) || !strings.Contains(aws.asked[0], `"desiredSize":2`) || !strings.Contains(aws.asked[1], "PRESERVE") {
		t.Errorf("requests %v", aws.asked)
	}
}

// TestTerminateInGroup: an instance that is in no group is no error, another refusal is.
func TestTerminateInGroup(t *testing.T) {
	aws := &scaling{refused: "ValidationError: Instance Id not found - No managed instance found for instance ID: i-1"}
	p := &Provisioner{connect(t, aws, Options{Attempts: 1}), func(string) {}}
	if err := p.TerminateInGroup(t.Context(), "i-1"); err != nil {
		t.Error(err)
	}
	aws.refused = "ValidationError: Currently, desiredSize equals minSize (1)"
	var refused *AnswerError
	if err := p.TerminateInGroup(t.Context(), "i-1"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "minSize") {
		t.Errorf("below the minimum: %v", err)
	}
}
