package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// QuotaInUse is a quota of EC2, and how many of its vCPUs running instances have: those of all clusters, and of none.
type QuotaInUse struct {
	cloud.Quota

	Used float64
}

func (q QuotaInUse) free() float64 { return max(q.VCPUs-q.Used, 0) }

func (q QuotaInUse) String() string {
	return fmt.Sprintf("%s (%s): %.0f of %.0f vCPUs are in use", q.Name, q.Code, q.Used, q.VCPUs)
}

// quotas reads EC2's quotas, and how much of them is in use.
func (r *Reader) quotas(ctx context.Context, o *Observed) {
	if len(o.PoolTypes.Of) == 0 {
		return
	}
	limits, err := r.AWS.Quotas(ctx)
	types, unread := r.AWS.TypesInUse(ctx)
	if o.Quotas.Err = errors.Join(err, unread); o.Quotas.Err != nil {
		return
	}
	used := map[string]float64{}
	for one, count := range types {
		used[cloud.QuotaOf(one)] += float64(count) * float64(o.vcpus[one.Type])
	}
	o.Quotas.Of = map[string]QuotaInUse{}
	for code, quota := range limits {
		o.Quotas.Of[code] = QuotaInUse{quota, used[code]}
	}
}

// quotas returns what the quotas of the account do not let a NodePool do: launch a further node, or as many as its limits
// allow. Each quota also serves the other NodePools.
func (p PoolTypes) quotas(o Observed) []Finding {
	var counted []QuotaInUse
	for _, code := range slices.Sorted(maps.Keys(p.Quotas)) {
		q, listed := o.Quotas.Of[code]
		if !listed {
			return nil // EC2 has no such quota in the region
		}
		counted = append(counted, q)
	}
	if o.Quotas.Err != nil || p.Unmetered || len(counted) == 0 {
		return nil
	}
	var room float64
	var words []string
	for _, q := range counted {
		if q.free() >= float64(p.Quotas[q.Code]) {
			room += q.free()
		}
		words = append(words, q.String())
	}
	largest := slices.MaxFunc(counted, func(a, b QuotaInUse) int { return cmp.Compare(a.VCPUs, b.VCPUs) })
	fix := func(vcpus float64) string {
		return fmt.Sprintf("aws service-quotas request-service-quota-increase --region %s --service-code ec2 "+
			"--quota-code %s --desired-value %.0f", o.Region, largest.Code, vcpus)
	}
	limit, limited := p.Limits[corev1.ResourceCPU]
	wanted := left(limit, p.Used[corev1.ResourceCPU]).AsApproximateFloat64()
	switch {
	case room == 0:
		return []Finding{{
			Status: Problem, Fix: fix(max(2*largest.VCPUs, largest.Used+float64(p.Quotas[largest.Code]))),
			Message: fmt.Sprintf("NodePool/%s can launch no further node: the account's quotas leave too little "+
				"for the smallest allowed types: %s",
				p.Pool, strings.Join(words, "; ")),
		}}
	case limited && wanted > room:
		return []Finding{{
			Status: Warning, Fix: fix(largest.VCPUs + wanted - room),
			Message: fmt.Sprintf("the limits of NodePool/%s allow %.0f further vCPUs, and the account's quotas only %.0f: %s",
				p.Pool, wanted, room, strings.Join(words, "; ")),
		}}
	}
	return nil
}
