package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxBudgets is how many disruption budgets a NodePool may have in Git. Karpenter's CRD allows one more; plumbline uses
// that one to stop a rollout.
const maxBudgets = 49

// checkBudgets refuses so many disruption budgets that plumbline could not add its own, with which it stops a rollout
// or freezes nodes.
func checkBudgets(object Object) []problem {
	n := len(list(object.Desired, "spec", "disruption", "budgets"))
	if n <= maxBudgets {
		return nil
	}
	return []problem{{"spec.disruption.budgets", fmt.Sprintf(
		"%s: it has %d disruption budgets, but at most %d are allowed: one of the 50 that Karpenter allows is kept for the budget that stops a rollout, or keeps nodes in a freeze", object.Ref, n, maxBudgets)}}
}

// warnOfBudgets names the reasons for which no disruption budget limits Karpenter, or none outside certain hours; it is
// empty if all are limited. A NodePool without budgets has Karpenter's default of 10% for all reasons, and explicit
// budgets replace it (karpenter pkg/apis/v1/nodepool.go, Disruption.Budgets and GetAllowedDisruptionsByReason, 1.14.1).
func warnOfBudgets(object Object) string {
	budgets := list(object.Desired, "spec", "disruption", "budgets")
	if object.Ref.Kind != NodePool || len(budgets) == 0 {
		return ""
	}
	var unlimited []string
	limitedAt := map[string][]string{}
	for _, reason := range disruptionReasons(object) {
		switch hours, limits := hoursOf(budgets, reason); {
		case !limits:
			unlimited = append(unlimited, reason)
		case len(hours) > 0:
			at := strings.Join(hours, " and ")
			limitedAt[at] = append(limitedAt[at], reason)
		}
	}
	var found []string
	if len(unlimited) > 0 {
		found = append(found, fmt.Sprintf("%s: no disruption budget limits %s: Karpenter may disrupt all of its nodes at a time for %s; add a budget without reasons",
			object.Ref, english.WordSeries(unlimited, "and"), english.PluralWord(len(unlimited), "it", "them")))
	}
	for _, at := range slices.Sorted(maps.Keys(limitedAt)) {
		reasons := limitedAt[at]
		found = append(found, fmt.Sprintf("%s: disruption budgets limit %s only at %s: at all other times Karpenter may disrupt all of its nodes for %s; add a budget without a schedule",
			object.Ref, english.WordSeries(reasons, "and"), at, english.PluralWord(len(reasons), "it", "them")))
	}
	return sentences(found...)
}

// disruptionReasons returns the reasons for which Karpenter may disrupt nodes of a NodePool within its budgets, in
// Karpenter's spelling.
func disruptionReasons(object Object) []string {
	reasons := []string{"Drifted"}
	field := func(path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Desired.Object, append([]string{"spec"}, path...)...)
		return value
	}
	if field("replicas") != nil || field("disruption", "consolidateAfter") == "Never" {
		return reasons // Karpenter does not consolidate this NodePool
	}
	reasons = append(reasons, "Empty")
	if field("disruption", "consolidationPolicy") != "WhenEmpty" {
		reasons = append(reasons, "Underutilized")
	}
	return reasons
}

// hoursOf returns the schedules of the budgets for a reason, if all of them have one; limits reports whether there is
// any budget for it.
func hoursOf(budgets []map[string]any, reason string) (hours []string, limits bool) {
	always := false
	for _, budget := range budgets {
		reasons, named := budget["reasons"].([]any)
		if named && !slices.Contains(reasons, any(reason)) {
			continue
		}
		limits = true
		if schedule, ok := budget["schedule"].(string); ok {
			hours = append(hours, fmt.Sprintf("%q for %v (UTC)", schedule, budget["duration"]))
		} else {
			always = true
		}
	}
	if always {
		return nil, true
	}
	return hours, limits
}

