package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// defaultMaxUnavailable is the CRD's default, for a NodeSync that is older than it is.
const defaultMaxUnavailable = "10%"

// Most is MaxUnavailable, or its default.
func (p RemovalPolicy) Most() intstr.IntOrString {
	if p.MaxUnavailable != nil {
		return *p.MaxUnavailable
	}
	return intstr.FromString(defaultMaxUnavailable)
}

// AtATime is how many of a number of NodeClaims may be leaving at a time; 0 where none is ended.
func (p RemovalPolicy) AtATime(claims int) int {
	if p.Strategy == RemovalOrphan {
		return 0
	}
	return ShareOf(p.Most(), claims)
}

// ShareOf is what a number or a percentage is of so many, rounded down, and 1 at least.
func ShareOf(most intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, of, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}
