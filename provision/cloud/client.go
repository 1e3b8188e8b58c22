package cloud

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Options say how to reach AWS.
type Options struct {
	// Region to ask in. Required: the SDK's own default would be that of the
	// machine, which is not the cluster's.
	Region string
	// Timeout bounds one question with all its pages and retries. Default 20 s.
	Timeout time.Duration
	// Attempts is how often the SDK tries one request. Default 3.
	Attempts int
	// UserAgent is added to the SDK's own, so that CloudTrail tells who asked.
	UserAgent string
}

// Client asks AWS in one region, with the credentials and endpoints of the
// SDK's default chain.
type Client struct {
	region  string
	timeout time.Duration
	ec2     *ec2.Client
	eks     *eks.Client
	sts     *sts.Client
}

// New makes a Client. It makes no request: credentials are fetched with the
// first question.
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
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(s *retry.StandardOptions) {
				s.MaxAttempts = o.Attempts
				s.MaxBackoff = 5 * time.Second
			})
		}),
	}
	if o.UserAgent != "" {
		load = append(load, config.WithAppID(o.UserAgent))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if cfg.Credentials != nil {
		cfg.Credentials = aws.NewCredentialsCache(namedCredentials{cfg.Credentials})
	}
	return &Client{
		region:  o.Region,
		timeout: o.Timeout,
		ec2:     ec2.NewFromConfig(cfg),
		eks:     eks.NewFromConfig(cfg),
		sts:     sts.NewFromConfig(cfg),
	}, nil
}

// namedCredentials makes a failure to get credentials one that can be told
// from all others: the SDK wraps it in operation errors without a code.
type namedCredentials struct{ aws.CredentialsProvider }

func (n namedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := n.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return found, &CredentialsError{Err: err}
	}
	return found, nil
}
