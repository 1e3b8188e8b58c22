package cloud

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// Options configure access to AWS.
type Options struct {
	// Region to query. Required: the SDK's default would be that of the machine, which is not the cluster's.
	Region string
	// Profile of the AWS configuration; if it is empty, the SDK's default chain finds the credentials.
	Profile string
	// Timeout limits one query with all its pages and retries. The default is 20 s.
	Timeout time.Duration
	// Attempts is how often the SDK tries one request. The default is 3.
	Attempts int
	// UserAgent is added to the SDK's own, so that CloudTrail shows the caller.
	UserAgent string
	// Reached is called before and after each request of a Deleter or a Provisioner, with "before ec2:DeleteVolume" and "after
	// ec2:DeleteVolume", for example. It may be nil.
	Reached func(point string)
}

// Client queries AWS in one region, with the credentials and endpoints of the SDK's default chain.
type Client struct {
	region  string
	timeout time.Duration
	now     func() time.Time
	// listings are responses about instances that are not completely read yet.
	listings listings

	// caches contain the credentials until they expire, or AWS refuses them.
	caches  []*aws.CredentialsCache
	ec2     *ec2.Client
	eks     *eks.Client
	sts     *sts.Client
	ssm     *ssm.Client
	iam     *iam.Client
	sqs     *sqs.Client
	events  *eventbridge.Client
	stacks  *cloudformation.Client
	kms     *kms.Client
	quotas  *servicequotas.Client
	trail   *cloudtrail.Client
	scaling *autoscaling.Client
	// resolver resolves selectors.
	resolver     *resolve.Resolver
	knownRunning knownRunning
}

// New returns a Client. It makes no request: credentials are fetched with the first query.
func New(ctx context.Context, o Options) (*Client, error) {
	if o.Region == "" {
		return nil, fmt.Errorf("make an AWS client: no region; set cluster.region in plumbline.yaml")
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	load := []func(*config.LoadOptions) error{
		config.WithRegion(o.Region),
		config.WithRetryer(func() aws.Retryer { return retryer(o.Attempts) }),
	}
	if o.UserAgent != "" {
		load = append(load, config.WithAppID(o.UserAgent))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	c := &Client{region: o.Region, timeout: o.Timeout, now: time.Now}
	if cfg.Credentials != nil {
		if loaded, ok := cfg.Credentials.(*aws.CredentialsCache); ok {
			c.caches = append(c.caches, loaded)
		}
		named := aws.NewCredentialsCache(namedCredentials{cfg.Credentials})
		c.caches, cfg.Credentials = append(c.caches, named), named
	}
	c.ec2, c.eks, c.sts, c.ssm = ec2.NewFromConfig(cfg), eks.NewFromConfig(cfg), sts.NewFromConfig(cfg), ssm.NewFromConfig(cfg)
	c.iam, c.sqs, c.events = iam.NewFromConfig(cfg), sqs.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg)
	c.stacks = cloudformation.NewFromConfig(cfg)
	c.kms, c.quotas = kms.NewFromConfig(cfg), servicequotas.NewFromConfig(cfg)
	c.trail, c.scaling = cloudtrail.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg)
	c.resolver = newResolver(c)
	return c, nil
}

// retryer returns the retryer of one service. Once AWS has throttled a request, it also limits how many requests are sent, by
// what AWS lets pass: Karpenter shares the account's limits, and needs them more.
func retryer(attempts int) aws.Retryer {
	return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
		o.StandardOptions = append(o.StandardOptions, func(s *retry.StandardOptions) {
			s.MaxAttempts = attempts
			s.MaxBackoff = maxBackoff
		})
	})
}

// DefaultRegion returns the region of the SDK's default chain: that of AWS_REGION, or of the profile; empty if there is none.
func DefaultRegion(ctx context.Context) (string, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return "", fmt.Errorf("load the AWS configuration: %w", err)
	}
	return cfg.Region, nil
}

// maxBackoff is the longest pause between two tries of one request: all tries together take less time than a reconcile
// has for AWS, so that AWS's error is reported rather than a timeout.
const maxBackoff = 2 * time.Second

// named gives an error of the SDK its type. Credentials that AWS refuses are fetched again for the next query, even if
// they have not expired: an administrator who revoked them has replaced them, or will.
func (c *Client) named(action string, err error) error {
	err = named(action, err)
	var refused *CredentialsError
	if errors.As(err, &refused) {
		for _, cache := range c.caches {
			cache.Invalidate()
		}
	}
	return err
}

// namedCredentials gives a failure to get credentials its own type: the SDK wraps it in operation errors without a
// code.
type namedCredentials struct{ aws.CredentialsProvider }

func (n namedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := n.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return found, &CredentialsError{Err: err}
	}
	return found, nil
}

