package awssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// lookUp returns the records of an event that CloudTrail returns to a caller, or the error code.
func (a *account) lookUp(t *testing.T, accessKey, event string) (records []string, code string) {
	t.Helper()
	query := `"StartTime":1,"LookupAttributes":[{"AttributeKey":"EventName","AttributeValue":"` + event + `"}],"MaxResults":1}`
	body := "{" + query
	var out struct {
		Type      string `json:"__type"`
		NextToken string
		Events    []struct{ CloudTrailEvent string }
	}
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(body))
		noError(t, err)
		r.Header.Set("X-Amz-Target", "CloudTrail_20131101.LookupEvents")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20261201/"+region+"/cloudtrail/aws4_request, x")
		response, err := http.DefaultClient.Do(r)
		noError(t, err)
		text, err := io.ReadAll(response.Body)
		noError(t, err)
		noError(t, response.Body.Close())
		out.NextToken, out.Events = "", nil
		noError(t, json.Unmarshal(text, &out))
		for _, e := range out.Events {
			records = append(records, e.CloudTrailEvent)
		}
		if out.NextToken == "" {
			return records, out.Type
		}
		body = `{"NextToken":"` + out.NextToken + `",` + query
	}
}

// TestCloudTrail: launches and terminations are returned with their principal, after a delay, to those who may look them up.
func TestCloudTrail(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ids := a.launch(t, 2)
	client := a.as(t, "theirs", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["ec2:*","cloudtrail:LookupEvents"],"Resource":"*"}}`)
	_, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids[:1]})
	noError(t, err)
	noError(t, a.Terminate(ids[1]))
	a.DelayTrail(time.Minute)
	if records, code := a.lookUp(t, "theirs", "TerminateInstances"); len(records) > 0 || code != "" {
		t.Errorf("at once: %q %s", records, code)
	}
	a.clock.advance(time.Minute)
	records, code := a.lookUp(t, "theirs", "TerminateInstances")
	all := strings.Join(records, "\n")
	for _, text := range []string{"arn:aws:iam::000000000000:role/theirs", ids[0], ids[1], "user/console", `"eventName":"TerminateInstances"`} {
		if !strings.Contains(all, text) {
			t.Errorf("%s is missing (%s):\n%s", text, code, all)
		}
	}
	if len(records) != 2 {
		t.Errorf("%d records", len(records))
	}
	if records, _ := a.lookUp(t, "tester", "RunInstances"); !strings.Contains(strings.Join(records, "\n"), ids[0]) {
		t.Errorf("launches: %q", records)
	}
	noError(t, a.AddRole(awssim.Role{Name: "nobody", Trust: podsTrust}))
	a.RegisterCredentials("nobody", "nobody")
	if _, code := a.lookUp(t, "nobody", "TerminateInstances"); !strings.Contains(code, "AccessDeniedException") {
		t.Errorf("without the permission: %s", code)
	}
}
