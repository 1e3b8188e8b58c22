package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// TestDenied uses the messages in AWS's own guide to access denied errors.
func TestDenied(t *testing.T) {
	cases := map[string]struct{ action, message, want string }{
		"no policy allows it": {
			action:  "eks:DescribeCluster",
			message: "User: arn:aws:sts::111122223333:assumed-role/plumbline/x is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo because no identity-based policy allows the eks:DescribeCluster action",
			want:    `AWS denies eks:DescribeCluster: User: arn:aws:sts::111122223333:assumed-role/plumbline/x is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo because no identity-based policy allows the eks:DescribeCluster action; add {"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"arn:aws:eks:eu-west-1:111122223333:cluster/demo"} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		},
		"EC2 names no resource": {
			action:  "ec2:DescribeInstances",
			message: "You are not authorized to perform this operation. Encoded authorization failure message: 8sdf7sd",
			want:    `AWS denies ec2:DescribeInstances: You are not authorized to perform this operation; add {"Effect":"Allow","Action":"ec2:DescribeInstances","Resource":"*"} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		},
		"a policy of the organization forbids it": {
			action:  "ec2:DescribeInstances",
			message: "User: a is not authorized to perform: ec2:DescribeInstances with an explicit deny in a service control policy",
			want:    `AWS denies ec2:DescribeInstances: User: a is not authorized to perform: ec2:DescribeInstances with an explicit deny in a service control policy; a policy forbids it to the role in use: remove ec2:DescribeInstances on * from its Deny`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := denied(c.action, c.message, nil).Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestThrottledRequests: after AWS has throttled requests, the next one is not sent at once.
func TestThrottledRequests(t *testing.T) {
	r, ok := retryer(3).(aws.RetryerV2)
	if !ok || r.MaxAttempts() != 3 {
		t.Fatalf("%T retries %d times", r, r.MaxAttempts())
	}
	throttled := &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		release, err := r.GetAttemptToken(done)
		if err != nil {
			return
		}
		_ = release(throttled)
	}
	t.Error("20 requests were throttled, and the next one is not delayed")
}

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
		"a clock that is slow": {
			status: 400, code: "RequestExpired", message: "Request has expired.", want: is(new(*CredentialsError)),
			says: "AWS refuses the time of the request for ec2:DescribeInstances (RequestExpired): the clock of this machine is wrong by minutes; synchronize it",
		},
		"a signature of another time": {
			status: 403, code: "SignatureDoesNotMatch", message: "Signature not yet current: 20261201T103102Z is still later than 20261201T100102Z",
			want: is(new(*CredentialsError)), says: "the clock of this machine is wrong by minutes",
		},
		"a wrong signature": {
			status: 403, code: "SignatureDoesNotMatch", message: "The request signature we calculated does not match",
			want: is(new(*CredentialsError)), says: "AWS does not take the credentials",
		},
		"AWS is in trouble": {status: 500, code: "InternalError", message: "request 4711", want: is(new(*UnreachableError)), says: "ec2:DescribeInstances: InternalError;"},
		"anything else":     {status: 400, code: "InvalidParameterValue", message: "The filter is invalid", want: is(new(*AnswerError)), says: "InvalidParameterValue: The filter is invalid"},
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
		// A server notices only after reading the body that its client is gone.
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

// TestRetries checks that the SDK's own retries are used: one throttled response is not an error.
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

// TestCausesAreKept checks that the error names the unreachable host and the reason, with the same text each time.
func TestCausesAreKept(t *testing.T) {
	refused := func(op string) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED), Addr: &net.TCPAddr{Port: 443}}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nobody listens":         {refused("dial"), "ec2.eu-west-1.amazonaws.com: connection refused"},
		"nor at the proxy":       {refused("proxyconnect"), "ec2.eu-west-1.amazonaws.com by the proxy: connection refused"},
		"no such name":           {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "ec2", Server: "10.0.0.10:53"}}, "ec2.eu-west-1.amazonaws.com: no such host"},
		"cut off":                {&net.OpError{Op: "read", Source: &net.TCPAddr{Port: 51234}, Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "ec2.eu-west-1.amazonaws.com: connection reset by peer"},
		"an unknown authority":   {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "ec2.eu-west-1.amazonaws.com: x509: certificate signed by unknown authority"},
		"an expired certificate": {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time 10:31"}}, "ec2.eu-west-1.amazonaws.com: its certificate has expired or is not yet valid"},
		"no handshake in time":   {os.ErrDeadlineExceeded, "ec2.eu-west-1.amazonaws.com: timed out"},
		"the end":                {io.EOF, "ec2.eu-west-1.amazonaws.com: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := named("ec2:DescribeInstances", &smithyhttp.RequestSendError{Err: &url.Error{Op: "Post", URL: "https://ec2.eu-west-1.amazonaws.com/", Err: c.err}})
			var unreachable *UnreachableError
			if want := "AWS did not respond to ec2:DescribeInstances: no connection to " + c.want + ";"; !errors.As(err, &unreachable) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %T %v, want %s", err, err, want)
			}
		})
	}
}