// CredentialsError means that there are no credentials, or that AWS does not accept them.
type CredentialsError struct {
	// Action that was refused; empty if no credentials were found.
	Action string
	// Code of AWS's response, if there was one.
	Code string
	// Fetching reports whether Action is the one that fetches credentials.
	Fetching bool
	// Skewed reports whether AWS refuses the time of the request: the clock of this machine differs from AWS's by minutes.
	Skewed bool
	// Detail is why there are none, without parts that change with each request.
	Detail string
	Err    error
}

func (e *CredentialsError) Error() string {
	detail := ""
	if e.Detail != "" {
		detail = ": " + e.Detail
	}
	switch {
	case e.Fetching:
		return fmt.Sprintf("AWS refuses credentials to plumbline's role, by %s (%s%s); check the role that plumbline's service account names, and its trust policy", e.Action, e.Code, detail)
	case e.Skewed:
		return fmt.Sprintf("AWS refuses the time of the request for %s (%s): the clock of this machine is wrong by minutes; synchronize it", e.Action, e.Code)
	case e.Code == "":
		return fmt.Sprintf("no AWS credentials found%s; give plumbline's service account a role by EKS Pod Identity or IRSA", detail)
	}
	return fmt.Sprintf("AWS does not take the credentials for %s (%s); check the role of plumbline's service account", e.Action, e.Code)
}

// Unwrap returns the SDK's error.
func (e *CredentialsError) Unwrap() error { return e.Err }

// fetching names the request for credentials if the SDK does not: EKS Pod Identity's agent is not an AWS service.
const fetching = "the request for credentials"

// metadataService is the SDK's name for the metadata of EC2 instances (github.com/aws/aws-sdk-go-v2/feature/ec2/imds,
// ServiceID).
const metadataService = "ec2imds"

// withoutCredentials gives an error of the SDK's credential chain its type: the provider refuses, does not respond, or
// does not exist.
func withoutCredentials(e *CredentialsError) error {
	if e.Code != "" || e.Err == nil {
		return e
	}
	action := fetching
	var operation *smithy.OperationError
	if errors.As(e.Err, &operation) {
		action = strings.ToLower(operation.ServiceID) + ":" + operation.OperationName
	}
	var api smithy.APIError
	switch {
	case operation != nil && operation.ServiceID == metadataService:
		// The last in the chain: nothing else was configured.
		return &CredentialsError{Err: e.Err, Detail: "the metadata of the EC2 instance has none either"}
	case errors.As(e.Err, &api):
		return refusedCredentials(action, api, e.Err)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return &UnreachableError{Action: action, Detail: "no answer in time", Err: e.Err}
	case unconnected(e.Err):
		return &UnreachableError{Action: action, Detail: "no connection to " + cause(e.Err), Err: e.Err}
	}
	return &CredentialsError{Err: e.Err, Detail: innermost(e.Err).Error()}
}

func refusedCredentials(action string, api smithy.APIError, err error) error {
	switch typed := answered(action, api, err).(type) { //nolint:errorlint // it is made there
	case *ThrottledError, *UnreachableError:
		return typed
	}
	refused := &CredentialsError{Action: action, Code: api.ErrorCode(), Fetching: true, Err: err}
	if strings.HasPrefix(refused.Code, "AccessDenied") { // other codes describe times
		refused.Detail = strings.TrimSuffix(api.ErrorMessage(), ".")
	}
	return refused
}

// DeniedError means that AWS denies an action to the credentials in use.
type DeniedError struct {
	// Action in IAM's format: ec2:DescribeInstances.
	Action string
	// Resource is the ARN in AWS's response; * if there is none.
	Resource string
	// Explicit reports whether a policy denies it explicitly, so allowing it does not help.
	Explicit bool
	// Detail is AWS's own message, without parts that change with each request.
	Detail string
	Err    error
}

