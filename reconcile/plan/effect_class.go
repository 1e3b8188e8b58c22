package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// editOfClass returns the edit of an EC2NodeClass, for the nodes of all pools that reference it. bundle is the
// cluster's CA bundle, which is part of its hash.
func editOfClass(live, desired *unstructured.Unstructured, bundle string) edit {
	version := classHashVersion(live)
	if !slices.Contains(classHashes(), version) {
		if equal(specField(live), specField(desired)) {
			return allOrNone{none: true}
		}
		return unknown("this Karpenter uses hash version %s for EC2NodeClasses, and this plumbline computes %s", version, strings.Join(classHashes(), " and "))
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
		return unknown("an alias in amiSelectorTerms cannot be parsed")
	}
	hashBefore, hashAfter := classHash(live, version, bundle), classHash(desired, version, bundle)
	if hashBefore == "" || hashAfter == "" {
		return unknown("spec.kubelet has a value that a Karpenter with hash version %s cannot read", version)
	}
	e := classEdit{after: after, outdated: hashBefore != hashAfter}
	// If the annotated hash can be reproduced with this bundle, the hash after the change is right, too.
	if hashBefore == notedOfClass(live.GetAnnotations()) {
		e.hash = hashAfter
	}
	// The field is not in the hash, and Karpenter does not compare instances with it (EC2NodeClassSpec and
	// isNodeClassDrifted in karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go and pkg/cloudprovider/drift.go, 1.14.1).
	if was, is := prefixes(before), prefixes(after); was != is {
		e.notes = append(e.notes, fmt.Sprintf("%s/%s: ipPrefixCount %s to %s: only nodes that are launched from now on have it; Karpenter replaces no running node for it", render.EC2NodeClass, after.Name, was, is))
	}
	for _, field := range resolvedFields() {
		if !equal(specField(live, field.name), specField(desired, field.name)) && !slices.Contains(e.resolved, field.reason) {
			e.resolved = append(e.resolved, field.reason)
		}
	}
	return e
}

func prefixes(class *awsv1.EC2NodeClass) string {
	if class.Spec.IPPrefixCount == nil {
		return "none"
	}
	return strconv.Itoa(int(*class.Spec.IPPrefixCount))
}

// classEdit is an EC2NodeClass before and after a change.
type classEdit struct {
	after *awsv1.EC2NodeClass
	// outdated reports whether their hashes differ, and hash is the one after; empty if it depends on unknown data of
	// the cluster.
	outdated bool
	hash     Hash
	// resolved are the reasons for which nodes may drift, depending on the answer of AWS.
	resolved []string
	// notes are about fields for which Karpenter replaces no node.
	notes []string
}

func (e classEdit) impact(claims []*NodeClaim, by known) impact {
	i, rest := e.byHash(claims)
	if len(e.resolved) > 0 {
		i = i.combine(driftsBy(rest, e.resolved, by.answer))
	}
	i.notes = e.notes
	return i
}

// byHash returns the impact of the fields in the hash, and the NodeClaims that it does not affect.
func (e classEdit) byHash(claims []*NodeClaim) (i impact, rest []*NodeClaim) {
	if e.outdated {
		return outdatedBy(e.hash, claims, Hashes.Class, driftOfClass)
	}
	return none(), claims
}

// question returns what to ask AWS; nil if nothing depends on it.
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

// unknown returns an edit for which the affected nodes are unknown, with the reason.
func unknown(why string, args ...any) allOrNone {
	return allOrNone{upTo: true, why: fmt.Sprintf(why, args...)}
}

// Hashable reports whether the hash of a class can be computed: the library terminates the process if it cannot parse
// an alias (amiFamilyFromAlias in karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.1).
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

// resolvedFields returns the fields that are not in Karpenter's hash, but by which nodes drift depending on what AWS
// resolves them to, in the order of Karpenter's checks (AMIDrift, SecurityGroupDrift, SubnetDrift and
// CapacityReservationDrift in karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
func resolvedFields() []resolvedField {
	return []resolvedField{
		{"amiSelectorTerms", driftOfAMI},
		{"amiFamily", driftOfAMI},
		{"securityGroupSelectorTerms", driftOfGroup},
		{"subnetSelectorTerms", driftOfSubnet},
		{"capacityReservationSelectorTerms", driftOfReservation},
	}
}

// resolvedField is such a field, and its drift reason.
type resolvedField struct{ name, reason string }