// TestWhyThereAreNoCredentials checks that a refusal by STS, or an unreachable STS, is distinguished from missing
// configuration.
func TestWhyThereAreNoCredentials(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("jwt"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := func(status int, code, message string) http.HandlerFunc {
		return (&account{fail: func(action string) (int, string, string) {
			if action == "AssumeRoleWithWebIdentity" {
				return status, code, message
			}
			return 0, "", ""
		}}).ServeHTTP
	}
	for name, c := range map[string]struct {
		sts   http.HandlerFunc // nil: nothing listens
		token string
		as    any
		want  string
	}{
		"STS refuses the role": {
			sts: answer(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity."), token: token, as: new(*CredentialsError),
			want: "by sts:AssumeRoleWithWebIdentity (AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity)",
		},
		"STS calls the token too old": {
			sts: answer(400, "ExpiredTokenException", "Token expired: current date/time 1764 must be before 1763"), token: token, as: new(*CredentialsError),
			want: "by sts:AssumeRoleWithWebIdentity (ExpiredTokenException)",
		},
		"STS throttles":   {sts: answer(400, "Throttling", "Rate exceeded"), token: token, as: new(*ThrottledError), want: "AWS throttles sts:AssumeRoleWithWebIdentity"},
		"STS is down":     {sts: answer(503, "ServiceUnavailable", "request 4711"), token: token, as: new(*UnreachableError), want: "sts:AssumeRoleWithWebIdentity: ServiceUnavailable"},
		"STS is away":     {token: token, as: new(*UnreachableError), want: "AWS did not respond to sts:AssumeRoleWithWebIdentity: no connection to 127.0.0.1:1: connection refused"},
		"there is no JWT": {sts: answer(0, "", ""), token: token + "-gone", as: new(*CredentialsError), want: "no such file or directory; give plumbline"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := http.Handler(http.NotFoundHandler())
			if c.sts != nil {
				handler = c.sts
			}
			connect(t, handler, Options{})
			for name, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true",
				"AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/plumbline", "AWS_WEB_IDENTITY_TOKEN_FILE": c.token, "AWS_REGION": "eu-west-1",
			} {
				t.Setenv(name, value)
			}
			// The STS client of the credential chain only uses the service's own variable.
			endpoint := "http://127.0.0.1:1"
			if c.sts != nil {
				endpoint, _ = os.LookupEnv("AWS_ENDPOINT_URL")
			}
			t.Setenv("AWS_ENDPOINT_URL_STS", endpoint)
			client, err := New(t.Context(), Options{Region: "eu-west-1", Attempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Identity(t.Context())
			if !errors.As(err, c.as) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %T %v, want %s", err, err, c.want)
			}
			if strings.Contains(err.Error(), "1764") || strings.Contains(err.Error(), "4711") {
				t.Errorf("message %q changes with each request", err)
			}
		})
	}
}