// Error names the action and the missing statement.
func (e *DeniedError) Error() string {
	if e.Explicit {
		return fmt.Sprintf("AWS denies %s: %s; a policy forbids it to the role in use: remove %s on %s from its Deny",
			e.Action, e.Detail, e.Action, e.Resource)
	}
	return fmt.Sprintf(`AWS denies %s: %s; add {"Effect":"Allow","Action":%q,"Resource":%q} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		e.Action, e.Detail, e.Action, e.Resource)
}

// Unwrap returns the SDK's error.
func (e *DeniedError) Unwrap() error { return e.Err }

// deniedResource finds the resource in AWS's message:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
var deniedResource = regexp.MustCompile(`on resource: (\S+)`)

func denied(action, message string, err error) *DeniedError {
	// EC2 appends a blob that differs each time.
	detail, _, _ := strings.Cut(message, " Encoded authorization failure message")
	e := &DeniedError{
		Action: action, Resource: "*", Err: err,
		Detail: strings.TrimSuffix(detail, "."), Explicit: strings.Contains(detail, "explicit deny"),
	}
	if found := deniedResource.FindStringSubmatch(detail); found != nil {
		e.Resource = found[1]
	}
	return e
}

// unconnected reports whether a request got no response because its endpoint was not reached.
func unconnected(err error) bool {
	var send *smithyhttp.RequestSendError
	var network net.Error
	return errors.As(err, &send) || errors.As(err, &network)
}

// cause names the host that was not reached, and why, in a text that is the same each time: without local port and
// time.
func cause(err error) string {
	host := "its endpoint"
	var sent *url.Error
	if errors.As(err, &sent) {
		if target, parsed := url.Parse(sent.URL); parsed == nil && target.Host != "" {
			host = target.Host
		}
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "proxyconnect" {
		host += " by the proxy"
	}
	return host + ": " + reason(err)
}

func reason(err error) string {
	var name *net.DNSError
	var number syscall.Errno
	var certificate x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &name):
		return name.Err
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return "its certificate has expired or is not yet valid"
	case errors.As(err, &network) && network.Timeout():
		return "timed out"
	}
	return innermost(err).Error()
}

// innermost returns the innermost wrapped error.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// ThrottledError means that AWS throttles requests.
type ThrottledError struct {
	Action string
	Err    error
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("AWS throttles %s; plumbline retries", e.Action)
}

// Unwrap returns the SDK's error.
func (e *ThrottledError) Unwrap() error { return e.Err }

// UnreachableError means that AWS did not respond, or responded with an internal error.
type UnreachableError struct {
	Action string
	// Detail is the reason.
	Detail string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("AWS did not respond to %s: %s; plumbline retries", e.Action, e.Detail)
}

// Unwrap returns the SDK's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// PartialError means that a response has more pages than there was time for. The same query, repeated, continues with
// the next page.
type PartialError struct {
	Action string
	Err    error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("AWS's answer to %s has more pages than one pass reads; the next pass continues with it", e.Action)
}

// Unwrap returns the error of the last requested page.
func (e *PartialError) Unwrap() error { return e.Err }

// NotFoundError means that the resource does not exist in AWS.
type NotFoundError struct {
	// What was requested: "EKS cluster demo".
	What string
	// Where it does not exist: "eu-west-1 of account 111122223333".
	Where string
	// Check is what to check; by default the cluster in plumbline.yaml.
	Check string
	Err   error
}

func (e *NotFoundError) Error() string {
	check := cmp.Or(e.Check, "cluster.name and cluster.region in plumbline.yaml, and that plumbline's role is in the cluster's account")
	return fmt.Sprintf("%s does not exist in %s; check %s", e.What, e.Where, check)
}

// Unwrap returns the SDK's error.
func (e *NotFoundError) Unwrap() error { return e.Err }

// named gives an error of the SDK its type.
func named(action string, err error) error {
	var credentials *CredentialsError
	if errors.As(err, &credentials) {
		return withoutCredentials(credentials)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return answered(action, api, err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &UnreachableError{Action: action, Detail: "no answer in time", Err: err}
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("ask AWS for %s: %w", action, context.Canceled)
	case unconnected(err):
		return &UnreachableError{Action: action, Detail: "no connection to " + cause(err), Err: err}
	}
	return fmt.Errorf("ask AWS for %s: %w", action, err)
}

// Throttles reports whether an error code, such as RequestLimitExceeded, means that AWS throttles requests, according
// to the SDK's table (github.com/aws/aws-sdk-go-v2/aws/retry, DefaultThrottleErrorCodes).
func Throttles(code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled
}

// skewed reports whether an error is about the time of a request: by its code (EC2, S3) or, for a signature, by its message (the
// other services): https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
func skewed(code, message string) bool {
	return code == "RequestExpired" || code == "RequestInTheFuture" || code == "RequestTimeTooSkewed" ||
		strings.Contains(message, "Signature expired") || strings.Contains(message, "Signature not yet current")
}

func answered(action string, api smithy.APIError, err error) error {
	code := api.ErrorCode()
	if Throttles(code) {
		return &ThrottledError{Action: action, Err: err}
	}
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		return denied(action, api.ErrorMessage(), err)
	case "AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "InvalidSignatureException",
		"SignatureDoesNotMatch", "UnrecognizedClientException", "RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed",
		"IncompleteSignature":
		return &CredentialsError{Action: action, Code: code, Skewed: skewed(code, api.ErrorMessage()), Err: err}
	}
	var response *smithyhttp.ResponseError
	if api.ErrorFault() == smithy.FaultServer || (errors.As(err, &response) && response.HTTPStatusCode() >= 500) {
		return &UnreachableError{Action: action, Detail: code, Err: err}
	}
	return &AnswerError{Action: action, Code: code, Detail: api.ErrorMessage(), Err: err}
}

// AnswerError is an error response without a type of its own.
type AnswerError struct {
	Action, Code, Detail string
	Err                  error
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("AWS refuses %s: %s: %s", e.Action, e.Code, e.Detail)
}

// Unwrap returns the SDK's error.
func (e *AnswerError) Unwrap() error { return e.Err }
