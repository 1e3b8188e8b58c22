package render

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// Labels whose values Karpenter derives from the name of an instance type (computeRequirements in
// karpenter-provider-aws pkg/providers/instancetype/types.go, 1.14.1).
const (
	labelType       = "node.kubernetes.io/instance-type"
	labelFamily     = "karpenter.k8s.aws/instance-family"
	labelSize       = "karpenter.k8s.aws/instance-size"
	labelCategory   = "karpenter.k8s.aws/instance-category"
	labelGeneration = "karpenter.k8s.aws/instance-generation"
)

// familyScheme splits the name of a family as Karpenter does, and captures the letters after its generation.
var familyScheme = regexp.MustCompile(`^([a-z]+)(-[0-9]+tb)?([0-9]+)([a-z]*).*$`)

// archOf returns the architecture that the letters after a family's generation stand for: g is a processor of AWS,
// which is arm64, a one of AMD and i one of Intel. It is empty if they name none
// (https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html).
func archOf(letters string) string {
	switch {
	case strings.Contains(letters, "g"):
		return "arm64"
	case strings.ContainsAny(letters, "ai"):
		return "amd64"
	}
	return ""
}

// checkInstances refuses requirements on instance types that contradict each other: if types or families are listed,
// their names tell whether they meet the other requirements. This needs no table of types, so it refuses no type that
// is newer than this plumbline.
func checkInstances(object Object) []problem {
	requirements := requirementsOf(object.Desired)
	for _, key := range []string{labelType, labelFamily} {
		candidates, listed := listedIn(requirements, key)
		if !listed {
			continue
		}
		fits := func(name string) bool { return fitsAll(requirements, labelsOf(key, name)) }
		if slices.ContainsFunc(candidates, fits) {
			return nil
		}
		return []problem{{"spec.template.spec.requirements", fmt.Sprintf(
			"%s: no instance type meets these requirements together, so that no node could be launched: none of %s [%s] fits %s",
			object.Ref, key, someNames(candidates), strings.Join(others(requirements, labelsOf(key, candidates[0])), ", "))}}
	}
	return nil
}

// listedIn returns the values that the requirements list for a label.
func listedIn(requirements []map[string]any, key string) (values []string, listed bool) {
	for _, r := range requirements {
		if r["key"] == key && r["operator"] == "In" {
			values = texts(r["values"])
			return values, len(values) > 0
		}
	}
	return nil, false
}

// labelsOf returns the labels that follow from the name of a type or family.
func labelsOf(key, name string) map[string]string {
	labels := map[string]string{key: name}
	family := name
	if key == labelType {
		var size string
		family, size, _ = strings.Cut(name, ".")
		labels[labelFamily], labels[labelSize] = family, size
	}
	if parts := familyScheme.FindStringSubmatch(family); parts != nil {
		labels[labelCategory], labels[labelGeneration] = parts[1], parts[3]
		if arch := archOf(parts[4]); arch != "" {
			labels[labelArch] = arch
		}
	}
	return labels
}

// fitsAll reports whether labels meet the requirements on them.
func fitsAll(requirements []map[string]any, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r map[string]any) bool {
		key, _ := r["key"].(string)
		value, known := labels[key]
		return known && !fitsOne(r, value)
	})
}

// fitsOne reports whether a value meets a requirement. It is true for an operator that is newer than this plumbline.
func fitsOne(requirement map[string]any, value string) bool {
	values := texts(requirement["values"])
	switch requirement["operator"] {
	case "In":
		return slices.Contains(values, value)
	case "NotIn":
		return !slices.Contains(values, value)
	case "DoesNotExist":
		return false
	}
	has, noNumber := strconv.Atoi(value)
	above, below := bounds([]map[string]any{requirement})
	return noNumber != nil || (above == nil || has > *above) && (below == nil || has < *below)
}

// others formats the requirements on the labels for messages.
func others(requirements []map[string]any, labels map[string]string) []string {
	var words []string
	for _, r := range requirements {
		key, _ := r["key"].(string)
		if _, known := labels[key]; known {
			words = append(words, fmt.Sprintf("%s %v [%s]", key, r["operator"], someNames(texts(r["values"]))))
		}
	}
	return words
}

// someNames returns the first few names and the number of the others.
func someNames(names []string) string {
	const few = 5
	return shortlist.Join(names, few, ", ")
}

// instanceTypes lists the instance types of the linked SDK (InstanceType in
// github.com/aws/aws-sdk-go-v2/service/ec2/types/enums.go): one family per line, with its sizes.
// TestTypesAreThoseOfTheSDK compares them.
//
//go:embed instance_types.txt
var instanceTypes string

// knownType reports whether the table contains a family or type.
func knownType(name string) bool {
	family, size, isType := strings.Cut(name, ".")
	_, rest, known := strings.Cut("\n"+instanceTypes, "\n"+family+": ")
	sizes, _, _ := strings.Cut(rest, "\n")
	return known && (!isType || slices.Contains(strings.Fields(sizes), size))
}

// warnOfInstances names instance families and types that this plumbline does not know; it is empty if it knows all. AWS
// adds new ones all the time, so none of them is refused.
func warnOfInstances(object Object) string {
	if object.Ref.Kind != NodePool {
		return ""
	}
	requirements := requirementsOf(object.Desired)
	for _, of := range []struct{ key, what string }{{labelFamily, "instance family"}, {labelType, "instance type"}} {
		named, _ := listedIn(requirements, of.key)
		unknown := slices.DeleteFunc(slices.Clone(named), knownType)
		if len(unknown) > 0 {
			return fmt.Sprintf("%s: %s [%s]: this version of plumbline does not know this %s: check the name, because no node can be launched with one that does not exist",
				object.Ref, of.key, someNames(unknown), of.what)
		}
	}
	return ""
}
