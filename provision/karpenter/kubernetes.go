package karpenter

import (
	"fmt"
	"regexp"
	"strconv"
)

// Kubernetes is the range of Kubernetes' minor numbers that a version of
// Karpenter knows, both ends included. Both are 0 where the tables do not say.
type Kubernetes struct {
	Least  int `json:"leastMinor"`
	Newest int `json:"newestMinor"`
}

// String is the range in a person's words.
func (k Kubernetes) String() string {
	if k == (Kubernetes{}) {
		return "unknown"
	}
	return fmt.Sprintf("1.%d to 1.%d", k.Least, k.Newest)
}

// kubernetes are the minor numbers that the controller itself checks at its
// start: MinK8sVersion and MaxK8sVersion in KPA pkg/providers/version/version.go
// of each tag. Upstream's compatibility matrix has minors of Karpenter only, and
// promises 1.34 for all of 1.6 and 1.7, which their first patches do not know.
var kubernetes = []row[Kubernetes]{
	{"0.31.0", Kubernetes{23, 28}},
	{"0.34.0", Kubernetes{23, 29}},
	{"0.37.0", Kubernetes{23, 30}},
	{"1.0.0", Kubernetes{25, 30}},
	{"1.0.5", Kubernetes{25, 31}},
	{"1.2.0", Kubernetes{25, 32}},
	{"1.5.0", Kubernetes{26, 33}},
	{"1.6.6", Kubernetes{26, 34}},
	{"1.7.0", Kubernetes{26, 33}},
	{"1.7.4", Kubernetes{26, 34}},
	{"1.9.0", Kubernetes{26, 35}},
	{"1.13.0", Kubernetes{26, 36}},
}

// KubernetesOf returns what a version of Karpenter knows of Kubernetes. It is the
// zero range for versions older or newer than the tables. Errors: *VersionError.
func KubernetesOf(karpenter string) (Kubernetes, error) {
	v, err := parse(karpenter)
	if err != nil {
		return Kubernetes{}, err
	}
	if !known(v) {
		return Kubernetes{}, nil
	}
	is, _ := at(kubernetes, v)
	return is, nil
}

// KubernetesError says that a version of Karpenter does not know the cluster's
// Kubernetes: its controller would log that it is not compatible and go on,
// unaware of what has changed.
type KubernetesError struct {
	// Karpenter is the version; Minor is the cluster's.
	Karpenter string
	Minor     int
	Knows     Kubernetes
	// Use is the next version that knows the cluster's Kubernetes; empty where
	// none of the tables after it does.
	Use string
}

// Error says what to do.
func (e *KubernetesError) Error() string {
	text := fmt.Sprintf("karpenter %s knows kubernetes %s, and the cluster's is 1.%d: ", e.Karpenter, e.Knows, e.Minor)
	switch {
	case e.Minor < e.Knows.Least:
		return text + fmt.Sprintf("upgrade kubernetes to 1.%d first", e.Knows.Least)
	case e.Use != "":
		return text + fmt.Sprintf("set version %s or later in plumbline.yaml", e.Use)
	}
	return text + "no later version of karpenter that this plumbline knows does: use a newer plumbline"
}

var minorNumber = regexp.MustCompile(`^v?1\.(\d+)`)

// minorOf is the minor number of a version of Kubernetes.
func minorOf(version string) (int, error) {
	found := minorNumber.FindStringSubmatch(version)
	if found == nil {
		return 0, fmt.Errorf("version of kubernetes is %q, and should begin with 1. and a minor number", version)
	}
	minor, err := strconv.Atoi(found[1])
	if err != nil {
		return 0, fmt.Errorf("read version of kubernetes %q: %w", version, err)
	}
	return minor, nil
}

// CheckKubernetes says whether a version of Karpenter knows a cluster's version
// of Kubernetes, written as its API server does (v1.33.4-eks-99d6cc0) or shorter.
// Versions of either that the tables do not know are for CheckTested. Errors:
// *VersionError, *KubernetesError.
func CheckKubernetes(version, karpenter string) error {
	minor, err := minorOf(version)
	if err != nil {
		return err
	}
	knows, err := KubernetesOf(karpenter)
	untested := minor > newestMinor() // CheckTested
	if err != nil || untested || knows == (Kubernetes{}) || minor >= knows.Least && minor <= knows.Newest {
		return err
	}
	return &KubernetesError{Karpenter: karpenter, Minor: minor, Knows: knows, Use: nextThatKnows(minor, karpenter)}
}

// nextThatKnows is the least version after one that knows a minor number of
// Kubernetes.
func nextThatKnows(minor int, after string) string {
	v, err := parse(after)
	if err != nil {
		return ""
	}
	for _, r := range kubernetes {
		since, err := parse(r.since)
		if err == nil && since.GreaterThan(v) && minor >= r.is.Least && minor <= r.is.Newest {
			return r.since
		}
	}
	return ""
}
