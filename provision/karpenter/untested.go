package karpenter

import (
	"fmt"
	"slices"
	"strings"
)

// UntestedError says that a change goes to what is newer than the tables: nothing
// says that it works, and nothing that it does not.
type UntestedError struct {
	// Names are what is accepted in plumbline.yaml, such as "karpenter 1.15.0".
	Names []string
	// Unknown is what is not known of each.
	Unknown []string
}

// Error names what is unknown, and the line that releases it.
func (e *UntestedError) Error() string {
	return fmt.Sprintf("%s; use a newer plumbline, or accept it in plumbline.yaml: acceptUntested: [%s]",
		strings.Join(e.Unknown, "; "), strings.Join(e.Names, ", "))
}

// CheckTested says whether the tables know a version of Karpenter, and one that knows
// the cluster's Kubernetes, but for what is accepted by name. Errors: *VersionError,
// *UntestedError.
func CheckTested(kubernetesVersion, karpenter string, accepted []string) error {
	minor, err := minorOf(kubernetesVersion)
	if err != nil {
		return err
	}
	v, err := parse(karpenter)
	if err != nil {
		return err
	}
	found := &UntestedError{}
	add := func(name, unknown string) {
		if !slices.Contains(accepted, name) {
			found.Names, found.Unknown = append(found.Names, name), append(found.Unknown, unknown)
		}
	}
	if !known(v) {
		add("karpenter "+v.String(), fmt.Sprintf("karpenter %s is newer than %s, the newest that this plumbline knows: "+
			"which Kubernetes it supports, which permissions it needs, which values are gone and whether it replaces nodes is unknown", v, newest))
	}
	if most := newestMinor(); minor > most {
		add(fmt.Sprintf("kubernetes 1.%d", minor), fmt.Sprintf("the cluster's kubernetes 1.%d is newer than 1.%d, the newest that this plumbline knows: whether karpenter %s works with it is unknown", minor, most, v))
	}
	if len(found.Names) == 0 {
		return nil
	}
	return found
}

// newestMinor is the newest minor number of Kubernetes that a known version knows.
func newestMinor() int {
	most := 0
	for _, r := range kubernetes {
		most = max(most, r.is.Newest)
	}
	return most
}
