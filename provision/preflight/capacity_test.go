package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are CPU and memory.
func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestCapacity(t *testing.T) {
	of := func(change func(*PoolTypes)) func(*Observed) { return func(o *Observed) { change(&o.PoolTypes.Of[0]) } }
	run(t, "capacity", map[string]looked{
		"no type":   {of(func(p *PoolTypes) { p.Types = 0 }), Problem, "NodePool/general: no instance type", "requirements of NodePool/general", ""},
		"one zone":  {of(func(p *PoolTypes) { p.Zones = p.Zones[:1] }), Warning, "only eu-west-1a offers", "", ""},
		"no CPU":    {of(func(p *PoolTypes) { p.Used = amounts("99", "1Gi") }), Warning, "too little cpu (limit 100, used 99, the smallest allowed type has 2)", "spec.limits", ""},
		"no memory": {of(func(p *PoolTypes) { p.Used = amounts("1", "197Gi") }), Warning, "too little memory", "", ""},
		"no limits": {of(func(p *PoolTypes) { p.Limits, p.Used = nil, amounts("1000", "1Ti") }), OK, "", "", ""},
		"denied":    {func(o *Observed) { o.PoolTypes = Value[[]PoolTypes]{Err: denied("ec2:DescribeInstanceTypes")} }, Unknown, "AWS denies", "", "ec2:DescribeInstanceTypes"},
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
