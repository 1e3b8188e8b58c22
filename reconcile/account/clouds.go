package account

import (
	"context"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
)

// Cloud is what is asked of AWS: what this room asks, and what others do that share its clients.
type Cloud interface {
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)

	AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error)
	Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	Reservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	Running(ctx context.Context, query cloud.Query) (map[string]cloud.Instance, error)
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
	AttachedVolumes(ctx context.Context, cluster string) ([]cloud.Resource, error)
	LeftBehind(ctx context.Context, cluster string, profiles bool) ([]cloud.Answer, error)
	TerminationProtected(ctx context.Context, providerID string) (bool, error)
	Catalog(ctx context.Context) (*offers.Catalog, error)
}

// Clouds are the clients in use, by region; it has none at first.
type Clouds struct {
	// Dial makes the client of a region. It makes no request.
	Dial Dialer

	mu sync.Mutex
	of map[string]Cloud
}

// Dialer returns the client of a region.
type Dialer func(ctx context.Context, region string) (Cloud, error)

// in returns the client of a region, dialled the first time.
func (c *Clouds) in(ctx context.Context, region string) (Cloud, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.of[region]; ok {
		return known, nil
	}
	client, err := c.Dial(ctx, region)
	if err != nil {
		return nil, err
	}
	if c.of == nil {
		c.of = map[string]Cloud{}
	}
	c.of[region] = client
	return client, nil
}

// maxPatience is the longest that AWS may hold up a pass: a push or a drift
// must not wait for a cloud that does not answer.
const maxPatience = 15 * time.Second

// Patience is how long one of a pass's two questions may take, that about the account
// and that about removals, given how long a pass may take.
func Patience(timeout time.Duration) time.Duration { return min(timeout, maxPatience) / 2 }

// Within returns the clients, whose answers about instances are waited for no longer than
// patience.
func (c *Clouds) Within(patience time.Duration) Dialer {
	return func(ctx context.Context, region string) (Cloud, error) {
		client, err := c.in(ctx, region)
		if err != nil {
			return nil, err
		}
		return impatient{Cloud: client, patience: patience}, nil
	}
}

type impatient struct {
	Cloud
	patience time.Duration
}

func (c impatient) Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	return c.Cloud.Instances(ctx, query)
}