// checkLimits refuses limits on a resource that no node has, which limit nothing, and limits below the smallest node
// that the NodePool allows: Karpenter would launch none. A limit of 0 stops a NodePool on purpose.
func checkLimits(object Object) []problem {
	limits, _, _ := unstructured.NestedMap(object.Desired.Object, "spec", "limits")
	var found []problem
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		at := "spec.limits." + name
		if !resourceOfNodes(name) {
			found = append(found, problem{at, fmt.Sprintf(
				"%s: spec.limits.%s: no node has a resource of this name, so that it limits nothing: write cpu, memory, pods, ephemeral-storage, nodes, or the full name of another resource, such as nvidia.com/gpu", object.Ref, name)})
			continue
		}
		limit, err := resource.ParseQuantity(fmt.Sprint(limits[name]))
		smallest, why := SmallestNode(object.Desired, name)
		if err != nil || limit.IsZero() || limit.Cmp(smallest) >= 0 {
			continue
		}
		found = append(found,
			problem{at, fmt.Sprintf("%s: no node could be launched: spec.limits.%s is %s, and %s", object.Ref, name, limit.String(), why)})
	}
	return found
}

// resourceOfNodes reports whether a node can have a resource of this name: one of Kubernetes' own, or one with a domain
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources). Karpenter adds
// the resource nodes, the number of nodes.
func resourceOfNodes(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return slices.Contains([]string{"cpu", "memory", "pods", "ephemeral-storage", "nodes"}, name) ||
		strings.HasPrefix(name, "hugepages-") || strings.HasPrefix(name, "attachable-volumes-")
}

// SmallestNode returns the least that a node of a NodePool uses of a limit, and why. For memory it is half of what the
// instance has, because a setting decides how much of it Karpenter reserves for the system.
func SmallestNode(pool *unstructured.Unstructured, limit string) (smallest resource.Quantity, why string) {
	switch limit {
	case "cpu":
		n := Least(pool, labelCPU)
		return *resource.NewQuantity(n, resource.DecimalSI), fmt.Sprintf("the smallest node that it allows has %d processors", n)
	case "memory":
		n := Least(pool, labelMemory)
		return *resource.NewQuantity(n<<20/2, resource.BinarySI), fmt.Sprintf("the smallest node that it allows has %dMi: without a unit it is in bytes", n)
	case "ephemeral-storage":
		return resource.MustParse("1Gi"), "the smallest volume has 1Gi: without a unit it is in bytes"
	case "nodes":
		return *resource.NewQuantity(1, resource.DecimalSI), "each node counts as 1"
	}
	return resource.Quantity{}, ""
}

// Least returns the smallest instance-cpu, or instance-memory in MiB, that a NodePool allows: that of the smallest
// instance type, or more if its requirements demand more.
func Least(pool *unstructured.Unstructured, label string) int64 {
	smallest := int64(wholeNumbers()[label].number)
	for _, r := range requirementsOf(pool) {
		if r["key"] != label {
			continue
		}
		fewest := int64(0)
		for _, value := range texts(r["values"]) {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && (fewest == 0 || n < fewest) {
				fewest = n
			}
		}
		switch r["operator"] {
		case "In", "Gte":
			smallest = max(smallest, fewest)
		case "Gt":
			smallest = max(smallest, fewest+1)
		}
	}
	return smallest
}

// checkTogether refuses requirements on one label that no instance can meet together. The NodePool would be Ready, and
// launch no node.
func checkTogether(object Object) []problem {
	byLabel := map[string][]map[string]any{}
	for _, r := range requirementsOf(object.Desired) {
		if key, _ := r["key"].(string); key != "" {
			byLabel[key] = append(byLabel[key], r)
		}
	}
	var found []problem
	for _, key := range slices.Sorted(maps.Keys(byLabel)) {
		if key == labelType || key == labelFamily || !contradict(byLabel[key]) {
			continue // checkInstances has better messages for types and families
		}
		var words []string
		for _, r := range byLabel[key] {
			words = append(words, strings.TrimSuffix(fmt.Sprintf("%v [%s]", r["operator"], someNames(texts(r["values"]))), " []"))
		}
		found = append(found, problem{"spec.template.spec.requirements", fmt.Sprintf(
			"%s: no node could be launched: the requirements on %s (the labels of the template are among them) contradict each other: %s",
			object.Ref, key, strings.Join(words, ", "))})
	}
	return found
}