// verdict is whether a NodeClaim drifts for one reason. why is set if that is unknown.
type verdict struct {
	drifts bool
	why    string
}

// driftsBy returns the impact of changed selectors, for the given drift reasons.
func driftsBy(claims []*NodeClaim, reasons []string, answer *Answer) impact {
	judges := make([]func(*NodeClaim) verdict, len(reasons))
	for i, reason := range reasons {
		judges[i] = answer.driftCheck(reason)
	}
	var touched []*NodeClaim
	var found []string
	upTo := false
	whys := map[string]int{}
	for _, c := range claims {
		drifts, may, why := checkDrift(judges, reasons, c)
		found = append(found, may...)
		if len(may) > 0 {
			touched = append(touched, c)
		}
		if !drifts {
			upTo = upTo || len(may) > 0
			for _, one := range why {
				whys[one]++
			}
		}
	}
	slices.Sort(found)
	i := replaces(touched, upTo, inOrderOf(reasons, slices.Compact(found))...)
	i.unavailable = whyUnavailable(whys)
	return i
}

// checkDrift reports whether a NodeClaim certainly drifts, the reasons for which it may drift, and why some are not
// certain.
func checkDrift(checks []func(*NodeClaim) verdict, reasons []string, c *NodeClaim) (drifts bool, may, why []string) {
	for i, driftOf := range checks {
		v := driftOf(c)
		switch {
		case v.why != "":
			may, why = append(may, reasons[i]), append(why, v.why)
		case v.drifts && !drifts:
			may, drifts = append(may, reasons[i]), true
		}
	}
	slices.Sort(why)
	return drifts, may, slices.Compact(why)
}

func inOrderOf(order, found []string) []string {
	var ordered []string
	for _, one := range order {
		if slices.Contains(found, one) {
			ordered = append(ordered, one)
		}
	}
	return ordered
}

// Reasons that concern one NodeClaim, not all answers of AWS.
const (
	notLaunched = "not launched yet"
	noLabels    = "no instance type labels"
	notInEC2    = "not found in EC2"
)

func whyUnavailable(whys map[string]int) []string {
	var found []string
	for why, n := range whys {
		if why == notLaunched || why == noLabels || why == notInEC2 {
			why = fmt.Sprintf("%s: %s", english.Plural(n, "NodeClaim", ""), why)
		}
		found = append(found, why)
	}
	slices.Sort(found)
	return found
}

// driftCheck returns a function that checks a NodeClaim by the Answer, for one of Karpenter's reasons.
func (a *Answer) driftCheck(reason string) func(*NodeClaim) verdict {
	switch reason {
	case driftOfAMI:
		return a.byImage()
	case driftOfGroup:
		wanted := slices.Sorted(slices.Values(a.SecurityGroups.Found))
		return a.byInstance(a.SecurityGroups.Unavailable, func(r Running) bool {
			return !slices.Equal(slices.Sorted(slices.Values(r.SecurityGroups)), wanted)
		})
	case driftOfSubnet:
		return a.byInstance(a.Subnets.Unavailable, func(r Running) bool { return !slices.Contains(a.Subnets.Found, r.Subnet) })
	case driftOfReservation:
		return a.byInstance(a.Reservations.Unavailable, func(r Running) bool {
			return r.Reservation != "" && !slices.Contains(a.Reservations.Found, r.Reservation)
		})
	}
	return func(*NodeClaim) verdict {
		return verdict{why: "plumbline does not support the drift reason " + reason}
	}
}

func (a *Answer) byImage() func(*NodeClaim) verdict {
	known := imagesOf(a.AMIs.Found)
	return func(c *NodeClaim) verdict {
		switch {
		case a.AMIs.Unavailable != "":
			return verdict{why: a.AMIs.Unavailable}
		case c.Image == "":
			return verdict{why: notLaunched}
		case c.Labels == "":
			return verdict{why: noLabels}
		}
		return verdict{drifts: known.outdate(c)}
	}
}

func (a *Answer) byInstance(unavailable string, drifts func(Running) bool) func(*NodeClaim) verdict {
	return func(c *NodeClaim) verdict {
		running, seen := a.Running[c.ProviderID]
		switch {
		case unavailable != "":
			return verdict{why: unavailable}
		case c.ProviderID == "":
			return verdict{why: notLaunched}
		case !seen:
			return verdict{why: cmp.Or(a.Unavailable, notInEC2)}
		}
		return verdict{drifts: drifts(running)}
	}
}
