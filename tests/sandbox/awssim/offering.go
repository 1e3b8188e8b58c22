package awssim

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) offeringActions() map[string]action {
	return map[string]action{
		"DescribeInstanceTypes":         query(a, a.describeInstanceTypes),
		"DescribeInstanceTypeOfferings": query(a, a.describeInstanceTypeOfferings),
		"DescribeSpotPriceHistory":      query(a, a.describeSpotPriceHistory),
		"DescribeCapacityReservations":  query(a, a.describeCapacityReservations),
		"DescribePlacementGroups":       query(a, a.describePlacementGroups),
	}
}

// offering is an instance type offered in a zone.
type offering struct {
	catalog.InstanceType
	location string
	usd      float64 // spot
}

// tags implements tagged: offerings have none.
func (o offering) tags() map[string]string { return nil }

func (o offering) key() string { return o.Name + "/" + o.location }

func offeringAttributes() attributes[offering] {
	return attributes[offering]{
		"instance-type":                         one(func(o offering) string { return o.Name }),
		"location":                              one(func(o offering) string { return o.location }),
		"availability-zone":                     one(func(o offering) string { return o.location }),
		"bare-metal":                            one(func(o offering) string { return strconv.FormatBool(o.Metal) }),
		"current-generation":                    one(func(offering) string { return "true" }),
		"processor-info.supported-architecture": one(func(o offering) string { return o.Arch }),
		"supported-virtualization-type":         one(func(offering) string { return "hvm" }),
		"supported-usage-class":                 func(offering) []string { return []string{onDemand, spot} },
		"product-description":                   one(func(offering) string { return "Linux/UNIX" }),
	}
}

func (a *account) describeInstanceTypes(r *request, in *ec2.DescribeInstanceTypesInput) (*ec2.DescribeInstanceTypesOutput, error) {
	matches, err := selector(in.Filters, offeringAttributes())
	if err != nil {
		return nil, err
	}
	var selected []offering
	for _, name := range in.InstanceTypes {
		if _, ok := a.types[*name]; !ok {
			return nil, wire.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", *name)
		}
	}
	for _, t := range a.types {
		named := len(in.InstanceTypes) == 0 || slices.Contains(aws.StringValueSlice(in.InstanceTypes), t.Name)
		if o := (offering{InstanceType: t}); named && matches(o) {
			selected = append(selected, o)
		}
	}
	selected, next, err := ec2Page(a, r, selected, offering.key, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeInstanceTypesOutput{NextToken: next, InstanceTypes: []*ec2.InstanceTypeInfo{}}
	for _, o := range selected {
		out.InstanceTypes = append(out.InstanceTypes, o.Info())
	}
	return out, nil
}

// offerings returns all instance types in all zones that have them.
func (a *account) offerings() []offering {
	var all []offering
	for _, t := range a.types {
		for n, zone := range t.Zones(a.options.Zones) {
			all = append(all, offering{InstanceType: t, location: zone, usd: t.SpotUSD(n)})
		}
	}
	return all
}

func (a *account) describeInstanceTypeOfferings(r *request, in *ec2.DescribeInstanceTypeOfferingsInput) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	matches, err := selector(in.Filters, offeringAttributes())
	if err != nil {
		return nil, err
	}
	kind := aws.StringValue(in.LocationType)
	var all []offering
	switch kind {
	case "", ec2.LocationTypeRegion:
		kind = ec2.LocationTypeRegion
		for _, t := range a.types {
			all = append(all, offering{InstanceType: t, location: a.options.Region})
		}
	case ec2.LocationTypeAvailabilityZone:
		all = a.offerings()
	case ec2.LocationTypeAvailabilityZoneId:
		all = a.offerings()
		for i := range all {
			all[i].location = a.zoneID(all[i].location)
		}
	default:
		return nil, wire.Errorf("InvalidParameterValue", "the simulator has no locations of type %q", kind)
	}
	all = slices.DeleteFunc(all, func(o offering) bool { return !matches(o) })
	all, next, err := ec2Page(a, r, all, offering.key, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeInstanceTypeOfferingsOutput{NextToken: next, InstanceTypeOfferings: []*ec2.InstanceTypeOffering{}}
	for _, o := range all {
		out.InstanceTypeOfferings = append(out.InstanceTypeOfferings, &ec2.InstanceTypeOffering{
			InstanceType: aws.String(o.Name), Location: aws.String(o.location), LocationType: aws.String(kind),
		})
	}
	return out, nil
}

// describeSpotPriceHistory returns a history of one price, set now.
func (a *account) describeSpotPriceHistory(r *request, in *ec2.DescribeSpotPriceHistoryInput) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	matches, err := selector(in.Filters, offeringAttributes())
	if err != nil {
		return nil, err
	}
	wanted := aws.StringValueSlice(in.InstanceTypes)
	all := slices.DeleteFunc(a.offerings(), func(o offering) bool {
		return !matches(o) || len(wanted) > 0 && !slices.Contains(wanted, o.Name) ||
			in.AvailabilityZone != nil && *in.AvailabilityZone != o.location
	})
	all, next, err := ec2Page(a, r, all, offering.key, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeSpotPriceHistoryOutput{NextToken: next, SpotPriceHistory: []*ec2.SpotPrice{}}
	for _, o := range all {
		out.SpotPriceHistory = append(out.SpotPriceHistory, &ec2.SpotPrice{
			InstanceType: aws.String(o.Name), AvailabilityZone: aws.String(o.location), ProductDescription: aws.String("Linux/UNIX"),
			SpotPrice: aws.String(strconv.FormatFloat(o.usd, 'f', 6, 64)), Timestamp: aws.Time(a.now),
		})
	}
	return out, nil
}

// describeCapacityReservations: the account has none.
func (a *account) describeCapacityReservations(*request, *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
	return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: []*ec2.CapacityReservation{}}, nil
}

// describePlacementGroups: the account has none, and naming one is an error.
func (a *account) describePlacementGroups(_ *request, in *ec2.DescribePlacementGroupsInput) (*ec2.DescribePlacementGroupsOutput, error) {
	if names := append(in.GroupNames, in.GroupIds...); len(names) > 0 {
		return nil, wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", *names[0])
	}
	return &ec2.DescribePlacementGroupsOutput{PlacementGroups: []*ec2.PlacementGroup{}}, nil
}
