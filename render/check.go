package render

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The apiVersion and kind of plumbline.yaml.
const (
	ConfigAPIVersion = "config.plumbline.dev/v1alpha1"
	ConfigKind       = "Karpenter"
)

// What an empty field of plumbline.yaml stands for.
const (
	DefaultRepository = "oci://public.ecr.aws/karpenter"
	DefaultNamespace  = "kube-system"
	DefaultValuesKey  = "values.yaml"
)

func (k *Karpenter) setDefaults() {
	if k.Management == "" {
		k.Management = Managed
	}
	if k.Repository == "" && (k.Management == Managed || k.Version != "") {
		k.Repository = DefaultRepository
	}
	if k.Namespace == "" {
		k.Namespace = DefaultNamespace
	}
	if len(k.Nodes) == 0 {
		k.Nodes = []string{"."}
	}
	for i := range k.ValuesFrom {
		if k.ValuesFrom[i].ValuesKey == "" {
			k.ValuesFrom[i].ValuesKey = DefaultValuesKey
		}
	}
}

var (
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html,
	// and no FIFO queue, which EventBridge's rules for Karpenter do not fill.
	queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns
	roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\x21-\x7e]+$`)
	// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	regionName  = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
)

// check returns what is wrong, with the field that it is about. folder is that of
// plumbline.yaml.
func (k *Karpenter) check(folder string) []problem {
	var found []problem
	add := func(path, format string, args ...any) {
		found = append(found, problem{path, fmt.Sprintf(format, args...)})
	}
	if k.APIVersion != ConfigAPIVersion {
		add("apiVersion", "apiVersion is %q, and has to be %s", k.APIVersion, ConfigAPIVersion)
	}
	if k.Kind != ConfigKind {
		add("kind", "kind is %q, and has to be %s", k.Kind, ConfigKind)
	}
	if !clusterName.MatchString(k.Cluster.Name) {
		add("cluster.name", "cluster.name is %q: give the name of the EKS cluster", k.Cluster.Name)
	}
	if !regionName.MatchString(k.Cluster.Region) {
		add("cluster.region", "cluster.region is %q: give the AWS region of the cluster, such as eu-west-1", k.Cluster.Region)
	}
	if len(validation.IsDNS1123Label(k.Namespace)) > 0 {
		add("namespace", "namespace %q is not the name of a namespace", k.Namespace)
	}
	found = append(found, k.checkManagement()...)
	found = append(found, k.checkUntested()...)
	found = append(found, k.checkCharts(folder)...)
	found = append(found, k.checkCluster()...)
	found = append(found, contradictions(k.Cluster, k.Values, "values.")...)
	found = append(found, k.checkValuesFrom()...)
	found = append(found, k.checkValuesFiles(folder)...)
	found = append(found, k.checkIgnored()...)
	found = append(found, k.checkNodes()...)
	found = append(found, k.checkApprove()...)
	found = append(found, k.checkIgnoredKinds()...)
	return append(found, k.checkSubstitute()...)
}

func (k *Karpenter) checkManagement() []problem {
	var found []problem
	switch k.Management {
	case Managed:
		if _, err := semver.StrictNewVersion(k.Version); err != nil {
			found = append(found, problem{"version", fmt.Sprintf("version is %q: give one full version such as 1.14.1, without a v and without a range", k.Version)})
		}
	case External:
		found = append(found, k.checkExternal()...)
	default:
		found = append(found, problem{"management", fmt.Sprintf("management is %q, and has to be %s or %s", k.Management, Managed, External)})
	}
	return found
}

// checkExternal lets through what says which version is waited for.
func (k *Karpenter) checkExternal() []problem {
	var found []problem
	if k.Version != "" {
		if _, err := semver.StrictNewVersion(k.Version); err != nil {
			found = append(found, problem{"version", fmt.Sprintf("version is %q: give the one full version to wait for, such as 1.14.1, or leave it out", k.Version)})
		}
	} else {
		for _, set := range []struct {
			field string
			given bool
		}{{"repository", k.Repository != ""}, {"digests", k.Digests != Digests{}}} {
			if set.given {
				found = append(found, problem{set.field, fmt.Sprintf("%s is for charts, and management External without a version looks at none", set.field)})
			}
		}
	}
	if k.Adopt {
		found = append(found, problem{"adopt", "adopt cannot be given with management External: nothing is adopted then"})
	}
	for _, set := range []struct {
		field string
		given bool
	}{
		{"values", k.Values != nil},
		{"valuesFiles", k.ValuesFiles != nil},
		{"valuesFrom", k.ValuesFrom != nil},
		{"ignoreDifferences", k.IgnoreDifferences != nil},
		{"acceptUntested", k.AcceptUntested != nil},
		{"cluster.interruptionQueue", k.Cluster.InterruptionQueue != ""},
		{"cluster.controllerRole", k.Cluster.ControllerRole != ""},
	} {
		if set.given {
			found = append(found, problem{set.field, set.field + " cannot be given with management External: the tool that installs Karpenter decides it"})
		}
	}
	return found
}

// sha256Digest is a digest as OCI writes it.
var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// checkCharts looks at where the charts come from. What is wrong with a URL itself
// is for the program that asks it to say.
func (k *Karpenter) checkCharts(folder string) []problem {
	if k.Management != Managed && k.Version == "" {
		return nil
	}
	var found []problem
	for _, pin := range []struct{ chart, digest string }{{"karpenter-crd", k.Digests.CRD}, {"karpenter", k.Digests.Controller}} {
		if pin.digest != "" && !sha256Digest.MatchString(pin.digest) {
			found = append(found, problem{"digests." + pin.chart, fmt.Sprintf("digests.%s is %q, and has to be sha256: and 64 hexadecimal digits", pin.chart, pin.digest)})
		}
	}
	place, isPath := k.chartFolder(folder)
	switch {
	case isPath && (place == ".." || strings.HasPrefix(place, "../")):
		found = append(found, problem{"repository", fmt.Sprintf("repository %q leads out of the Git repository", k.Repository)})
	case !isPath && !slices.ContainsFunc([]string{"oci://", "https://", "http://"}, func(scheme string) bool { return strings.HasPrefix(k.Repository, scheme) }):
		found = append(found, problem{"repository", fmt.Sprintf("repository is %q: give an OCI registry, oci://host/path, a Helm repository, https://host/path, or a folder of this Git repository, which begins with ./", k.Repository)})
	}
	return found
}

// untested is one version, by the product's name.
var untested = regexp.MustCompile(`^(karpenter [0-9]+\.[0-9]+\.[0-9]+\S*|kubernetes 1\.[0-9]+)$`)

// checkUntested lets through single versions by name: a range would accept what
// nobody has looked at.
func (k *Karpenter) checkUntested() []problem {
	var found []problem
	for i, entry := range k.AcceptUntested {
		if !untested.MatchString(entry) {
			found = append(found, problem{
				fmt.Sprintf("acceptUntested[%d]", i),
				fmt.Sprintf("acceptUntested entry %q names no version: write karpenter 1.15.0 or kubernetes 1.37, as the message of what is held does", entry),
			})
		}
	}
	return found
}

// checkNodes keeps the definitions within the folder of plumbline.yaml.
func (k *Karpenter) checkNodes() []problem {
	var found []problem
	for i, entry := range k.Nodes {
		cleaned := path.Clean(entry)
		if strings.ContainsRune(entry, 0) {
			found = append(found, problem{fmt.Sprintf("nodes[%d]", i), fmt.Sprintf("nodes entry %q is no path", entry)})
			continue
		}
		if entry == "" || path.IsAbs(entry) || cleaned == ".." || strings.HasPrefix(cleaned, "../") {
			found = append(found, problem{
				fmt.Sprintf("nodes[%d]", i),
				fmt.Sprintf("nodes entry %q is not below this folder; a base elsewhere is used by a kustomization in this one", entry),
			})
		}
	}
	return found
}

func (k *Karpenter) checkSubstitute() []problem {
	var found []problem
	builtIn := builtIns(k.Cluster)
	for _, name := range slices.Sorted(maps.Keys(k.Substitute)) {
		at := "substitute." + name
		if _, taken := builtIn[name]; taken {
			found = append(found, problem{at, fmt.Sprintf("substitute.%s is built in, and comes from cluster", name)})
		} else if !variableName.MatchString(name) {
			found = append(found, problem{at, fmt.Sprintf("substitute.%s is not a name: letters, digits and _, no digit first", name)})
		}
	}
	return found
}
