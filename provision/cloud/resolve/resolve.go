package resolve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awserrors "github.com/aws/karpenter-provider-aws/pkg/errors"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/securitygroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/ssm"
	"github.com/aws/karpenter-provider-aws/pkg/providers/subnet"
	"github.com/go-logr/logr"
	"github.com/patrickmn/go-cache"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

var errNoParameter = errors.New("the answer has no parameter")

// EmptyError means that nothing in AWS matches a selector. Until something does, Karpenter launches no nodes with the
// class and considers none drifted.
type EmptyError struct{ What, Field, Class string }

func (e *EmptyError) Error() string {
	return fmt.Sprintf("AWS has no %s that %s of EC2NodeClass/%s matches: Karpenter launches no node by it, and which nodes it replaces once there is one is unknown", e.What, e.Field, e.Class)
}

// UnsupportedError means that Karpenter does not resolve the alias of a class for the Kubernetes version: it sets
// AMIsReady=False and launches no node with the class.
type UnsupportedError struct {
	Class string
	Err   error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("alias of EC2NodeClass/%s: %v", e.Class, e.Err)
}

// Unwrap returns Karpenter's error.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// noneForAlias is in Karpenter's error if SSM has no parameter for an alias: DescribeImageQuery in
// karpenter-provider-aws pkg/providers/amifamily/al2023.go, 1.14.1, and the files next to it.
const noneForAlias = "failed to discover any AMIs for alias"

// Image is an AMI that Karpenter finds for a class.
type Image struct {
	ID, Name   string
	Deprecated bool
	// Created is when it was made; zero if EC2 does not report it.
	Created time.Time
	// Requirements are those of the nodes that run it.
	Requirements []corev1.NodeSelectorRequirement
}

// AMIs returns those that Karpenter finds for a class, as Images does, in the form of the status of an EC2NodeClass.
func (r *Resolver) AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) (found []awsv1.AMI, err error) {
	images, err := r.Images(ctx, class, kubernetes)
	for _, i := range images {
		found = append(found, awsv1.AMI{ID: i.ID, Name: i.Name, Deprecated: i.Deprecated, Requirements: i.Requirements})
	}
	return found, err
}

// Images returns the AMIs that Karpenter finds for a class in a cluster of a Kubernetes version (1.36), in the order of its
// preference (Reconcile in karpenter-provider-aws pkg/controllers/nodeclass/ami.go, 1.14.1). The alias of the class
// must be well-formed.
func (r *Resolver) Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) (found []Image, err error) {
	q := r.query()
	err = q.guarded(ctx, func(ctx context.Context) error {
		amis, err := amifamily.NewDefaultProvider(at{now: r.now()}, version(kubernetes), q, q, none()).List(ctx, class)
		for _, ami := range amis {
			created, unread := time.Parse(time.RFC3339, ami.CreationDate)
			if unread != nil {
				created = time.Time{}
			}
			found = append(found, Image{ID: ami.AmiID, Name: ami.Name, Deprecated: ami.Deprecated, Created: created, Requirements: requirements(ami)})
		}
		return err
	})
	if err != nil && strings.Contains(err.Error(), noneForAlias) {
		err = nil // SSM has responded: if it could not, the error is another one
	}
	if amifamily.IsAl2DeprecationError(err) || amifamily.IsWS2025UnsupportedVersionError(err) {
		return nil, &UnsupportedError{Class: class.Name, Err: err}
	}
	return found, otherwiseEmpty(err, len(found), "AMI", "amiSelectorTerms", class)
}

// Published returns the AMIs of AWS whose names match one of some patterns, such as amazon-eks-node-al2023-*, in no
// particular order. Deprecated ones are not among them, and there are no Requirements.
func (r *Resolver) Published(ctx context.Context, patterns []string) (found []Image, err error) {
	q := r.query()
	err = q.guarded(ctx, func(ctx context.Context) error {
		out, err := q.DescribeImages(ctx, &ec2.DescribeImagesInput{
			Owners:  []string{"amazon"},
			Filters: []ec2types.Filter{{Name: aws.String("name"), Values: patterns}, {Name: aws.String("state"), Values: []string{"available"}}},
		})
		if err != nil {
			return err
		}
		for i := range out.Images {
			created, unread := time.Parse(time.RFC3339, aws.ToString(out.Images[i].CreationDate))
			if unread == nil {
				found = append(found, Image{ID: aws.ToString(out.Images[i].ImageId), Name: aws.ToString(out.Images[i].Name), Created: created})
			}
		}
		return nil
	})
	return found, err
}

