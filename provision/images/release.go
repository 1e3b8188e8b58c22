package images

import (
	"regexp"
	"strings"
	"time"
)

// Release is what the name of an AMI that AWS publishes for EKS says about it.
type Release struct {
	// Family as in an alias: al2023, al2, bottlerocket, windows2022.
	Family string
	// Arch is amd64 or arm64; Variant is standard, nvidia, neuron, fips or nvidia-fips.
	Arch, Variant string
	// Kubernetes is the version for which it is made, such as 1.36.
	Kubernetes string
	// Version as in an alias: v20251103, v1.47.0. For Windows, which has no such aliases, it is a date: 2025.11.03.
	Version string
}

// Alias returns the alias that pins the release; empty if its family has none.
func (r Release) Alias() string {
	if strings.HasPrefix(r.Family, "windows") || strings.Contains(r.Variant, "fips") {
		return ""
	}
	return r.Family + "@" + r.Version
}

// Notes returns the address of the release notes; empty if there is none.
func (r Release) Notes() string {
	switch r.Family {
	case "al2", "al2023":
		return "https://github.com/awslabs/amazon-eks-ami/releases/tag/" + r.Version
	case "bottlerocket":
		return "https://github.com/bottlerocket-os/bottlerocket/releases/tag/" + r.Version
	}
	return ""
}

// The names of AMIs, as in https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html and
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-windows-ami-id.html.
var names = []struct {
	family string
	name   *regexp.Regexp
}{
	{"al2023", regexp.MustCompile(`^amazon-eks-node-al2023-(?P<arch>x86_64|arm64)-(?P<variant>[a-z0-9]+)-(?P<kubernetes>\d+\.\d+)-(?P<version>v\d{8})$`)},
	{"al2", regexp.MustCompile(`^amazon-eks-(?:(?P<variant>gpu|arm64)-)?node-(?P<kubernetes>\d+\.\d+)-(?P<version>v\d{8})$`)},
	{"bottlerocket", regexp.MustCompile(`^bottlerocket-aws-k8s-(?P<kubernetes>\d+\.\d+)(?:-(?P<variant>nvidia-fips|nvidia|fips))?-(?P<arch>x86_64|aarch64|arm64)-(?P<version>v\d+\.\d+\.\d+)(?:-[0-9a-f]+)?$`)},
	{"windows", regexp.MustCompile(`^Windows_Server-(?P<year>\d{4})-English-Core-EKS_Optimized-(?P<kubernetes>\d+\.\d+)-(?P<version>\d{4}\.\d\d\.\d\d)$`)},
}

// ReleaseOf returns what the name of an AMI says about it. ok is false if it is not one that AWS publishes for EKS.
func ReleaseOf(name string) (r Release, ok bool) {
	for _, of := range names {
		found := of.name.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		r = Release{Family: of.family, Arch: "amd64", Variant: "standard"}
		for i, group := range of.name.SubexpNames() {
			switch value := found[i]; {
			case value == "":
			case group == "arch" && value != "x86_64", group == "variant" && value == "arm64":
				r.Arch = "arm64"
			case group == "variant" && of.family == "al2":
				r.Variant = "nvidia"
			case group == "variant":
				r.Variant = value
			case group == "kubernetes":
				r.Kubernetes = value
			case group == "version":
				r.Version = value
			case group == "year":
				r.Family += value
			}
		}
		return r, true
	}
	return Release{}, false
}

// Date returns the day in a version such as v20251103; ok is false if it has none.
func Date(version string) (day time.Time, ok bool) {
	for _, layout := range []string{"v20060102", "2006.01.02"} {
		if day, err := time.Parse(layout, version); err == nil {
			return day, true
		}
	}
	return time.Time{}, false
}
