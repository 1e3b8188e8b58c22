package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
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
	// Reached gets the points of each request by which an Ender ends something, "before ec2:DeleteVolume" and "after" it; nil
	// where nobody wants them.
	Reached func(point string)
}

// Client asks AWS in one region, with the credentials and endpoints of the
// SDK's default chain.
type Client struct {
	region  string
	timeout time.Duration
	now     func() time.Time
	// listings are answers about instances that were not read to their end yet.
	listings listings

	// caches keep the credentials until they expire, or until AWS refuses them.
	caches []*aws.CredentialsCache
	ec2    *ec2.Client
	eks    *eks.Client
	sts    *sts.Client
	ssm    *ssm.Client
	iam    *iam.Client
	// resolver answers what selectors match.
	resolver  *resolve.Resolver
	sightings sightings
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
				s.MaxBackoff = maxBackoff
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
	c := &Client{region: o.Region, timeout: o.Timeout, now: time.Now}
	if cfg.Credentials != nil {
		if loaded, ok := cfg.Credentials.(*aws.CredentialsCache); ok {
			c.caches = append(c.caches, loaded)
		}
		named := aws.NewCredentialsCache(namedCredentials{cfg.Credentials})
		c.caches, cfg.Credentials = append(c.caches, named), named
	}
	c.ec2, c.eks, c.sts, c.ssm = ec2.NewFromConfig(cfg), eks.NewFromConfig(cfg), sts.NewFromConfig(cfg), ssm.NewFromConfig(cfg)
	c.iam = iam.NewFromConfig(cfg)
	c.resolver = newResolver(c)
	return c, nil
}

// maxBackoff is the longest pause between two tries of one request: all of them
// together stay below what a pass has for AWS, so that what AWS answered is reported,
// and not that time ran out.
const maxBackoff = 2 * time.Second

// named gives an error of the SDK its type. Credentials that AWS refuses are
// fetched again for the next question, however long they say that they last:
// an administrator who took them back has put others in their place, or will.
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