func requirements(ami amifamily.AMI) []corev1.NodeSelectorRequirement {
	var found []corev1.NodeSelectorRequirement
	for _, r := range ami.Requirements.NodeSelectorRequirements() {
		found = append(found, corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return found
}

// Subnets returns the IDs of those that Karpenter finds for a class, sorted.
func (r *Resolver) Subnets(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.query()
	err = q.guarded(ctx, func(ctx context.Context) error {
		subnets, err := subnet.NewDefaultProvider(q, none(), none()).List(ctx, class)
		for i := range subnets {
			found = append(found, aws.ToString(subnets[i].SubnetId))
		}
		return err
	})
	slices.Sort(found)
	return found, otherwiseEmpty(err, len(found), "subnet", "subnetSelectorTerms", class)
}

// SecurityGroups returns the IDs of those that Karpenter finds for a class, sorted.
func (r *Resolver) SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.query()
	err = q.guarded(ctx, func(ctx context.Context) error {
		groups, err := securitygroup.NewDefaultProvider(q, none()).List(ctx, class)
		for i := range groups {
			found = append(found, aws.ToString(groups[i].GroupId))
		}
		return err
	})
	slices.Sort(found)
	return found, otherwiseEmpty(err, len(found), "security group", "securityGroupSelectorTerms", class)
}

// Reservations returns the IDs of the capacity reservations that Karpenter finds for a class, sorted. There may be none
// (Reconcile in karpenter-provider-aws pkg/controllers/nodeclass/capacityreservation.go, 1.14.1).
func (r *Resolver) Reservations(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.query()
	err = q.guarded(ctx, func(ctx context.Context) error {
		clk := at{now: r.now()}
		reservations, err := capacityreservation.NewProvider(q, clk, none(), none()).List(ctx, class.Spec.CapacityReservationSelectorTerms...)
		for _, reservation := range reservations {
			if _, unknown := awsv1.CapacityReservationFromEC2(clk, reservation); unknown == nil {
				found = append(found, aws.ToString(reservation.CapacityReservationId))
			}
		}
		return err
	})
	slices.Sort(found)
	return found, err
}

func otherwiseEmpty(err error, found int, what, field string, class *awsv1.EC2NodeClass) error {
	if err == nil && found == 0 {
		return &EmptyError{What: what, Field: field, Class: class.Name}
	}
	return err
}

func (r *Resolver) query() *question { return &question{Resolver: r} }

// guarded calls Karpenter's library, which panics on a response that it cannot parse, for example an invalid date, and
// logs what it finds. An error of AWS has priority over the library's result.
func (q *question) guarded(ctx context.Context, list func(context.Context) error) (err error) {
	defer func() {
		if unread := recover(); unread != nil {
			err = fmt.Errorf("an answer of AWS cannot be read: %v", unread)
		}
	}()
	err = list(logr.NewContext(ctx, logr.Discard()))
	if q.failed != nil {
		return q.failed
	}
	return err
}

// none returns an empty cache: responses are cached below Karpenter's providers.
func none() *cache.Cache { return cache.New(cache.NoExpiration, 0) }

// version implements Karpenter's version.Provider.
type version string

// Get implements version.Provider.
func (v version) Get(context.Context) string { return string(v) }

// LivenessProbe implements version.Provider.
func (version) LivenessProbe(*http.Request) error { return nil }

// at is a clock that stands still.
type at struct {
	clock.RealClock
	now time.Time
}

// Now returns the time of the clock.
func (a at) Now() time.Time { return a.now }

// question is the client of Karpenter's providers for one resolution. It remembers the first error of AWS: a provider
// ignores some, for example for one of several parameters, and its result from the others is not what Karpenter will
// find.
type question struct {
	// EC2API is nil: Karpenter's lists only call the methods below.
	sdk.EC2API
	*Resolver
	failed error
}

func (q *question) note(err error) {
	if err != nil && q.failed == nil && !awserrors.IsNotFound(err) {
		q.failed = err
	}
}

// DescribeImages implements sdk.EC2API.
func (q *question) DescribeImages(
	ctx context.Context, in *ec2.DescribeImagesInput, _ ...func(*ec2.Options),
) (*ec2.DescribeImagesOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := cachedQuery(ctx, q.Resolver, "ec2:DescribeImages", in, q.api.DescribeImages,
		func(o *ec2.DescribeImagesOutput) bool { return len(o.Images) == 0 })
	q.note(err)
	return out, err
}

// DescribeSubnets implements sdk.EC2API.
func (q *question) DescribeSubnets(
	ctx context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options),
) (*ec2.DescribeSubnetsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := cachedQuery(ctx, q.Resolver, "ec2:DescribeSubnets", in, q.api.DescribeSubnets,
		func(o *ec2.DescribeSubnetsOutput) bool { return len(o.Subnets) == 0 })
	q.note(err)
	return out, err
}

// DescribeSecurityGroups implements sdk.EC2API.
func (q *question) DescribeSecurityGroups(
	ctx context.Context, in *ec2.DescribeSecurityGroupsInput, _ ...func(*ec2.Options),
) (*ec2.DescribeSecurityGroupsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := cachedQuery(ctx, q.Resolver, "ec2:DescribeSecurityGroups", in, q.api.DescribeSecurityGroups,
		func(o *ec2.DescribeSecurityGroupsOutput) bool { return len(o.SecurityGroups) == 0 })
	q.note(err)
	return out, err
}

