package cloud

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestErrors(t *testing.T) {
	is := func(target any) func(error) bool {
		return func(err error) bool { return errors.As(err, target) }
	}
	cases := map[string]struct {
		status        int
		code, message string
		want          func(error) bool
		says          string
	}{
		"denied": {
			status: 403, code: "UnauthorizedOperation",
			message: "You are not authorized to perform: ec2:DescribeInstances. Encoded authorization failure message: 8sdf7sd",
			want:    is(new(*DeniedError)),
			says:    `AWS denies ec2:DescribeInstances: You are not authorized to perform: ec2:DescribeInstances; add {"Effect":"Allow","Action":"ec2:DescribeInstances","Resource":"*"} to the policy`,
		},
		"throttled":           {status: 503, code: "RequestLimitExceeded", message: "Request limit exceeded.", want: is(new(*ThrottledError)), says: "AWS throttles ec2:DescribeInstances"},
		"expired credentials": {status: 400, code: "ExpiredToken", message: "at 10:31:02", want: is(new(*CredentialsError)), says: "(ExpiredToken)"},
		"AWS is in trouble":   {status: 500, code: "InternalError", message: "request 4711", want: is(new(*UnreachableError)), says: "ec2:DescribeInstances: InternalError;"},
		"anything else":       {status: 400, code: "InvalidParameterValue", message: "The filter is invalid", want: is(new(*AnswerError)), says: "InvalidParameterValue: The filter is invalid"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			account := &account{fail: func(string) (int, string, string) { return c.status, c.code, c.message }}
			_, err := connect(t, account, Options{Attempts: 1}).Instances(t.Context(), Query{Cluster: "demo", Pools: []string{"batch"}})
			if !c.want(err) {
				t.Fatalf("got %T: %v", err, err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("message %q does not say %q", err, c.says)
			}
			for _, ticking := range []string{"8sdf7sd", "10:31", "4711", "RequestID"} {
				if strings.Contains(err.Error(), ticking) {
					t.Errorf("message %q changes with each request", err)
				}
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	client := connect(t, http.NotFoundHandler(), Options{Attempts: 1})
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	nobody, err := New(t.Context(), Options{Region: "eu-west-1", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	var unreachable *UnreachableError
	if _, err := nobody.Identity(t.Context()); !errors.As(err, &unreachable) {
		t.Errorf("nobody listens: got %T: %v", err, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Identity(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %T: %v", err, err)
	}
}

func TestAnswerInTime(t *testing.T) {
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// A server notices that its client has gone once the body is read.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	var unreachable *UnreachableError
	_, err := connect(t, slow, Options{Timeout: 50 * time.Millisecond}).Instances(t.Context(), Query{Cluster: "demo", Pools: []string{"batch"}})
	if !errors.As(err, &unreachable) {
		t.Errorf("got %T: %v", err, err)
	}
}

func TestNoCredentials(t *testing.T) {
	connect(t, http.NotFoundHandler(), Options{})
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	client, err := New(t.Context(), Options{Region: "eu-west-1", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	var credentials *CredentialsError
	if _, err := client.Identity(t.Context()); !errors.As(err, &credentials) || credentials.Code != "" {
		t.Errorf("got %T: %v", err, err)
	}
}

// The SDK's own retries are in use: one throttled answer is not an error.
func TestRetries(t *testing.T) {
	tries := 0
	account := &account{fail: func(string) (int, string, string) {
		if tries++; tries == 1 {
			return 503, "RequestLimitExceeded", "Request limit exceeded."
		}
		return 0, "", ""
	}}
	if _, err := connect(t, account, Options{}).Identity(t.Context()); err != nil || tries != 2 {
		t.Errorf("%d tries, error %v", tries, err)
	}
}

func TestNewWithoutRegion(t *testing.T) {
	if _, err := New(t.Context(), Options{}); err == nil {
		t.Error("the SDK's own region was taken, which is the machine's and not the cluster's")
	}
}
