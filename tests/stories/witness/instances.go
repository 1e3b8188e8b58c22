package witness

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// compared returns how long reports on instances may lag: the daemon compares rarely, and skips instances younger than
// a minute.
func (f *Fleet) compared() time.Duration {
	return Believes + 2*f.Compares + min(f.Compares, time.Minute)
}

// instanceNamed matches the instances in a message.
var instanceNamed = regexp.MustCompile(`i-[0-9a-f]+`)

// instances checks InstanceDrift: it must report each instance that differs, and none that does not, or that neither
// EC2 nor a NodeClaim has.
func (t *Told) instances(f *Fleet) (words []string) {
	if unasked, _, _ := unstructured.NestedString(t.Sync.Object, "status", "instances", "failure"); f.Compares == 0 || unasked != "" {
		return nil
	}
	said := conditionOf(t.Sync, "InstanceDrift")
	named := map[string]bool{}
	for _, id := range instanceNamed.FindAllString(said["message"], -1) {
		named[id] = true
	}
	claimed := map[string]bool{}
	for _, claim := range f.claimsOf(t) {
		claimed[instanceOf(claim)] = true
		words = append(words, f.unlikeSaid(claim, said["message"], named)...)
	}
	for id := range named {
		if i := f.instance(id); !claimed[id] && (i == nil || i.State == "terminated") {
			words = append(words, "InstanceDrift names "+id+", but neither EC2 nor a NodeClaim has it")
		}
	}
	for _, id := range f.unclaimed(t, claimed) {
		if !named[id] {
			words = append(words, "InstanceDrift says nothing of "+id+", but no NodeClaim has it")
		}
	}
	return words
}

// unclaimed returns running instances of a NodeSync's pools without a NodeClaim.
func (f *Fleet) unclaimed(t *Told, claimed map[string]bool) (ids []string) {
	for _, i := range f.Instances {
		pool := f.find("NodePool", i.Tags["karpenter.sh/nodepool"])
		if pool != nil && f.owns(t, pool) && i.State == "running" && !claimed[i.ID] && !t.removed()["NodePool/"+pool.GetName()] {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// instanceOf returns the instance of a NodeClaim; empty without one.
func instanceOf(claim *unstructured.Unstructured) string {
	provider, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
	return provider[strings.LastIndex(provider, "/")+1:]
}

// unlikeSaid returns what a message reports about a NodeClaim's instance that is not true.
func (f *Fleet) unlikeSaid(claim *unstructured.Unstructured, message string, named map[string]bool) (words []string) {
	id := instanceOf(claim)
	why := f.instanceDiffers(id, claim)
	switch {
	case id == "" || claim.GetDeletionTimestamp() != nil:
	case why != "" && !named[id] && !strings.Contains(message, " more"):
		words = append(words, fmt.Sprintf("InstanceDrift says nothing of %s of NodeClaim/%s, but %s", id, claim.GetName(), why))
	case why == "" && named[id] && !strings.Contains(message, "EC2NodeClass/"):
		words = append(words, fmt.Sprintf("InstanceDrift names %s of NodeClaim/%s, but it runs and has its tags", id, claim.GetName()))
	}
	return words
}

// instanceDiffers returns how an instance differs from its NodeClaim; empty if it does not.
func (f *Fleet) instanceDiffers(id string, claim *unstructured.Unstructured) string {
	i := f.instance(id)
	pool := claim.GetLabels()["karpenter.sh/nodepool"]
	switch {
	case i == nil:
		return "EC2 has no such instance"
	case i.State != "pending" && i.State != "running":
		return "it is " + i.State
	case i.Tags["karpenter.sh/nodepool"] != pool:
		return fmt.Sprintf("its tag karpenter.sh/nodepool is %q", i.Tags["karpenter.sh/nodepool"])
	}
	return ""
}

func (f *Fleet) instance(id string) *Instance {
	for i := range f.Instances {
		if f.Instances[i].ID == id {
			return &f.Instances[i]
		}
	}
	return nil
}