// DescribeCapacityReservations implements sdk.EC2API.
func (q *question) DescribeCapacityReservations(
	ctx context.Context, in *ec2.DescribeCapacityReservationsInput, _ ...func(*ec2.Options),
) (*ec2.DescribeCapacityReservationsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := cachedQuery(ctx, q.Resolver, "ec2:DescribeCapacityReservations", in, q.api.DescribeCapacityReservations,
		func(o *ec2.DescribeCapacityReservationsOutput) bool { return len(o.CapacityReservations) == 0 })
	q.note(err)
	return out, err
}

// Get reads an SSM parameter, like ssm.Provider.
func (q *question) Get(ctx context.Context, of ssm.Parameter) (string, error) {
	out, err := cachedQuery(ctx, q.Resolver, "ssm:GetParameter", of.GetParameterInput(), q.api.GetParameter,
		func(o *awsssm.GetParameterOutput) bool { return o.Parameter == nil })
	q.note(err)
	if err != nil || out.Parameter == nil {
		return "", cmp.Or[error](err, errNoParameter)
	}
	return aws.ToString(out.Parameter.Value), nil
}

// sorted sorts filters: Karpenter iterates over maps, in random order.
func sorted(filters []ec2types.Filter) []ec2types.Filter {
	found := make([]ec2types.Filter, 0, len(filters))
	for _, f := range filters {
		found = append(found, ec2types.Filter{Name: f.Name, Values: slices.Sorted(slices.Values(f.Values))})
	}
	slices.SortStableFunc(found, func(a, b ec2types.Filter) int { return cmp.Compare(aws.ToString(a.Name), aws.ToString(b.Name)) })
	return found
}

const (
	// answerValidFor is how long a response is valid: Karpenter looks up AMIs and security groups every five minutes
	// (karpenter-provider-aws pkg/controllers/nodeclass, 1.14.1).
	answerValidFor = 5 * time.Minute
	// errorValidFor is how long an error or an empty response is valid: what is missing may exist soon.
	errorValidFor = time.Minute
)

// answers are AWS's responses by query.
type answers struct {
	mu sync.Mutex
	of map[string]answer
}

type answer struct {
	out   any
	err   error
	until time.Time
}

// find returns a response that is still valid.
func (a *answers) find(key string, now time.Time) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.of[key]
	return found, ok && now.Before(found.until)
}

// keep stores a response, and drops expired ones.
func (a *answers) keep(key string, kept answer, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.of, func(_ string, old answer) bool { return !now.Before(old.until) })
	if a.of == nil {
		a.of = map[string]answer{}
	}
	a.of[key] = kept
}

// cachedQuery returns the cached response, or queries AWS within the budget. empty reports whether a response contains
// nothing.
func cachedQuery[In, Out any](
	ctx context.Context, r *Resolver, action string, in *In, call func(context.Context, *In) (*Out, error), empty func(*Out) bool,
) (*Out, error) {
	question, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("name the question %s: %w", action, err)
	}
	key, now := action+string(question), r.now()
	if known, ok := r.answers.find(key, now); ok {
		out, _ := known.out.(*Out)
		return out, known.err
	}
	if err := r.budget.Take(now, action, 1); err != nil {
		return nil, err
	}
	out, err := call(ctx, in)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	until := now.Add(answerValidFor)
	if err != nil || empty(out) {
		until = now.Add(errorValidFor)
	}
	r.answers.keep(key, answer{out: out, err: err, until: until}, now)
	return out, err
}

// For one account and region, EC2 allows 100 describe requests at once and then 20 a second
// (https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html), and SSM 40 a second
// (https://docs.aws.amazon.com/general/latest/gr/ssm.html). With many nodes, Karpenter needs most of that. This is a
// fortieth of it.
const (
	perSecond = 0.5
	atOnce    = 40
	// reopenWith is how many queries are available when the budget reopens after it was used up.
	reopenWith = 20
)

// BusyError means that AWS is not queried now because it was queried too often.
type BusyError struct {
	Action string
	// Again is when it can be queried again.
	Again time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("AWS is not asked for %s now: asked too often, again at %s", e.Action, e.Again.UTC().Format(time.TimeOnly))
}

// Budget limits the number of queries. Once used up, it stays closed until it has capacity for several queries. The
// zero value is full.
type Budget struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	closed  time.Time
}

// Take takes n queries, or returns when some are available again.
func (b *Budget) Take(now time.Time, action string, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limiter == nil {
		b.limiter = rate.NewLimiter(perSecond, atOnce)
	}
	n = min(n, atOnce)
	if !now.Before(b.closed) && b.limiter.AllowN(now, n) {
		return nil
	}
	if !now.Before(b.closed) {
		missing := float64(max(n, reopenWith)) - b.limiter.TokensAt(now)
		b.closed = now.Add(time.Duration(missing / perSecond * float64(time.Second))).Add(time.Second).Truncate(time.Second)
	}
	return &BusyError{Action: action, Again: b.closed}
}
