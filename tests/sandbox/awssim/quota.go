package awssim

import (
	"maps"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// defaultVCPUs is the value of each quota: no cluster of the sandbox comes near it.
const defaultVCPUs = 100_000

// quotaNames are EC2's quotas for vCPUs that the catalog's instance types count towards, by code.
var quotaNames = map[string]string{
	"L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
	"L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
	"L-DB2E81BA": "Running On-Demand G and VT instances",
	"L-3819A6DF": "All G and VT Spot Instance Requests",
}

func (a *account) quotaActions() map[string]action {
	return map[string]action{"ListServiceQuotas": document(a.listServiceQuotas)}
}

type listQuotasInput struct{ ServiceCode string }

type quotaDocument struct {
	ServiceCode, QuotaCode, QuotaName string
	Value                             float64
}

type listQuotasOutput struct{ Quotas []quotaDocument }

func (a *account) listServiceQuotas(_ *request, in *listQuotasInput) (*listQuotasOutput, error) {
	if in.ServiceCode != "ec2" {
		return nil, wire.Errorf("NoSuchResourceException", "The simulator has no quotas of the service %s.", in.ServiceCode)
	}
	out := &listQuotasOutput{}
	for _, code := range slices.Sorted(maps.Keys(quotaNames)) {
		value := float64(defaultVCPUs)
		if set, ok := a.quotas[code]; ok {
			value = set
		}
		out.Quotas = append(out.Quotas, quotaDocument{"ec2", code, quotaNames[code], value})
	}
	return out, nil
}

// SetQuota sets one of EC2's quotas for vCPUs; a negative value restores it. Launches ignore it.
func (s *Simulator) SetQuota(code string, vcpus float64) {
	s.locked(func(a *account) {
		if a.quotas[code] = vcpus; vcpus < 0 {
			delete(a.quotas, code)
		}
	})
}
