package awssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// admin calls the admin endpoint and decodes the response into out, if that is not nil.
func (a *account) admin(t *testing.T, method, path, body string, wantStatus int, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.url+"/_sandbox/"+path, strings.NewReader(body))
	noError(t, err)
	resp, err := http.DefaultClient.Do(r)
	noError(t, err)
	content, err := io.ReadAll(resp.Body)
	noError(t, err)
	noError(t, resp.Body.Close())
	if resp.StatusCode != wantStatus {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, wantStatus, content)
	}
	if out != nil {
		noError(t, json.Unmarshal(content, out))
	}
}

func TestAdminEndpoint(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]

	var state awssim.State
	a.admin(t, http.MethodGet, "state", "", http.StatusOK, &state)
	if len(state.Instances) != 1 || state.Instances[0].ID != id || len(state.Subnets) != 3 || len(state.Interfaces) != 1 {
		t.Errorf("state = %+v, want one instance with its interface and three subnets", state)
	}
	var left awssim.Left
	a.admin(t, http.MethodGet, "left?cluster=prod", "", http.StatusOK, &left)
	if len(left.Instances) != 1 {
		t.Errorf("left = %s, want the instance", left)
	}
	a.admin(t, http.MethodPost, "instances/"+id+"/terminate", "", http.StatusNoContent, nil)
	a.admin(t, http.MethodPost, "instances/"+id+"/interrupt", "", http.StatusNotFound, nil) // it is on demand
	a.admin(t, http.MethodPost, "instances/i-0/terminate", "", http.StatusNotFound, nil)
	a.admin(t, http.MethodGet, "left?cluster=prod", "", http.StatusOK, &left)
	if len(left.Instances) != 0 {
		t.Errorf("left = %s, want no instance", left)
	}
}

func TestAdminShortages(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	a.admin(t, http.MethodPost, "shortages", `{"market":"free"}`, http.StatusBadRequest, nil)
	a.admin(t, http.MethodPost, "shortages", `{"zone":"eu-west-1a"}`, http.StatusNoContent, nil)
	in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
	out, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	if len(out.Instances) != 0 || len(out.Errors) != 1 {
		t.Errorf("with a shortage: instances %v, errors %v", out.Instances, out.Errors)
	}
	a.admin(t, http.MethodDelete, "shortages", "", http.StatusNoContent, nil)
	a.launch(t, 1)
}

func TestAdminFaults(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	var added awssim.Fault
	a.admin(t, http.MethodPost, "faults", `{"service":"ec2","action":"DescribeVpcs","kind":"throttle"}`, http.StatusCreated, &added)
	a.admin(t, http.MethodPost, "faults", `{"service":"ec2","kind":"delay"}`, http.StatusBadRequest, nil)
	a.admin(t, http.MethodPost, "faults", `{"servce":"ec2","kind":"deny"}`, http.StatusBadRequest, nil)
	_, err := a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantCode(t, err, "RequestLimitExceeded")
	var faults []awssim.Fault
	a.admin(t, http.MethodGet, "faults", "", http.StatusOK, &faults)
	if len(faults) != 1 || faults[0].Hits != 1 {
		t.Errorf("faults = %+v, want one with one hit", faults)
	}
	a.admin(t, http.MethodDelete, "faults/"+added.ID, "", http.StatusNoContent, nil)
	a.admin(t, http.MethodDelete, "faults/"+added.ID, "", http.StatusNotFound, nil)
	_, err = a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	noError(t, err)
}

func TestAdminCalls(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	a.admin(t, http.MethodDelete, "calls", "", http.StatusNoContent, nil)
	a.describe(t, id)
	_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"i-00000000000000bad"}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	_, err = a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	noError(t, err)

	var calls []awssim.Call
	a.admin(t, http.MethodGet, "calls?service=ec2&action=DescribeInstances", "", http.StatusOK, &calls)
	if len(calls) != 2 {
		t.Fatalf("%d calls of DescribeInstances, want 2: %+v", len(calls), calls)
	}
	first, second := calls[0], calls[1]
	if first.Parameters["InstanceId.1"] != id || first.Code != "" || first.AccessKey != "tester" || !first.Time.Equal(a.clock.Now()) {
		t.Errorf("first call = %+v", first)
	}
	if second.Code != "InvalidInstanceID.NotFound" || second.Sequence != first.Sequence+1 || !strings.Contains(second.UserAgent, "aws-sdk-go-v2") {
		t.Errorf("second call = %+v", second)
	}
}
