package preflight

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// amounts are CPU and memory.
func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestCapacity(t *testing.T) {
	of := func(change func(*PoolTypes)) func(*Observed) { return func(o *Observed) { change(&o.PoolTypes.Of[0]) } }
	quota := func(o *Observed, code string, used float64) {
		q := o.Quotas.Of[code]
		q.Used = used
		o.Quotas.Of[code] = q
	}
	run(t, "capacity", map[string]looked{
		"no type":   {of(func(p *PoolTypes) { p.Types = 0 }), Problem, "NodePool/general: no instance type", "requirements of NodePool/general", ""},
		"one zone":  {of(func(p *PoolTypes) { p.Zones = p.Zones[:1] }), Warning, "only eu-west-1a offers", "", ""},
		"no CPU":    {of(func(p *PoolTypes) { p.Used = amounts("99", "1Gi") }), Warning, "too little cpu (limit 100, used 99, the smallest allowed type has 2)", "spec.limits", ""},
		"no memory": {of(func(p *PoolTypes) { p.Used = amounts("1", "197Gi") }), Warning, "too little memory", "", ""},
		"no limits": {of(func(p *PoolTypes) { p.Limits, p.Used = nil, amounts("1000", "1Ti") }), OK, "", "", ""},
		"no quota": {
			func(o *Observed) {
				quota(o, "L-1216C47A", 256)
				quota(o, "L-34B43A08", 63)
			}, Problem, "leave too little for the smallest allowed types: Running On-Demand Standard instances (L-1216C47A): 256 of 256 vCPUs are in use; All Standard",
			"aws service-quotas request-service-quota-increase --region eu-west-1 --service-code ec2 --quota-code L-1216C47A --desired-value 512", "",
		},
		"Spot is left": {func(o *Observed) { quota(o, "L-1216C47A", 256); o.PoolTypes.Of[0].Limits = amounts("60", "1Ti") }, OK, "", "", ""},
		"less than limits": {func(o *Observed) {
			quota(o, "L-1216C47A", 250)
			quota(o, "L-34B43A08", 64)
		}, Warning, "the limits of NodePool/general allow 90 further vCPUs, and the account's quotas only 6", "--desired-value 340", ""},
		"no limits, few vCPUs": {func(o *Observed) { quota(o, "L-1216C47A", 250); o.PoolTypes.Of[0].Limits = nil }, OK, "", "", ""},
		"of no known quota": {func(o *Observed) {
			quota(o, "L-1216C47A", 256)
			quota(o, "L-34B43A08", 64)
			o.PoolTypes.Of[0].Unmetered = true
		}, OK, "", "", ""},
		"quotas denied": {func(o *Observed) {
			o.Quotas = Value[map[string]QuotaInUse]{Err: denied("servicequotas:ListServiceQuotas")}
		}, Unknown, "AWS denies", "", "servicequotas:ListServiceQuotas"},
		"denied": {func(o *Observed) { o.PoolTypes = Value[[]PoolTypes]{Err: denied("ec2:DescribeInstanceTypes")} }, Unknown, "AWS denies", "", "ec2:DescribeInstanceTypes"},
	})
}

func TestLeast(t *testing.T) {
	smallest := least(least(nil, amounts("4", "8Gi")), amounts("2", "16Gi"))
	if diff := cmp.Diff(amounts("2", "8Gi"), smallest, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, insert(insert(insert(nil, "b"), "a"), "b")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadQuotas(t *testing.T) {
	o := Observed{PoolTypes: Value[[]PoolTypes]{Of: []PoolTypes{{Pool: "general"}}}, vcpus: map[string]int32{"m6i.xlarge": 4, "g5.xlarge": 4}}
	(&Reader{AWS: &inUse{}}).quotas(t.Context(), &o)
	want := map[string]QuotaInUse{"L-1216C47A": {cloud.Quota{Code: "L-1216C47A", VCPUs: 64}, 12}, "L-34B43A08": {cloud.Quota{Code: "L-34B43A08", VCPUs: 32}, 4}}
	if diff := cmp.Diff(want, o.Quotas.Of); diff != "" || o.Quotas.Err != nil {
		t.Errorf("(-want +got), error %v:\n%s", o.Quotas.Err, diff)
	}
	o = Observed{}
	(&Reader{AWS: &account0{err: denied}}).quotas(t.Context(), &o)
	if o.Quotas.Err != nil {
		t.Error("it was queried without a NodePool")
	}
}

// inUse is an account with instances.
type inUse struct{ account0 }

func (*inUse) Quotas(context.Context) (map[string]cloud.Quota, error) {
	return map[string]cloud.Quota{"L-1216C47A": {Code: "L-1216C47A", VCPUs: 64}, "L-34B43A08": {Code: "L-34B43A08", VCPUs: 32}}, nil
}

func (*inUse) TypesInUse(context.Context) (map[cloud.TypeInUse]int, error) {
	return map[cloud.TypeInUse]int{{Type: "m6i.xlarge"}: 3, {Type: "m6i.xlarge", Spot: true}: 1, {Type: "g5.xlarge"}: 9}, nil
}

func TestCount(t *testing.T) {
	var p PoolTypes
	p.Quotas = map[string]int64{}
	of := func(name, cpu string) *cloudprovider.InstanceType {
		return &cloudprovider.InstanceType{Name: name, Capacity: amounts(cpu, "1Gi")}
	}
	p.count(of("m6i.2xlarge", "8"), karpv1.CapacityTypeOnDemand)
	p.count(of("m6i.large", "2"), karpv1.CapacityTypeOnDemand)
	p.count(of("g5.xlarge", "4"), karpv1.CapacityTypeSpot)
	p.count(of("p5.48xlarge", "192"), karpv1.CapacityTypeReserved)
	if diff := cmp.Diff(map[string]int64{"L-1216C47A": 2, "L-3819A6DF": 4}, p.Quotas); diff != "" || p.Unmetered {
		t.Errorf("unmetered %t, (-want +got):\n%s", p.Unmetered, diff)
	}
	if p.count(of("mac2.metal", "8"), karpv1.CapacityTypeOnDemand); !p.Unmetered {
		t.Error("a type without a quota is metered")
	}
}
