package render

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// instanceTypes are those that the EC2 API of the linked SDK lists (InstanceType in
// github.com/aws/aws-sdk-go-v2/service/ec2/types/enums.go): a family in each line, with its sizes. TestTypesAreThoseOfTheSDK
// compares them.
//
//go:embed instance_types.txt
var instanceTypes string

// knownType says whether the table has a family, or a type.
func knownType(name string) bool {
	family, size, isType := strings.Cut(name, ".")
	_, rest, known := strings.Cut("\n"+instanceTypes, "\n"+family+": ")
	sizes, _, _ := strings.Cut(rest, "\n")
	return known && (!isType || slices.Contains(strings.Fields(sizes), size))
}

// warnOfInstances names instance families and types that this plumbline does not know; empty if it knows all. AWS adds new
// ones all the time, so that none of them is refused.
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
