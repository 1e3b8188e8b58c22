package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/securitygroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/subnet"
	"github.com/go-logr/logr"
	"github.com/patrickmn/go-cache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

var errNoParameter = errors.New("the answer has no parameter")

// EmptyError says that AWS has nothing that a selector matches. Karpenter makes no node by such a
// class and finds none outdated, until there is something.
type EmptyError struct{ What, Field, Class string }

func (e *EmptyError) Error() string {
	return fmt.Sprintf("AWS has no %s that %s of EC2NodeClass/%s matches: Karpenter launches no node by it, and which nodes it replaces once there is one cannot be told", e.What, e.Field, e.Class)
}

// noneForAlias is in Karpenter's error if SSM has no parameter of an alias: DescribeImageQuery in karpenter-provider-aws
// pkg/providers/amifamily/al2023.go, 1.14.1, and beside it.
const noneForAlias = "failed to discover any AMIs for alias"

// AMIs are those that Karpenter finds for a class in a cluster of a Kubernetes version (1.36), in
// the order of its preference (Reconcile in karpenter-provider-aws
// pkg/controllers/nodeclass/ami.go, 1.14.1). The alias of the class has to be well-formed.
func (r *Resolver) AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) (found []awsv1.AMI, err error) {
	q := r.ask()
	err = q.guarded(ctx, func(ctx context.Context) error {
		amis, err := amifamily.NewDefaultProvider(at{now: r.now()}, version(kubernetes), q, q, none()).List(ctx, class)
		for _, ami := range amis {
			found = append(found, awsv1.AMI{ID: ami.AmiID, Name: ami.Name, Deprecated: ami.Deprecated, Requirements: requirements(ami)})
		}
		return err
	})
	if err != nil && strings.Contains(err.Error(), noneForAlias) {
		err = nil // SSM has answered: what keeps it from answering is another error
	}
	return found, otherwiseEmpty(err, len(found), "AMI", "amiSelectorTerms", class)
}

func requirements(ami amifamily.AMI) []corev1.NodeSelectorRequirement {
	var found []corev1.NodeSelectorRequirement
	for _, r := range ami.Requirements.NodeSelectorRequirements() {
		found = append(found, corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return found
}

// Subnets are the IDs of those that Karpenter finds for a class, sorted.
func (r *Resolver) Subnets(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.ask()
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

// SecurityGroups are the IDs of those that Karpenter finds for a class, sorted.
func (r *Resolver) SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.ask()
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

// Reservations are the IDs of the capacity reservations that Karpenter finds for a class, sorted.
// There may be none (Reconcile in karpenter-provider-aws
// pkg/controllers/nodeclass/capacityreservation.go, 1.14.1).
func (r *Resolver) Reservations(ctx context.Context, class *awsv1.EC2NodeClass) (found []string, err error) {
	q := r.ask()
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

func (r *Resolver) ask() *question { return &question{Resolver: r} }

// guarded calls Karpenter's library, which does not return from an answer that it cannot read, as
// of a date that is none, and logs what it finds. What AWS said comes before what the library made
// of it.
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

// none is a cache in which nothing is: answers are kept below Karpenter's providers.
func none() *cache.Cache { return cache.New(cache.NoExpiration, 0) }

// version is what Karpenter's version.Provider says.
type version string

// Get is version.Provider's.
func (v version) Get(context.Context) string { return string(v) }

// LivenessProbe is version.Provider's.
func (version) LivenessProbe(*http.Request) error { return nil }

// at is a clock that stands still.
type at struct {
	clock.RealClock
	now time.Time
}

// Now is the time at which it stands.
func (a at) Now() time.Time { return a.now }
