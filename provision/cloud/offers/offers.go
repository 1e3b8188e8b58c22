package offers

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	"github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"github.com/go-logr/logr"
	"github.com/patrickmn/go-cache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// Settings are those of Karpenter's controller that instance types depend on.
type Settings struct {
	VMMemoryOverheadPercent float64 `json:"vmMemoryOverheadPercent"`
	ReservedENIs            int     `json:"reservedENIs,omitempty"`
}

// Defaults are the settings that the controller has where the chart sets none
// (karpenter-provider-aws pkg/operator/options/options.go, 1.14.1).
func Defaults() Settings { return Settings{VMMemoryOverheadPercent: 0.075} }

// Offers makes Karpenter's instance types of a Catalog.
type Offers struct {
	catalog  *Catalog
	settings Settings
	types    *instancetype.DefaultProvider
}

// New makes Offers. A Catalog that EC2 cannot have answered is an error.
func New(ctx context.Context, catalog *Catalog, settings Settings) (*Offers, error) {
	if err := catalog.check(); err != nil {
		return nil, err
	}
	o := &Offers{catalog: catalog, settings: settings}
	answers := recorded{catalog: catalog}
	never := func() *cache.Cache { return cache.New(cache.NoExpiration, 0) }
	o.types = instancetype.NewDefaultProvider(
		never(), never(), never(), answers, nil,
		pricing.NewDefaultProvider(nil, answers, catalog.Region, true), nil, noGroups{},
		awscache.NewUnavailableOfferings(), instancetype.NewDefaultResolver(catalog.Region), arczonalshift.NewNoopProvider(), nil,
	)
	return o, errors.Join(o.types.UpdateInstanceTypes(o.with(ctx)), o.types.UpdateInstanceTypeOfferings(o.with(ctx)))
}

// anywhere is the region whose prices the provider takes for one that its tables lack.
const anywhere = "us-east-1"

// PricesOf is the region that the prices are of: the own one, or us-east-1 where the tables lack it
// (Reset in karpenter-provider-aws pkg/providers/pricing/pricing.go, 1.14.1).
func (o *Offers) PricesOf() string {
	for _, table := range []map[string]map[ec2types.InstanceType]float64{pricing.InitialOnDemandPricesAWS, pricing.InitialOnDemandPricesUSGov, pricing.InitialOnDemandPricesCN} {
		if len(table[o.catalog.Region]) > 0 {
			return o.catalog.Region
		}
	}
	return anywhere
}

// Region that the Offers are of.
func (o *Offers) Region() string { return o.catalog.Region }

// InstanceTypes are those of an EC2NodeClass, whose status has the zones of its subnets, with
// their offerings. What its capacity reservations have free is not known: they count as none.
func (o *Offers) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) (types []*cloudprovider.InstanceType, err error) {
	defer func() {
		// The library ends in a panic on values that it cannot parse.
		if said := recover(); said != nil {
			types, err = nil, fmt.Errorf("EC2NodeClass/%s: Karpenter's library cannot make instance types of it: %v", class.Name, said)
		}
	}()
	class = class.DeepCopy()
	class.Status.CapacityReservations = nil
	return o.types.List(o.with(ctx), class)
}

// Observe takes what a node of an instance type says of its memory, which Karpenter believes more
// than its own estimate.
func (o *Offers) Observe(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) error {
	return o.types.UpdateInstanceTypeCapacityFromNode(o.with(ctx), node, claim, class)
}

// with has the settings where the provider looks for them. Of the core's it asks whether overlays
// make an offering of a type that has no price: here they do not.
func (o *Offers) with(ctx context.Context) context.Context {
	ctx = log.IntoContext(coreoptions.ToContext(ctx, &coreoptions.Options{}), logr.Discard())
	return options.ToContext(ctx, &options.Options{VMMemoryOverheadPercent: o.settings.VMMemoryOverheadPercent, ReservedENIs: o.settings.ReservedENIs})
}

// recorded answers the provider's two questions to EC2 out of a Catalog. It asks no other.
type recorded struct {
	sdk.EC2API
	catalog *Catalog
}

// DescribeInstanceTypes answers with all of them at once.
func (r recorded) DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: r.catalog.Types}, nil
}

// DescribeInstanceTypeOfferings answers with all of them at once.
func (r recorded) DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	out := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for name, zones := range r.catalog.Zones {
		for _, zone := range zones {
			out.InstanceTypeOfferings = append(out.InstanceTypeOfferings, ec2types.InstanceTypeOffering{
				InstanceType: ec2types.InstanceType(name), LocationType: ec2types.LocationTypeAvailabilityZone, Location: ptr.To(zone),
			})
		}
	}
	return out, nil
}

// noGroups knows no placement group.
type noGroups struct{}

var errNoGroups = errors.New("placement groups are not known")

// Get knows none.
func (noGroups) Get(context.Context, placementgroup.NodeClass) (*placementgroup.PlacementGroup, error) {
	return nil, errNoGroups
}
