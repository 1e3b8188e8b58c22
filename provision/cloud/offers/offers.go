package offers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
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

// Settings are those of Karpenter's controller that affect instance types.
type Settings struct {
	VMMemoryOverheadPercent float64 `json:"vmMemoryOverheadPercent"`
	ReservedENIs            int     `json:"reservedENIs,omitempty"`
	// NodeClassCEL reports whether the feature gate of that name is enabled: without it, expressions in spec.kubelet have
	// no effect.
	NodeClassCEL bool `json:"nodeClassCEL,omitempty"`
}

// Defaults returns the controller's settings if the chart sets none (karpenter-provider-aws
// pkg/operator/options/options.go, 1.14.1).
func Defaults() Settings { return Settings{VMMemoryOverheadPercent: 0.075} }

// Offers makes Karpenter's instance types from a Catalog.
type Offers struct {
	catalog  *Catalog
	settings Settings
	types    *instancetype.DefaultProvider
}

// New returns Offers. It returns an error for a Catalog that cannot be EC2's response.
func New(ctx context.Context, catalog *Catalog, settings Settings) (*Offers, error) {
	if err := catalog.check(); err != nil {
		return nil, err
	}
	expressions, err := kubeletcel.NewEnvironment()
	if err != nil {
		return nil, fmt.Errorf("prepare the expressions of spec.kubelet: %w", err)
	}
	o := &Offers{catalog: catalog, settings: settings}
	answers := recorded{catalog: catalog}
	never := func() *cache.Cache { return cache.New(cache.NoExpiration, 0) }
	o.types = instancetype.NewDefaultProvider(
		never(), never(), never(), answers, nil,
		pricing.NewDefaultProvider(nil, answers, catalog.Region, true), nil, noGroups{},
		awscache.NewUnavailableOfferings(), instancetype.NewDefaultResolver(catalog.Region, expressions), arczonalshift.NewNoopProvider(), nil, expressions,
	)
	return o, errors.Join(o.types.UpdateInstanceTypes(o.with(ctx)), o.types.UpdateInstanceTypeOfferings(o.with(ctx)))
}

// fallbackRegion is the region whose prices the provider uses for a region that is not in its tables.
const fallbackRegion = "us-east-1"

// ListPrice returns the on-demand price of an instance type in US dollars an hour, from the provider's tables. Like the
// provider, it takes that of us-east-1 in a region that is not in them. ok is false for an unknown type, and in China, whose
// prices are in another currency.
func ListPrice(region, instanceType string) (price float64, ok bool) {
	if strings.HasPrefix(region, "cn-") {
		return 0, false
	}
	for _, prices := range []map[ec2types.InstanceType]float64{
		pricing.InitialOnDemandPricesAWS[region], pricing.InitialOnDemandPricesUSGov[region], pricing.InitialOnDemandPricesAWS[fallbackRegion],
	} {
		if price, ok = prices[ec2types.InstanceType(instanceType)]; ok {
			return price, true
		}
	}
	return 0, false
}

// PricesOf returns the region of the prices: the catalog's region, or us-east-1 if the tables do not contain it (Reset
// in karpenter-provider-aws pkg/providers/pricing/pricing.go, 1.14.1).
func (o *Offers) PricesOf() string { return PriceRegion(o.catalog.Region) }

// PriceRegion returns the region whose prices are used in a region: itself, or us-east-1 if the tables do not contain it.
func PriceRegion(region string) string {
	for _, table := range []map[string]map[ec2types.InstanceType]float64{pricing.InitialOnDemandPricesAWS, pricing.InitialOnDemandPricesUSGov, pricing.InitialOnDemandPricesCN} {
		if len(table[region]) > 0 {
			return region
		}
	}
	return fallbackRegion
}

// Region returns the region of the Offers.
func (o *Offers) Region() string { return o.catalog.Region }

// InstanceTypes returns those of an EC2NodeClass, whose status has the zones of its subnets, with their offerings. The
// free capacity of its capacity reservations is unknown: they count as none.
func (o *Offers) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) (types []*cloudprovider.InstanceType, err error) {
	defer func() {
		// The library panics on values that it cannot parse.
		if said := recover(); said != nil {
			types, err = nil, fmt.Errorf("EC2NodeClass/%s: Karpenter's library cannot make instance types of it: %v", class.Name, said)
		}
	}()
	class = class.DeepCopy()
	class.Status.CapacityReservations = nil
	return o.types.List(o.with(ctx), class)
}

// Observe records the memory that a node of an instance type reports, which Karpenter prefers to its own estimate.
func (o *Offers) Observe(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) error {
	return o.types.UpdateInstanceTypeCapacityFromNode(o.with(ctx), node, claim, class)
}

// with sets the settings where the provider reads them. The provider also reads from the core's options whether
// overlays can price an offering that has no price: here they cannot.
func (o *Offers) with(ctx context.Context) context.Context {
	ctx = log.IntoContext(coreoptions.ToContext(ctx, &coreoptions.Options{}), logr.Discard())
	return options.ToContext(ctx, &options.Options{
		VMMemoryOverheadPercent: o.settings.VMMemoryOverheadPercent, ReservedENIs: o.settings.ReservedENIs,
		FeatureGates: options.FeatureGates{NodeClassCEL: o.settings.NodeClassCEL},
	})
}

// recorded answers the provider's two queries to EC2 from a Catalog. The provider makes no others.
type recorded struct {
	sdk.EC2API
	catalog *Catalog
}

// DescribeInstanceTypes returns all of them in one page.
func (r recorded) DescribeInstanceTypes(
	context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options),
) (*ec2.DescribeInstanceTypesOutput, error) {
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: r.catalog.Types}, nil
}

// DescribeInstanceTypeOfferings returns all of them in one page.
func (r recorded) DescribeInstanceTypeOfferings(
	context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options),
) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
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

// noGroups has no placement groups.
type noGroups struct{}

var errNoGroups = errors.New("placement groups are not known")

// Get always returns an error.
func (noGroups) Get(context.Context, placementgroup.NodeClass) (*placementgroup.PlacementGroup, error) {
	return nil, errNoGroups
}