// contradict reports whether no value of a label meets all requirements on it.
func contradict(requirements []map[string]any) bool {
	if len(requirements) < 2 {
		return false
	}
	if at := slices.IndexFunc(requirements, listsValues); at >= 0 {
		return !slices.ContainsFunc(texts(requirements[at]["values"]), func(value string) bool {
			return !slices.ContainsFunc(requirements, func(r map[string]any) bool { return !fitsOne(r, value) })
		})
	}
	above, below := bounds(requirements)
	return above != nil && below != nil && *above+1 >= *below || absentAndPresent(requirements)
}

func listsValues(r map[string]any) bool { return r["operator"] == "In" && len(texts(r["values"])) > 0 }

// absentAndPresent reports whether one requirement excludes a label and another requires it.
func absentAndPresent(requirements []map[string]any) bool {
	has := func(operators ...string) bool {
		return slices.ContainsFunc(requirements, func(r map[string]any) bool {
			operator, _ := r["operator"].(string)
			return slices.Contains(operators, operator)
		})
	}
	return has("DoesNotExist") && has("Exists", "Gt", "Lt", "Gte", "Lte")
}

// bounds returns the largest number that values must exceed and the smallest that they must stay below; nil if there is
// none.
func bounds(requirements []map[string]any) (above, below *int) {
	for _, r := range requirements {
		values := texts(r["values"])
		if len(values) != 1 {
			continue
		}
		n, err := strconv.Atoi(values[0])
		if err != nil {
			continue
		}
		switch r["operator"] {
		case "Gt":
			above = higher(above, n)
		case "Gte":
			above = higher(above, n-1)
		case "Lt":
			below = lower(below, n)
		case "Lte":
			below = lower(below, n+1)
		}
	}
	return above, below
}

func higher(bound *int, n int) *int {
	if bound != nil && *bound > n {
		return bound
	}
	return &n
}

func lower(bound *int, n int) *int {
	if bound != nil && *bound < n {
		return bound
	}
	return &n
}

// unlaunchable returns errors for NodePools that can launch no node with the EC2NodeClass that they reference. It
// checks only classes in the Set, and knows nothing about others.
func unlaunchable(objects []Object) Errors {
	classes := map[string]*unstructured.Unstructured{}
	for i := range objects {
		if objects[i].Ref.Kind == EC2NodeClass {
			classes[objects[i].Ref.Name] = objects[i].Desired
		}
	}
	var errs Errors
	for i := range objects {
		kind, _ := KindOf(objects[i].Ref.Kind)
		if kind.RefersTo == "" {
			continue
		}
		name, _, _ := unstructured.NestedString(objects[i].Desired.Object, kind.RefPath...)
		class := classes[name]
		if class == nil {
			continue
		}
		if why := mismatch(requirementsOf(objects[i].Desired), name, class); why != "" {
			errs = append(errs, Error{
				File: objects[i].Origin.File, Line: objects[i].Origin.Line,
				Message: fmt.Sprintf("%s: no node could be launched: %s", objects[i].Ref, why),
			})
		}
	}
	return errs
}

