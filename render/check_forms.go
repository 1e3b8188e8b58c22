package render

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The labels whose values have a form that this file checks.
const (
	labelZone   = "topology.kubernetes.io/zone"
	labelZoneID = "topology.k8s.aws/zone-id"
	labelRegion = "topology.kubernetes.io/region"
	labelArch   = "kubernetes.io/arch"
	labelCPU    = "karpenter.k8s.aws/instance-cpu"
	labelMemory = "karpenter.k8s.aws/instance-memory"
)

// form is what the values of a label look like on a node.
type form struct {
	fits func(value string) bool
	// is describes the values, and follows "which is".
	is string
}

var (
	typeName   = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
	familyName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	sizeName   = regexp.MustCompile(`^[0-9]*[a-z]+(-[0-9]+[a-z]+)?$`)
	// lowerKabobCase in karpenter-provider-aws pkg/providers/instancetype/types.go, 1.14.1.
	deviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
)

// formsIn are the forms of labels in a region. A form follows from how AWS and Karpenter write a value. Which of the values
// exist only AWS knows.
func formsIn(region string) map[string]form {
	size := form{sizeName.MatchString, "a size such as 2xlarge"}
	device := form{deviceName.MatchString, "in lower case, such as a100"}
	forms := map[string]form{
		labelType:                             {typeName.MatchString, "an instance type such as m5.large"},
		labelFamily:                           {familyName.MatchString, "an instance family such as m5"},
		labelSize:                             size,
		"karpenter.k8s.aws/instance-gpu-name": device,
		"karpenter.k8s.aws/instance-gpu-manufacturer":         device,
		"karpenter.k8s.aws/instance-accelerator-name":         device,
		"karpenter.k8s.aws/instance-accelerator-manufacturer": device,
	}
	for key, least := range wholeNumbers() {
		forms[key] = least.form()
	}
	if region == "" {
		return forms
	}
	forms[labelRegion] = form{func(value string) bool { return value == region }, "the region of the cluster, " + region}
	zone := regexp.MustCompile(`^` + regexp.QuoteMeta(region) + `([a-z]|-[a-z0-9-]+)$`)
	forms[labelZone] = form{zone.MatchString, fmt.Sprintf("a zone of the cluster's region, such as %sa", region)}
	if prefix := zoneIDPrefix(region); prefix != "" {
		id := regexp.MustCompile(`^` + prefix + `(-[a-z0-9]+)*-az[0-9]+$`)
		forms[labelZoneID] = form{id.MatchString, fmt.Sprintf("a zone ID of the cluster's region, such as %s-az1", prefix)}
	}
	return forms
}

// least is the smallest number that a label has on any instance, in its unit.
type least struct {
	number int
	unit   string
}

// wholeNumbers are the labels whose values are whole numbers without a unit. No instance type has less than one processor
// and 512 MiB.
func wholeNumbers() map[string]least {
	numbers := map[string]least{labelCPU: {1, "processors"}, labelMemory: {512, "MiB"}}
	for _, name := range []string{
		"instance-ebs-bandwidth", "instance-network-bandwidth", "instance-gpu-count", "instance-gpu-memory", "instance-accelerator-count",
		"instance-local-nvme", "instance-cpu-sustained-clock-speed-mhz", "instance-generation",
	} {
		numbers["karpenter.k8s.aws/"+name] = least{}
	}
	return numbers
}

func (l least) form() form {
	is := "a whole number without a unit"
	if l.unit != "" {
		is = fmt.Sprintf("a whole number of %s, at least %d", l.unit, l.number)
	}
	return form{func(value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n >= l.number
	}, is}
}

// zoneIDPrefix is what the zone IDs of a region begin with: euw1 for eu-west-1, usgw1 for us-gov-west-1; empty for a region
// whose name has another form
// (https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html).
func zoneIDPrefix(region string) string {
	directions := map[string]string{
		"north": "n", "east": "e", "south": "s", "west": "w", "central": "c",
		"northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw",
	}
	parts := strings.Split(strings.Replace(region, "us-gov-", "usg-", 1), "-")
	if len(parts) != 3 || directions[parts[1]] == "" {
		return ""
	}
	return parts[0] + directions[parts[1]] + parts[2]
}

// requirementsOf are the requirements of a NodePool, and the labels of its template, which are requirements as well
// (NewNodeClaimTemplate in karpenter pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go, 1.14.1).
func requirementsOf(pool *unstructured.Unstructured) []map[string]any {
	requirements := list(pool, "spec", "template", "spec", "requirements")
	labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
	for key, value := range labels {
		requirements = append(requirements, map[string]any{"key": key, "operator": "In", "values": []any{value}})
	}
	return requirements
}

// misfit is a requirement with values that no node has, of all that it lists.
type misfit struct {
	key   string
	wrong []string
	all   bool
	form  form
}

// misfits are the requirements of a NodePool with values that no node in a region has, by their form.
func misfits(object Object, region string) []misfit {
	if object.Ref.Kind != NodePool {
		return nil
	}
	var found []misfit
	forms := formsIn(region)
	for _, r := range requirementsOf(object.Desired) {
		key, _ := r["key"].(string)
		of, has := forms[key]
		if !has || !listsValues(r) {
			continue
		}
		values := texts(r["values"])
		wrong := slices.DeleteFunc(slices.Clone(values), of.fits)
		if len(wrong) > 0 {
			found = append(found, misfit{key, wrong, len(wrong) == len(values), of})
		}
	}
	slices.SortStableFunc(found, func(a, b misfit) int { return strings.Compare(a.key, b.key) })
	return found
}

// checkForms refuses requirements whose values no node can have, by their form: the NodePool would be Ready, and
// launch no node.
func checkForms(object Object, region string) []problem {
	var found []problem
	for _, m := range misfits(object, region) {
		if m.all {
			found = append(found, problem{"spec.template.spec.requirements", fmt.Sprintf(
				"%s: no node could be launched: no value of %s [%s] is %s", object.Ref, m.key, someNames(m.wrong), m.form.is)})
		}
	}
	return append(found, checkUpperBounds(object)...)
}

// checkUpperBounds refuses requirements that only an instance below the smallest one could meet.
func checkUpperBounds(object Object) []problem {
	var found []problem
	if object.Ref.Kind != NodePool {
		return nil
	}
	for _, r := range requirementsOf(object.Desired) {
		key, _ := r["key"].(string)
		smallest, is := wholeNumbers()[key]
		if _, below := bounds([]map[string]any{r}); is && below != nil && *below <= smallest.number {
			found = append(found, problem{"spec.template.spec.requirements", fmt.Sprintf(
				"%s: no node could be launched: %s %v [%s] allows no instance type: it is %s", object.Ref, key, r["operator"], someNames(texts(r["values"])), smallest.form().is)})
		}
	}
	return found
}

// warnOfForms names values that no node can have beside others that one may have.
func warnOfForms(object Object, region string) string {
	var words []string
	for _, m := range misfits(object, region) {
		if !m.all {
			words = append(words, fmt.Sprintf("%s: %s [%s] matches no node: it is not %s", object.Ref, m.key, someNames(m.wrong), m.form.is))
		}
	}
	return sentences(words...)
}
