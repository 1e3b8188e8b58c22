package plan

import (
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// editOfClass is what a change of an EC2NodeClass does to the nodes of all pools
// that name it. bundle is the cluster's authorities, which are in its hash.
func editOfClass(live, desired *unstructured.Unstructured, bundle string) edit {
	if noted := live.GetAnnotations()[awsv1.AnnotationEC2NodeClassHashVersion]; !knownHash(live, awsv1.AnnotationEC2NodeClassHashVersion, awsv1.EC2NodeClassHashVersion) {
		if equal(specField(live), specField(desired)) {
			return allOrNone{none: true}
		}
		return unknown("Karpenter here hashes EC2NodeClasses by %s, and this plumbline by %s", noted, awsv1.EC2NodeClassHashVersion)
	}
	before, err := typed[awsv1.EC2NodeClass](live)
	if err != nil {
		return unknown("%v", err)
	}
	after, err := typed[awsv1.EC2NodeClass](desired)
	if err != nil {
		return unknown("%v", err)
	}
	if !Hashable(before) || !Hashable(after) {
		return unknown("an alias in amiSelectorTerms cannot be read")
	}
	e := classEdit{after: after, outdated: classHash(before, bundle) != classHash(after, bundle)}
	// Where the hash that Karpenter has noted comes out with this bundle, so does the one after.
	if classHash(before, bundle) == notedOfClass(live.GetAnnotations()) {
		e.hash = classHash(after, bundle)
	}
	for _, field := range resolvedFields() {
		if !equal(specField(live, field.name), specField(desired, field.name)) && !slices.Contains(e.resolved, field.reason) {
			e.resolved = append(e.resolved, field.reason)
		}
	}
	return e
}

// classEdit is an EC2NodeClass before and after.
type classEdit struct {
	after *awsv1.EC2NodeClass
	// outdated says that their hashes differ, and hash is the one after; empty where it takes
	// what is not known of the cluster.
	outdated bool
	hash     Hash
	// resolved are the reasons for which nodes may drift once AWS has answered.
	resolved []string
}

func (e classEdit) impact(claims []*NodeClaim, by known) impact {
	i, rest := e.byHash(claims)
	if len(e.resolved) > 0 {
		i = i.and(driftsBy(rest, e.resolved, by.answer))
	}
	return i
}

// byHash is the impact of what is in the hash, and the NodeClaims that it is not on.
func (e classEdit) byHash(claims []*NodeClaim) (i impact, rest []*NodeClaim) {
	if e.outdated {
		return outdatedBy(e.hash, claims, Hashes.Class, driftOfClass)
	}
	return none(), claims
}

// question is what AWS has to say; nil where nothing hangs on that.
func (e classEdit) question(ref render.Ref, claims []*NodeClaim) *Question {
	_, rest := e.byHash(claims)
	if len(e.resolved) == 0 || len(rest) == 0 {
		return nil
	}
	return &Question{
		Ref: ref, Class: e.after, Claims: rest,
		AMIs:           slices.Contains(e.resolved, driftOfAMI),
		SecurityGroups: slices.Contains(e.resolved, driftOfGroup),
		Subnets:        slices.Contains(e.resolved, driftOfSubnet),
		Reservations:   slices.Contains(e.resolved, driftOfReservation),
	}
}

// unknown is the edit of which nobody can tell which nodes it is on, and why.
func unknown(why string, args ...any) allOrNone {
	return allOrNone{upTo: true, why: fmt.Sprintf(why, args...)}
}

// Hashable says whether the hash of a class can be asked for: the library ends the
// process on an alias that it cannot read (amiFamilyFromAlias in
// karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.1).
func Hashable(class *awsv1.EC2NodeClass) bool {
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
