package awssim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) pricingActions() map[string]action {
	return map[string]action{"GetProducts": document(a.getProducts)}
}

type getProductsInput struct {
	ServiceCode string
	Filters     []struct{ Field, Type, Value string }
	MaxResults  *int64
	NextToken   *string
}

type getProductsOutput struct {
	FormatVersion string
	PriceList     []string // JSON in strings: that is the service's format
	NextToken     *string  `json:",omitempty"`
}

// productAttributes returns the attributes of an instance type for filters and clients.
func (a *account) productAttributes(t catalog.InstanceType) map[string]string {
	attributes := map[string]string{
		"instanceType": t.Name, "regionCode": a.options.Region, "serviceCode": "AmazonEC2", "servicecode": "AmazonEC2",
		"operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand",
		"tenancy": "Shared", "productFamily": "Compute Instance",
		"vcpu": strconv.FormatInt(t.VCPU, 10), "memory": fmt.Sprintf("%g GiB", float64(t.MemoryMiB)/1024),
	}
	if t.Metal {
		attributes["tenancy"], attributes["productFamily"] = "Dedicated", "Compute Instance (bare metal)"
	}
	return attributes
}

func (a *account) getProducts(_ *request, in *getProductsInput) (*getProductsOutput, error) {
	var selected []catalog.InstanceType
	for _, t := range a.types {
		attributes := a.productAttributes(t)
		matches := in.ServiceCode == "AmazonEC2"
		for _, f := range in.Filters {
			value, ok := attributes[f.Field]
			if !ok || f.Type != "TERM_MATCH" {
				return nil, wire.Errorf("InvalidParameterException", "the simulator has no filter %s on field %s", f.Type, f.Field)
			}
			matches = matches && value == f.Value
		}
		if matches {
			selected = append(selected, t)
		}
	}
	selected, next, err := page(slices.Clip(selected), func(t catalog.InstanceType) string { return t.Name }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &getProductsOutput{FormatVersion: "aws_v1", PriceList: []string{}, NextToken: next}
	for _, t := range selected {
		item, err := json.Marshal(a.priceItem(t))
		if err != nil {
			return nil, fmt.Errorf("writing the price of %s: %w", t.Name, err)
		}
		out.PriceList = append(out.PriceList, string(item))
	}
	return out, nil
}

func (a *account) priceItem(t catalog.InstanceType) any {
	sku := fixedID("", t.Name)
	usd := map[string]string{"USD": strconv.FormatFloat(t.OnDemandUSD, 'f', 10, 64)}
	dimension := map[string]any{"unit": "Hrs", "pricePerUnit": usd}
	term := map[string]any{"sku": sku, "priceDimensions": map[string]any{sku + ".1": dimension}}
	return map[string]any{
		"product":     map[string]any{"sku": sku, "productFamily": "Compute Instance", "attributes": a.productAttributes(t)},
		"serviceCode": "AmazonEC2",
		"terms":       map[string]any{"OnDemand": map[string]any{sku: term}},
	}
}