// mismatch returns why no node with the class can meet the requirements; it is empty if one may.
func mismatch(requirements []map[string]any, name string, class *unstructured.Unstructured) string {
	const capacityType = "karpenter.sh/capacity-type"
	allows := func(key, value string) bool { return fitsAll(requirements, map[string]string{key: value}) }
	family := AMIFamily(class)
	system := "linux"
	if strings.HasPrefix(family, "windows") {
		system = "windows"
	}
	switch {
	case family != "" && family != "custom" && !allows("kubernetes.io/os", system):
		return fmt.Sprintf("its requirements on kubernetes.io/os do not allow %s, which the AMIs of EC2NodeClass/%s run (%s)",
			system, name, family)
	case !allows(capacityType, "on-demand") && !allows(capacityType, "spot") && len(list(class, "spec", "capacityReservationSelectorTerms")) == 0:
		return fmt.Sprintf("its requirements on %s allow only reserved, and EC2NodeClass/%s has no capacityReservationSelectorTerms",
			capacityType, name)
	}
	return ""
}

// AMIFamily returns the AMI family of an EC2NodeClass in lower case, from its amiFamily or its alias; it is empty if it
// has neither.
func AMIFamily(class *unstructured.Unstructured) string {
	if family, _, _ := unstructured.NestedString(class.Object, "spec", "amiFamily"); family != "" {
		return strings.ToLower(family)
	}
	terms := list(class, "spec", "amiSelectorTerms")
	i := slices.IndexFunc(terms, func(term map[string]any) bool { return term["alias"] != nil })
	if i < 0 {
		return ""
	}
	alias, _ := terms[i]["alias"].(string)
	family, _, _ := strings.Cut(strings.ToLower(alias), "@")
	return family
}

// Labels whose values have a form that this file checks.
const (
	labelZone   = "topology.kubernetes.io/zone"
	labelZoneID = "topology.k8s.aws/zone-id"
	labelRegion = "topology.kubernetes.io/region"
	labelArch   = "kubernetes.io/arch"
	labelCPU    = "karpenter.k8s.aws/instance-cpu"
	labelMemory = "karpenter.k8s.aws/instance-memory"
)

// form describes the values that a label has on nodes.
type form struct {
	fits func(value string) bool
	// is describes the values; messages put it after "is".
	is string
}

var (
	typeName   = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
	familyName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	sizeName   = regexp.MustCompile(`^[0-9]*[a-z]+(-[0-9]+[a-z]+)?$`)
	// lowerKabobCase in karpenter-provider-aws pkg/providers/instancetype/types.go, 1.14.1.
	deviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
)

// formsIn returns the forms of labels in a region, as AWS and Karpenter write the values. Only AWS knows which of these
// values exist.
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

// least is the smallest number that a label has on any instance, and its unit.
type least struct {
	number int
	unit   string
}

// wholeNumbers returns the labels whose values are whole numbers without a unit. Every instance type has at least one
// processor and 512 MiB.
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

// zoneIDPrefix returns the prefix of a region's zone IDs: euw1 for eu-west-1, usgw1 for us-gov-west-1; it is empty if
// the region's name has another form
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

// requirementsOf returns the requirements of a NodePool and the labels of its template, which are requirements as well
// (NewNodeClaimTemplate in karpenter pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go, 1.14.1).
func requirementsOf(pool *unstructured.Unstructured) []map[string]any {
	requirements := list(pool, "spec", "template", "spec", "requirements")
	labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
	for key, value := range labels {
		requirements = append(requirements, map[string]any{"key": key, "operator": "In", "values": []any{value}})
	}
	return requirements
}

// misfit is a requirement that lists values which no node has; all reports whether these are all of its values.
type misfit struct {
	key   string
	wrong []string
	all   bool
	form  form
}

// misfits returns the requirements of a NodePool with values whose form no node in the region has.
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

// checkForms refuses requirements if no node can have any of their values: the NodePool would be Ready, and launch no
// node.
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

// checkUpperBounds refuses requirements that only an instance smaller than the smallest one could meet.
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

// warnOfForms warns about values that no node can have, if others of the same requirement may exist.
func warnOfForms(object Object, region string) string {
	var words []string
	for _, m := range misfits(object, region) {
		if !m.all {
			words = append(words, fmt.Sprintf("%s: %s [%s] matches no node: it is not %s", object.Ref, m.key, someNames(m.wrong), m.form.is))
		}
	}
	return sentences(words...)
}
