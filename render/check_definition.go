package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/pelletier/go-toml/v2"
	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// checkDefinition refuses what the CRD's schema accepts but Karpenter cannot work with. No condition of the object
// would report it.
func checkDefinition(object Object) []problem {
	var found []problem
	labels := object.Ref.Kind == NodePool || object.Ref.Kind == EC2NodeClass
	if n := len(object.Ref.Name); labels && n > validation.LabelValueMaxLength {
		found = append(found, problem{"metadata.name", fmt.Sprintf(
			"%s: the name has %d characters, and no more than %d: it becomes the value of a label of each of its nodes, so that none could be launched", object.Ref, n, validation.LabelValueMaxLength)})
	}
	if object.Ref.Kind == NodePool {
		found = append(found, checkClassRef(object)...)
		found = append(found, checkSchedules(object)...)
		found = append(found, checkBudgets(object)...)
		found = append(found, checkRequirements(object, "spec.template.spec.requirements")...)
		found = append(found, checkInstances(object)...)
		found = append(found, checkTogether(object)...)
		found = append(found, checkLimits(object)...)
	}
	if object.Ref.Kind == EC2NodeClass {
		found = append(found, checkUserData(object)...)
		found = append(found, checkTOML(object)...)
		found = append(found, checkAliases(object)...)
		found = append(found, checkTags(object)...)
	}
	if object.Ref.Kind == CapacityBuffer {
		found = append(found, checkBuffer(object)...)
	}
	if object.Ref.Kind == NodeOverlay {
		found = append(found, checkRequirements(object, "spec.requirements")...)
		found = append(found, checkOverlay(object)...)
	}
	return found
}

// reservedTags is the prefix of the tags with which people tell plumbline what to do with a resource in AWS:
// plumbline.dev/keep excludes a volume from the report of leftovers.
const reservedTags = "plumbline.dev/"

// checkTags refuses reserved tags: Karpenter puts spec.tags on each instance, volume and network interface that it
// creates, so a commit could hide all of them from plumbline verify.
func checkTags(object Object) []problem {
	tags, _, _ := unstructured.NestedMap(object.Desired.Object, "spec", "tags")
	var found []problem
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if strings.HasPrefix(tag, reservedTags) {
			found = append(found, problem{"spec.tags", fmt.Sprintf(
				"%s: the tag %s is reserved: people put tags that begin with %s on a resource in AWS, and no definition may; remove it", object.Ref, tag, reservedTags)})
		}
	}
	return found
}

// maxUserData is the most user data that EC2 accepts, in bytes, before encoding
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html).
const maxUserData = 16 << 10

// maxTOML limits Bottlerocket's user data with its comments: the time to parse it grows with the square of its keys.
const maxTOML = 4 * maxUserData

// checkUserData refuses user data with which no instance can be launched: Karpenter adds its own to it. For
// Bottlerocket, Karpenter keeps the settings without comments, so the text may be longer.
func checkUserData(object Object) []problem {
	data, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "userData")
	if len(data) <= maxUserData || isBottlerocket(object.Desired) && len(data) <= maxTOML {
		return nil
	}
	return []problem{{"spec.userData", fmt.Sprintf(
		"%s: spec.userData has %d bytes, and EC2 takes no more than %d: have the nodes download the rest, or put it into the AMI", object.Ref, len(data), maxUserData)}}
}

// checkTOML refuses user data of Bottlerocket that is not TOML. Karpenter parses it with the same library, and reports
// the error only in its log (NewBottlerocketConfig in karpenter-provider-aws pkg/providers/amifamily/bootstrap,
// 1.14.1).
func checkTOML(object Object) []problem {
	data, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "userData")
	if !isBottlerocket(object.Desired) || len(data) > maxTOML {
		return nil
	}
	err := toml.Unmarshal([]byte(data), &map[string]any{})
	if err == nil {
		return nil
	}
	at := ""
	if decode := (*toml.DecodeError)(nil); errors.As(err, &decode) {
		line, _ := decode.Position()
		at = fmt.Sprintf(" in its line %d", line)
	}
	return []problem{{"spec.userData", fmt.Sprintf(
		"%s: spec.userData is not TOML, as Bottlerocket requires: %s%s", object.Ref, strings.TrimPrefix(err.Error(), "toml: "), at)}}
}

// pinned returns the form of versions in aliases by family, with an example. Karpenter puts a version into the name of
// an SSM parameter (DescribeImageQuery in karpenter-provider-aws pkg/providers/amifamily/{al2,al2023,bottlerocket}.go,
// 1.14.1): AWS names releases of Amazon Linux with a v and a date, and the parameters of Bottlerocket with a semantic
// version, which Karpenter allows to start with a v.
func pinned() map[string]form {
	date := form{regexp.MustCompile(`^v\d{8}([.-]\w+)*$`).MatchString, "v and a date, such as v20260625"}
	return map[string]form{
		"al2": date, "al2023": date,
		"bottlerocket": {regexp.MustCompile(`^v?\d+\.\d+\.\d+([.-]\w+)*$`).MatchString, "three numbers, such as v1.50.0"},
	}
}

