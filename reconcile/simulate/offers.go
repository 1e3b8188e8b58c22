package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Offers are the instance types that could be launched.
type Offers interface {
	// InstanceTypes returns those of an EC2NodeClass.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]*cloudprovider.InstanceType, error)
	// Observe records the memory of its instance type that a node reports.
	Observe(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) error
	// Region returns their region, and PricesOf the region of their prices.
	Region() string
	PricesOf() string
}

// provider implements the part of a cloud provider that scheduling uses.
type provider struct {
	cloudprovider.CloudProvider
	client client.Reader
	offers Offers
	mu     sync.Mutex
	known  map[string][]*cloudprovider.InstanceType
	failed map[string]error
}

var (
	errClass = errors.New("it does not exist")
	errAlias = errors.New("Karpenter does not support the AMI alias")
)

// failures returns for which classes there are no instance types, and why.
func (p *provider) failures() (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(p.failed)) {
		notes = append(notes, fmt.Sprintf("unavailable: NodePools of EC2NodeClass/%s get no pods in this simulation: %v", name, p.failed[name]))
	}
	return notes
}

// GetInstanceTypes returns those of a NodePool's class, which pools share.
func (p *provider) GetInstanceTypes(ctx context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pool.Spec.Template.Spec.NodeClassRef.Name
	if found, known := p.known[name]; known || p.failed[name] != nil {
		return append([]*cloudprovider.InstanceType(nil), found...), p.failed[name]
	}
	class := &awsv1.EC2NodeClass{}
	err := p.client.Get(ctx, types.NamespacedName{Name: name}, class)
	switch {
	case err != nil:
		err = errClass
	case !plan.Hashable(class):
		err = errAlias
	default:
		p.known[name], err = p.offers.InstanceTypes(ctx, class)
	}
	if err != nil {
		delete(p.known, name)
		p.failed[name] = err
	}
	return append([]*cloudprovider.InstanceType(nil), p.known[name]...), p.failed[name]
}

// GetSupportedNodeClasses returns EC2's.
func (*provider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

// Name returns the provider's name.
func (*provider) Name() string { return "aws" }

// recorder keeps what Karpenter would report about pods that it does not even try to schedule, and the NodePools about
// which it would report that no instance type meets their requirements.
type recorder struct {
	mu    sync.Mutex
	said  map[types.NamespacedName]string
	unmet map[string]*karpv1.NodePool
}

// Publish keeps these events about pods and NodePools.
func (r *recorder) Publish(published ...events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range published {
		if pod, ok := event.InvolvedObject.(*corev1.Pod); ok && event.Reason == events.FailedScheduling {
			r.said[client.ObjectKeyFromObject(pod)] = event.Message
		}
		if pool, ok := event.InvolvedObject.(*karpv1.NodePool); ok && event.Reason == events.NoCompatibleInstanceTypes {
			r.unmet[pool.Name] = pool
		}
	}
}

// price sums up what the pools' nodes cost before and after.
func (s *simulation) price(ctx context.Context, offers Offers) {
	if of := offers.PricesOf(); of != offers.Region() {
		s.out.Cost.PricesOf = of
	}
	cost, today, then := &s.out.Cost, newPrices(s.before), newPrices(s.after)
	for i := range s.capture.NodeClaims {
		claim := &s.capture.NodeClaims[i]
		before, known := today.of(ctx, claim)
		if !known {
			cost.Unpriced++
			continue
		}
		if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
			cost.Spot++
		}
		cost.Before += before
		if s.commit.Touched[claim.UID] || claim.DeletionTimestamp != nil {
			continue
		}
		after := before
		if priced, known := then.of(ctx, claim); known {
			after = priced
		}
		cost.Lowest, cost.Highest = cost.Lowest+after, cost.Highest+after
	}
	for _, n := range s.out.New {
		cost.Lowest += float64(n.Count) * n.Lowest
		cost.Highest += float64(n.Count) * n.Highest
	}
}

// prices are those of instance types in each pool, because overlays differ between pools.
type prices struct {
	world *world
	types map[string]map[string]*cloudprovider.InstanceType
}

func newPrices(w *world) *prices {
	return &prices{world: w, types: map[string]map[string]*cloudprovider.InstanceType{}}
}

// of returns the price per hour of a NodeClaim's node, and whether it is known.
func (p *prices) of(ctx context.Context, claim *karpv1.NodeClaim) (float64, bool) {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	if p.types[pool] == nil {
		p.types[pool] = map[string]*cloudprovider.InstanceType{}
		found := &karpv1.NodePool{}
		if p.world.client.Get(ctx, client.ObjectKey{Name: pool}, found) == nil {
			offered, err := p.world.cloud.GetInstanceTypes(ctx, found)
			if err != nil {
				offered = nil // its nodes have no price, and are counted in Unpriced
			}
			for _, t := range offered {
				p.types[pool][t.Name] = t
			}
		}
	}
	t := p.types[pool][claim.Labels[corev1.LabelInstanceTypeStable]]
	if t == nil {
		return 0, false
	}
	price, known := t.OfferingPrice(claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey])
	return price, known && price > 0
}

// note records what is not counted.
func (s *simulation) note() {
	s.out.Notes = append(s.out.Notes, s.after.bare.failures()...)
	s.out.Notes = append(s.out.Notes, s.after.placeholders.notes...)
	if s.capture.Settings.SchedulerConfig {
		s.out.Notes = append(s.out.Notes, "the default topology spread in Karpenter's SCHEDULER_CONFIG is not counted")
	}
	if older := plan.OlderScheduling(s.capture.Settings.Karpenter); older != "" {
		s.out.Notes = append(s.out.Notes, older)
	}
	for _, unread := range s.capture.Unread {
		s.out.Notes = append(s.out.Notes, "not counted: "+unread)
	}
	if overlays := s.definitions(render.NodeOverlay); overlays > 0 && !s.capture.Settings.NodeOverlay {
		s.out.Notes = append(s.out.Notes, fmt.Sprintf("%d NodeOverlays have no effect: the feature gate NodeOverlay is off", overlays))
	}
	if buffers := s.definitions(render.CapacityBuffer); buffers > 0 && !s.capture.Settings.CapacityBuffer {
		s.out.Notes = append(s.out.Notes, fmt.Sprintf("%d CapacityBuffers have no effect: the feature gate CapacityBuffer is off", buffers))
	}
}

// definitions returns how many objects of a kind there are after the commit.
func (s *simulation) definitions(kind string) (n int) {
	for _, definition := range s.commit.Definitions {
		if definition["kind"] == kind {
			n++
		}
	}
	return n
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func named(key client.ObjectKey) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}
