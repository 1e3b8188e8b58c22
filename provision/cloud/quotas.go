package cloud

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
)

// Quota is a quota of EC2 in a region: the vCPUs that running instances of some families may have together.
type Quota struct {
	// Code is as in Service Quotas, such as L-1216C47A.
	Code, Name string
	VCPUs      float64
}

// Quotas returns EC2's quotas of the account in the region, by code. It takes one request for each 100 of them, about two.
func (c *Client) Quotas(ctx context.Context) (map[string]Quota, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Quota{}
	pages := servicequotas.NewListServiceQuotasPaginator(c.quotas, &servicequotas.ListServiceQuotasInput{
		ServiceCode: aws.String("ec2"), MaxResults: aws.Int32(100),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("servicequotas:ListServiceQuotas", err)
		}
		for _, q := range page.Quotas {
			code := aws.ToString(q.QuotaCode)
			found[code] = Quota{Code: code, Name: aws.ToString(q.QuotaName), VCPUs: aws.ToFloat64(q.Value)}
		}
	}
	return found, nil
}

// TypeInUse is an instance type, and how it is paid.
type TypeInUse struct {
	Type string
	Spot bool
}

// TypesInUse returns how many instances of the account run in the region, of any cluster and of none, by type: those that
// count towards its quotas, which instances on Dedicated Hosts do not. It takes one request for each 1000 of them.
func (c *Client) TypesInUse(ctx context.Context) (map[TypeInUse]int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[TypeInUse]int{}
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{filter("instance-state-name", "pending", "running")}, MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("ec2:DescribeInstances", err)
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				one := &r.Instances[i]
				if one.Placement == nil || one.Placement.Tenancy != ec2types.TenancyHost {
					found[TypeInUse{string(one.InstanceType), one.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot}]++
				}
			}
		}
	}
	return found, nil
}

// quotaCodes are those of a group of families, on demand and spot:
// https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
type quotaCodes struct{ onDemand, spot string }

var (
	standardQuota = quotaCodes{"L-1216C47A", "L-34B43A08"}
	// quotasByLetters are the groups by the letters of a family up to its generation, and quotasByLetter by its first one.
	quotasByLetters = map[string]quotaCodes{
		"dl": {"L-6E869C2A", "L-85EED4F7"}, "hpc": {onDemand: "L-F7808C92"}, "inf": {"L-1945791B", "L-B5D1601B"},
		"mac": {}, "trn": {"L-2C3B7624", "L-6B0D517C"}, "u": {onDemand: "L-43DA4232"}, "vt": {"L-DB2E81BA", "L-3819A6DF"},
	}
	quotasByLetter = map[byte]quotaCodes{
		'f': {"L-74FC7D96", "L-88CF9481"}, 'g': {"L-DB2E81BA", "L-3819A6DF"}, 'p': {"L-417A185B", "L-7212CCBC"},
		'x': {"L-7295265B", "L-E3A00192"},
	}
)

// QuotaOf returns the code of the quota towards which instances of a type count; empty if plumbline knows none. Some
// accounts have a quota of their own for Spot instances of P5 and later, which therefore have none here.
func QuotaOf(in TypeInUse) string {
	family, _, _ := strings.Cut(in.Type, ".")
	digit := strings.IndexAny(family, "-0123456789")
	if digit <= 0 {
		return ""
	}
	letters := family[:digit]
	codes, known := quotasByLetters[letters]
	if !known {
		codes, known = quotasByLetter[letters[0]]
	}
	switch {
	case !known && strings.ContainsRune("acdhimrtz", rune(letters[0])):
		codes = standardQuota
	case letters == "p" && family[1] >= '5':
		codes.spot = ""
	}
	if in.Spot {
		return codes.spot
	}
	return codes.onDemand
}