// checkAliases refuses an alias on which Karpenter's controller exits, again after each start (amiVersionFromAlias in
// karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.1), and a version in a form that AWS never publishes.
func checkAliases(object Object) []problem {
	var found []problem
	for i, term := range list(object.Desired, "spec", "amiSelectorTerms") {
		alias, _ := term["alias"].(string)
		at := fmt.Sprintf("spec.amiSelectorTerms[%d].alias", i)
		family, version, _ := strings.Cut(alias, "@")
		switch form, known := pinned()[family]; {
		case strings.Count(alias, "@") > 1:
			found = append(found, problem{
				at, fmt.Sprintf("%s: alias %q has more than one @, which makes Karpenter's controller exit: write family@version", object.Ref, alias),
			})
		case known && version != "" && version != "latest" && !form.fits(version):
			found = append(found, problem{
				at, fmt.Sprintf("%s: alias %q names no AMI: a version of %s is latest, or %s", object.Ref, alias, family, form.is),
			})
		}
	}
	return found
}

func isBottlerocket(class *unstructured.Unstructured) bool { return AMIFamily(class) == "bottlerocket" }

// autoMode is the API group of EKS Auto Mode's node classes; AWS manages their nodes without Karpenter's charts.
const autoMode = "eks.amazonaws.com"

// OfAutoMode reports whether a NodePool or NodeClaim refers to a node class of EKS Auto Mode. AWS manages it: Karpenter
// handles only those of its own node classes (karpenter pkg/utils/nodepool/nodepool.go, IsManaged).
func OfAutoMode(object *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "template", "spec", "nodeClassRef", "group"}, {"spec", "nodeClassRef", "group"}} {
		if group, _, _ := unstructured.NestedString(object.Object, path...); group == autoMode {
			return true
		}
	}
	return false
}

// ClassOfAutoMode reports whether a reference is to a node class of EKS Auto Mode, by its API group.
func ClassOfAutoMode(group string) bool { return group == autoMode }

// checkClassRef refuses a NodePool whose nodes Karpenter on AWS does not create.
func checkClassRef(object Object) []problem {
	const at = "spec.template.spec.nodeClassRef.group"
	group, _, _ := unstructured.NestedString(object.Desired.Object, strings.Split(at, ".")...)
	own, _ := KindOf(EC2NodeClass)
	switch {
	case group == "", group == own.GVK.Group, strings.Contains(group, "/"): // the schema refuses what is not a group
		return nil
	case group == autoMode:
		return []problem{{at, fmt.Sprintf(
			"%s is a pool of EKS Auto Mode (nodeClassRef.group %s), whose nodes AWS manages without Karpenter's charts: leave it to the tool that applies the rest, or name an EC2NodeClass", object.Ref, autoMode)}}
	}
	return []problem{{
		at,
		fmt.Sprintf("%s: nodeClassRef.group is %s, and the EC2NodeClasses of Karpenter on AWS are of %s", object.Ref, group, own.GVK.Group),
	}}
}

// checkSchedules parses the schedules of budgets as Karpenter does (Budget.IsActive in karpenter
// pkg/apis/v1/nodepool.go, 1.14.1). One that Karpenter cannot parse stops all disruption in the cluster.
func checkSchedules(object Object) []problem {
	var found []problem
	for i, budget := range list(object.Desired, "spec", "disruption", "budgets") {
		schedule, given := budget["schedule"].(string)
		if !given {
			continue
		}
		if _, err := cron.ParseStandard("TZ=UTC " + schedule); err != nil {
			found = append(found, problem{
				fmt.Sprintf("spec.disruption.budgets[%d].schedule", i),
				fmt.Sprintf("%s: schedule %q of a disruption budget is no cron schedule: %v", object.Ref, schedule, err),
			})
		}
	}
	return found
}

// checkRequirements refuses requirements that no instance type meets, for labels with a fixed set of values. path is
// where the definition has its requirements.
func checkRequirements(object Object, path string) []problem {
	var found []problem
	for i, requirement := range list(object.Desired, strings.Split(path, ".")...) {
		key, _ := requirement["key"].(string)
		known := closedLabels()[key]
		values := texts(requirement["values"])
		if known == nil || requirement["operator"] != "In" || len(values) == 0 {
			continue
		}
		if !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(known, v) }) {
			found = append(found, problem{
				fmt.Sprintf("%s[%d].values", path, i),
				fmt.Sprintf("%s: no instance type has %s in [%s]: the known values are %s",
					object.Ref, key, strings.Join(values, ", "), strings.Join(known, ", ")),
			})
		}
	}
	return found
}

