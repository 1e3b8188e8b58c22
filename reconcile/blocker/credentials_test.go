package blocker

import (
	"testing"
	"time"
)

// TestRefusedCredentials: the newest error by which no instance can be ended, of many that say something else.
func TestRefusedCredentials(t *testing.T) {
	since := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const (
		describe = `"error":"listing instances, describing ec2 instances, operation error EC2: DescribeInstances, https response error StatusCode: 403, RequestID: 8f, api error UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/karpenter/x is not authorized to perform: ec2:DescribeInstances because no identity-based policy allows it. Encoded authorization failure message: x8s"`
		assume   = `"error":"operation error EC2: DescribeInstances, get identity: get credentials: failed to refresh cached credentials, failed to retrieve credentials, operation error STS: AssumeRoleWithWebIdentity, https response error StatusCode: 403, RequestID: 8f, api error AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity"`
	)
	for name, c := range map[string]struct{ log, want string }{
		"nothing": {`{"level":"INFO","time":"2026-01-01T12:00:01Z","message":"found provisionable pod(s)"}`, ""},
		"may not ask for instances": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","message":"Reconciler error",` + describe + `}`,
			"ec2:DescribeInstances: UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/karpenter/x is not authorized to perform: ec2:DescribeInstances because no identity-based policy allows it",
		},
		"may not assume its role": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z",` + assume + `}`,
			"sts:AssumeRoleWithWebIdentity: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity",
		},
		"has no token": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error SSM: GetParameter, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"}`,
			"operation error SSM: GetParameter, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found",
		},
		"keys that AWS does not know": {
			`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error Pricing: GetProducts, https response error StatusCode: 400, RequestID: 8f, api error UnrecognizedClientException: The security token included in the request is invalid."}`,
			"pricing:GetProducts: UnrecognizedClientException: The security token included in the request is invalid",
		},
		"lacks another action": {`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error EC2: CreateFleet, https response error StatusCode: 403, RequestID: 8f, api error UnauthorizedOperation: You are not authorized"}`, ""},
		"is throttled":         {`{"level":"ERROR","time":"2026-01-01T12:00:01Z","error":"operation error EC2: DescribeInstances, https response error StatusCode: 503, RequestID: 8f, api error RequestLimitExceeded: Request limit exceeded."}`, ""},
		"long ago":             {`{"level":"ERROR","time":"2026-01-01T11:59:59Z",` + describe + `}`, ""},
		"the newest": {
			`{"level":"ERROR","time":"2026-01-01T12:00:02Z",` + assume + "}\n" + `{"level":"ERROR","time":"2026-01-01T12:00:01Z",` + describe + "}\nnot JSON, \"error\"",
			"sts:AssumeRoleWithWebIdentity: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if found := RefusedCredentials(c.log, since); found != nil {
				got = found.Words
			}
			if got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}
