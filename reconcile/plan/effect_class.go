package plan

import (
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// editOfClass is what a change of an EC2NodeClass does to the nodes of all pools
// that name it. bundle is the cluster's authorities, which are in its hash.
func editOfClass(live, desired *unstructured.Unstructured, bundle string) edit {
	if !knownHash(live, awsv1.AnnotationEC2NodeClassHashVersion, awsv1.EC2NodeClassHashVersion) {
		if equal(specField(live), specField(desired)) {
			return allOrNone{none: true}
		}
		return allOrNone{upTo: true}
	}
	before, err := typed[awsv1.EC2NodeClass](live)
	if err != nil {
		return allOrNone{upTo: true}
	}
	after, err := typed[awsv1.EC2NodeClass](desired)
	if err != nil || !hashable(before) || !hashable(after) {
		return allOrNone{upTo: true}
	}
	e := classEdit{outdated: classHash(before, bundle) != classHash(after, bundle)}
	// Where the hash that Karpenter has noted comes out with this bundle, so does the one after.
	if classHash(before, bundle) == notedOfClass(live.GetAnnotations()) {
		e.hash = classHash(after, bundle)
	}
	for _, field := range resolved() {
		if !equal(specField(live, field.name), specField(desired, field.name)) && !slices.Contains(e.resolved, field.reason) {
			e.resolved = append(e.resolved, field.reason)
		}
	}
	return e
}

// classEdit is an EC2NodeClass before and after.
type classEdit struct {
	// outdated says that their hashes differ, and hash is the one after; empty where it takes
	// what is not known of the cluster.
	outdated bool
	hash     Hash
	// resolved are the reasons for which nodes may drift once AWS has answered.
	resolved []string
}

func (e classEdit) impact(claims []*NodeClaim, _ time.Time) impact {
	i, rest := none(), claims
	if e.outdated {
		i, rest = outdatedBy(e.hash, claims, Hashes.Class, driftOfClass)
	}
	if len(e.resolved) > 0 {
		i = i.and(replaces(rest, true, e.resolved...))
	}
	return i
}

// resolved are the fields that Karpenter leaves out of the hash, and by which nodes
// drift all the same once AWS has said what they come to (AMIDrift,
// SubnetDrift, SecurityGroupDrift and CapacityReservationDrift in
// karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
func resolved() []resolvedField {
	return []resolvedField{
		{"amiSelectorTerms", driftOfAMI},
		{"amiFamily", driftOfAMI},
		{"subnetSelectorTerms", driftOfSubnet},
		{"securityGroupSelectorTerms", driftOfGroup},
		{"capacityReservationSelectorTerms", driftOfReservation},
	}
}

// resolvedField is such a field, and the reason for which nodes drift by it.
type resolvedField struct{ name, reason string }

// hashable says whether the hash of a class can be asked for: the library ends the
// process on an alias that it cannot read (amiFamilyFromAlias in
// karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.1).
func hashable(class *awsv1.EC2NodeClass) bool {
	families := []string{
		awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket,
		awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
	}
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias == "" {
			continue
		}
		family, version, ok := strings.Cut(term.Alias, "@")
		known := slices.ContainsFunc(families, func(f string) bool { return strings.ToLower(f) == family })
		if !ok || !known || strings.Contains(version, "@") {
			return false
		}
	}
	return true
}