// closedLabels returns the labels with a fixed set of values. Families, sizes and types are not among them, because AWS
// adds new ones all the time.
func closedLabels() map[string][]string {
	return map[string][]string{
		"kubernetes.io/arch":         {"amd64", "arm64"},
		"kubernetes.io/os":           {"linux", "windows"},
		"karpenter.sh/capacity-type": {"on-demand", "reserved", "spot"},
		// The first letters of the names of instance types
		// (https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html, and those of previous
		// generations).
		"karpenter.k8s.aws/instance-category": {
			"a", "c", "cc", "cg", "cr", "d", "dl", "f", "g", "gr", "h", "hi", "hpc", "hs", "i", "im", "inf", "is",
			"m", "mac", "p", "r", "t", "trn", "u", "vt", "x", "z",
		},
	}
}

// list returns a list of objects. Values of another type become nil; the schema reports them.
func list(object *unstructured.Unstructured, path ...string) []map[string]any {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		return nil
	}
	items, _ := value.([]any)
	found := make([]map[string]any, 0, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		found = append(found, fields)
	}
	return found
}

func texts(value any) []string {
	items, _ := value.([]any)
	var found []string
	for _, item := range items {
		if text, ok := item.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

// checkReadable refuses what the CRD's schema accepts but Karpenter's own type cannot hold, such as a duration of
// 10,000,000 hours: Karpenter could then read no object of the kind, and would stop working.
func checkReadable(object Object) []problem {
	var into any
	switch object.Ref.Kind {
	case NodePool:
		into = &karpv1.NodePool{}
	case EC2NodeClass:
		into = &aws.EC2NodeClass{}
	case NodeOverlay:
		into = &v1alpha1.NodeOverlay{}
	case CapacityBuffer:
		into = &v1beta1.CapacityBuffer{}
	default:
		return nil
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, into)
	if err == nil {
		return nil
	}
	return []problem{{"spec", cut(fmt.Sprintf("%s: Karpenter cannot read it: %v", object.Ref, err))}}
}

// checkQuantities refuses quantities that take too long to parse, before anything parses them: 900,000 digits take
// seconds, and so does "1e10000000". The CRD's pattern limits neither, and Karpenter parses them, too.
func checkQuantities(kind Kind, content map[string]any) []problem {
	ref := RefTo(kind.GVK.Kind, &unstructured.Unstructured{Object: content})
	var found []problem
	for _, unfit := range weigh.Quantities(content) {
		found = append(found, problem{unfit.Path, fmt.Sprintf("%s: %s: %s", ref, unfit.Path, unfit.Message)})
	}
	return found
}

// checkCharacters refuses characters that the API server accepts in no applied object: it parses these as YAML, which
// allows the characters only as escapes (go.yaml.in/yaml/v2 readerc.go), and JSON contains them unescaped.
func checkCharacters(kind Kind, content map[string]any) []problem {
	if !anyText(content, hasUnreadable) {
		return nil
	}
	var found []problem
	for _, at := range unreadableIn("", content) {
		found = append(found, problem{at.path, fmt.Sprintf(
			"%s: %s has the character %U, which the API server takes in no definition: leave it out, and encode what is binary", kind.GVK.Kind, at.path, at.character)})
	}
	return found
}

// unreadable is a character and the path of its field.
type unreadable struct {
	path      string
	character rune
}

// unreadableIn returns the first such character of each string, keys included.
func unreadableIn(path string, value any) (found []unreadable) {
	switch v := value.(type) {
	case string:
		if i := strings.IndexFunc(v, isUnreadable); i >= 0 {
			found = append(found, unreadable{path, []rune(v[i:])[0]})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if i := strings.IndexFunc(key, isUnreadable); i >= 0 {
				found = append(found, unreadable{path, []rune(key[i:])[0]})
			}
			found = append(found, unreadableIn(below(path, key), v[key])...)
		}
	case []any:
		for i, entry := range v {
			found = append(found, unreadableIn(fmt.Sprintf("%s[%d]", path, i), entry)...)
		}
	}
	return found
}

// below returns the path of a field.
func below(path, key string) string {
	switch {
	case path == "":
		return key
	case strings.Contains(key, "."):
		return path + "[" + key + "]"
	}
	return path + "." + key
}

func hasUnreadable(text string) bool { return strings.ContainsFunc(text, isUnreadable) }

func isUnreadable(r rune) bool {
	return r == 0x7f || r >= 0x80 && r <= 0x9f && r != 0x85 || r == 0xfffe || r == 0xffff
}
