package karpenter

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apidefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Upgrade is a change of Karpenter's version in a cluster with nodes.
type Upgrade struct {
	From, To string
	// Classes and Pools are the live objects. They contain the API server's defaults, so a default that changes later
	// does not affect them.
	Classes, Pools []*unstructured.Unstructured
	// Old and New are the CRDs of both versions.
	Old, New []*apiextensionsv1.CustomResourceDefinition
}

// Effect is what an upgrade does to the nodes of one NodePool.
type Effect struct {
	Pool string `json:"pool"`
	// Annotated reports whether their NodeClaims get a new hash annotation, which replaces no node: HashChange.
	Annotated bool `json:"annotated,omitempty"`
	Outlook
}

// Outlook is why nodes may be replaced; empty if none is.
type Outlook struct {
	// Replaced are the reasons why Karpenter replaces them.
	Replaced []string `json:"replaced,omitempty"`
	// Unknown are the reasons why this is unknown.
	Unknown []string `json:"unknown,omitempty"`
}

// MayReplace reports whether nodes may be replaced.
func (o Outlook) MayReplace() bool { return len(o.Replaced)+len(o.Unknown) > 0 }

// String describes what happens to the nodes.
func (e Effect) String() string {
	switch {
	case len(e.Replaced) > 0:
		return "replaced at the pace of the budgets: " + strings.Join(slices.Concat(e.Replaced, e.Unknown), "; ")
	case len(e.Unknown) > 0:
		return "unknown: " + strings.Join(e.Unknown, "; ")
	case e.Annotated:
		return "annotated again, not replaced"
	}
	return "untouched"
}

func (o Outlook) and(more Outlook) Outlook {
	return Outlook{Replaced: slices.Concat(o.Replaced, more.Replaced), Unknown: slices.Concat(o.Unknown, more.Unknown)}
}

// unknown returns an Outlook with one unknown.
func unknown(format string, args ...any) Outlook {
	return Outlook{Unknown: []string{fmt.Sprintf(format, args...)}}
}

// Effects returns what an upgrade does to the nodes of each NodePool, in the order of Pools. Errors: *VersionError.
func Effects(u Upgrade) ([]Effect, error) {
	from, to, err := parsePair(u.From, u.To)
	if err != nil {
		return nil, err
	}
	d := &defaulting{old: newShapes(u.Old), next: newShapes(u.New)}
	ofClass := make(map[string]Outlook, len(u.Classes))
	for _, class := range u.Classes {
		ofClass[class.GetName()] = followsLatest(class).and(d.outlook(class, "spec"))
	}
	hashes := unknownHash(from, to)
	annotated := len(hashChanges(from, to)) > 0
	effects := make([]Effect, 0, len(u.Pools))
	for _, pool := range u.Pools {
		name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
		class, found := ofClass[name]
		if !found {
			class = unknown("EC2NodeClass %s, which it names, is not there to look at", name)
		}
		effects = append(effects, Effect{
			Pool: pool.GetName(), Annotated: annotated,
			Outlook: hashes.and(d.outlook(pool, "spec", "template")).and(class),
		})
	}
	return effects, nil
}

// unknownHash returns an unknown if the tables do not contain what a version hashes.
func unknownHash(from, to *semver.Version) Outlook {
	for _, v := range []*semver.Version{from, to} {
		if !isRelease(v) {
			return unknown("%s is not a release of upstream, and what it hashes is unknown", v)
		}
		if !known(v) {
			return unknown("this plumbline knows versions up to %s, and not what %s hashes", newest, v)
		}
	}
	return Outlook{}
}

// latest is the suffix of an alias that follows the newest AMI.
const latest = "@latest"

// followsLatest returns an unknown if a class uses the newest AMI: which one that is depends on the day, and on where
// the version looks for it.
func followsLatest(class *unstructured.Unstructured) Outlook {
	terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
	for _, one := range terms {
		term, _ := one.(map[string]any)
		if alias, _ := term["alias"].(string); strings.HasSuffix(alias, latest) {
			return unknown("EC2NodeClass %s follows %s, whose AMI may be another one by then", class.GetName(), alias)
		}
	}
	return Outlook{}
}

// HashChange is a hash version that an upgrade changes. The controller then writes the new hash to every NodeClaim that
// has not drifted already, and replaces none because of it: KPA pkg/controllers/nodeclass/hash/controller.go and KC
// pkg/controllers/nodepool/hash/controller.go, updateNodeClaimHash.
type HashChange struct {
	Kind string `json:"kind"`
	From string `json:"from"`
	To   string `json:"to"`
}

// String describes what happens to nodes.
func (c HashChange) String() string {
	return fmt.Sprintf("hash of %s %s → %s: nodes are annotated again, not replaced; those drifted already stay so", c.Kind, c.From, c.To)
}

const (
	nodePool     = "NodePool"
	ec2NodeClass = "EC2NodeClass"
)

// nodePoolHash is NodePoolHashVersion in KC pkg/apis/v1/nodepool.go, for 0.3x in pkg/apis/v1beta1, of the core in each
// tag's go.mod.
var nodePoolHash = []row[string]{
	{"0.36.0", "v2"},
	{"1.0.0", "v3"},
}

// ec2NodeClassHash is EC2NodeClassHashVersion in KPA pkg/apis/v1/ec2nodeclass.go, for 0.3x in pkg/apis/v1beta1.
// According to the guide, nodes drift in 1.12, which also hashes the CA bundle; but the code only annotates them again,
// as in other changes.
var ec2NodeClassHash = []row[string]{
	{"0.36.0", "v2"},
	{"1.0.0", "v3"},
	{"1.1.0", "v4"},
	{"1.12.0", "v5"},
	{"1.15.0", "v6"},
}

// hashChanges returns those of a hop; none if the tables do not contain a version.
func hashChanges(from, to *semver.Version) []HashChange {
	if !inTables(from) || !inTables(to) {
		return nil
	}
	var found []HashChange
	for _, of := range []struct {
		kind  string
		table []row[string]
	}{{nodePool, nodePoolHash}, {ec2NodeClass, ec2NodeClassHash}} {
		before, knownBefore := at(of.table, from)
		after, knownAfter := at(of.table, to)
		if knownBefore && knownAfter && before != after {
			found = append(found, HashChange{Kind: of.kind, From: before, To: after})
		}
	}
	return found
}

// defaulting compares the defaults of two sets of CRDs.
type defaulting struct {
	old, next *shapes
}

// outlook returns a reason if the new CRDs set other defaults in a part of an object than the old ones: Karpenter
// treats this as a change of the definition.
func (d *defaulting) outlook(object *unstructured.Unstructured, part ...string) Outlook {
	of := object.GetKind() + " " + object.GetName()
	gvk := object.GroupVersionKind()
	old, err := d.old.of(gvk)
	if err != nil {
		return unknown("the defaults of %s by the old CRDs: %v", of, err)
	}
	next, err := d.next.of(gvk)
	if err != nil {
		return unknown("the defaults of %s by the new CRDs: %v", of, err)
	}
	fields := differences(strings.Join(part, "."), filled(object, old, part), filled(object, next, part))
	if len(fields) == 0 {
		return Outlook{}
	}
	return Outlook{Replaced: []string{fmt.Sprintf("%s leaves out %s, which the new CRD fills in otherwise", of, strings.Join(fields, ", "))}}
}

// filled returns a part of an object with a schema's defaults.
func filled(object *unstructured.Unstructured, by *structural.Structural, part []string) any {
	whole := object.DeepCopy().Object
	apidefaulting.PruneNonNullableNullsWithoutDefaults(whole, by)
	apidefaulting.Default(whole, by)
	is, _, _ := unstructured.NestedFieldNoCopy(whole, part...)
	return is
}

// differences returns the paths at which two values differ, the outermost ones.
func differences(at string, a, b any) []string {
	inA, mapA := a.(map[string]any)
	inB, mapB := b.(map[string]any)
	if mapA && mapB {
		var found []string
		keys := slices.Concat(slices.Collect(maps.Keys(inA)), slices.Collect(maps.Keys(inB)))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			found = append(found, differences(at+"."+key, inA[key], inB[key])...)
		}
		return found
	}
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	if isListA && isListB && len(listA) == len(listB) {
		var found []string
		for i := range listA {
			found = append(found, differences(fmt.Sprintf("%s[%d]", at, i), listA[i], listB[i])...)
		}
		return found
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{at}
}

// Setting is a value of the main chart, or an environment variable of its controller, that a version no longer has.
type Setting struct {
	// Path of the value; controller.env[NAME] for an environment variable.
	Path string `json:"path"`
	// Since is the first version without it.
	Since string `json:"since"`
	// Now is the path that replaced it; empty if there is none.
	Now string `json:"now,omitempty"`
	// Why explains the removal of a setting that was not replaced.
	Why string `json:"why,omitempty"`
}

// String describes what to do about it.
func (s Setting) String() string {
	if s.Now != "" {
		return fmt.Sprintf("%s is %s since %s", s.Path, s.Now, s.Since)
	}
	return fmt.Sprintf("%s is gone since %s: %s", s.Path, s.Since, s.Why)
}

const (
	zapGone      = "the zap logging configuration was removed"
	roleGone     = "an assumed role is the service account's to have"
	webhooksGone = "the controller has no webhooks any more"
)

// settings are the removed values and variables, by version: charts/karpenter/values.yaml and
// pkg/operator/options/options.go of KPA's tags, the latter of KC's too; for their replacements
// website/content/en/v1.0/upgrading/v1beta1-migration.md (Helm Values, Global Settings) and v1-migration.md (Changelog)
// at 1.14.1. 0.32 accepts the names of 0.31 as well.
var settings = []Setting{
	{Path: "controller.outputPaths", Since: "0.33.0", Now: "logConfig.outputPaths"},
	{Path: "controller.errorOutputPaths", Since: "0.33.0", Now: "logConfig.errorOutputPaths"},
	{Path: "controller.logLevel", Since: "0.33.0", Now: "logConfig.logLevel.controller"},
	{Path: "controller.logEncoding", Since: "0.33.0", Now: "logConfig.logEncoding"},
	{Path: "webhook.logLevel", Since: "0.33.0", Now: "logConfig.logLevel.webhook"},
	{Path: "logEncoding", Since: "0.33.0", Now: "logConfig.logEncoding"},
	{Path: "settings.aws.assumeRoleARN", Since: "0.33.0", Now: "settings.assumeRoleARN"},
	{Path: "settings.aws.assumeRoleDuration", Since: "0.33.0", Now: "settings.assumeRoleDuration"},
	{Path: "settings.aws.clusterCABundle", Since: "0.33.0", Now: "settings.clusterCABundle"},
	{Path: "settings.aws.clusterEndpoint", Since: "0.33.0", Now: "settings.clusterEndpoint"},
	{Path: "settings.aws.clusterName", Since: "0.33.0", Now: "settings.clusterName"},
	{Path: "settings.aws.interruptionQueueName", Since: "0.33.0", Now: "settings.interruptionQueue"},
	{Path: "settings.aws.isolatedVPC", Since: "0.33.0", Now: "settings.isolatedVPC"},
	{Path: "settings.aws.reservedENIs", Since: "0.33.0", Now: "settings.reservedENIs"},
	{Path: "settings.aws.vmMemoryOverheadPercent", Since: "0.33.0", Now: "settings.vmMemoryOverheadPercent"},
	{Path: "settings.featureGates.driftEnabled", Since: "0.33.0", Now: "settings.featureGates.drift"},
	{Path: "settings.aws.defaultInstanceProfile", Since: "0.33.0", Why: "the EC2NodeClass names a role"},
	{Path: "settings.aws.enablePodENI", Since: "0.33.0", Why: "it is always on"},
	{Path: "settings.aws.enableENILimitedPodDensity", Since: "0.33.0", Why: "maxPods is a kubelet setting of the definitions"},
	{Path: "settings.aws.tags", Since: "0.33.0", Why: "tags are the EC2NodeClass's"},

	{Path: "logConfig.outputPaths", Since: "1.0.0", Now: "logOutputPaths"},
	{Path: "logConfig.errorOutputPaths", Since: "1.0.0", Now: "logErrorOutputPaths"},
	{Path: "logConfig.logLevel.global", Since: "1.0.0", Now: "logLevel"},
	{Path: "logConfig.logLevel.controller", Since: "1.0.0", Now: "logLevel"},
	{Path: "logConfig.logLevel.webhook", Since: "1.0.0", Why: zapGone},
	{Path: "logConfig.enabled", Since: "1.0.0", Why: zapGone},
	{Path: "logConfig.logEncoding", Since: "1.0.0", Why: zapGone},
	{Path: "settings.assumeRoleARN", Since: "1.0.0", Why: roleGone},
	{Path: "settings.assumeRoleDuration", Since: "1.0.0", Why: roleGone},
	{Path: "settings.featureGates.drift", Since: "1.0.0", Why: "drift is always on"},
	{Path: "controller.env[ASSUME_ROLE_ARN]", Since: "1.0.0", Why: roleGone},
	{Path: "controller.env[ASSUME_ROLE_DURATION]", Since: "1.0.0", Why: roleGone},
	{Path: "controller.env[LEADER_ELECT]", Since: "1.0.0", Now: "controller.env[DISABLE_LEADER_ELECTION]"},

	{Path: "webhook.enabled", Since: "1.1.0", Why: webhooksGone},
	{Path: "webhook.port", Since: "1.1.0", Why: webhooksGone},
	{Path: "webhook.metrics.port", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[DISABLE_WEBHOOK]", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[WEBHOOK_PORT]", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[WEBHOOK_METRICS_PORT]", Since: "1.1.0", Why: webhooksGone},
}

// settingsGone returns those that an upgrade removes.
func settingsGone(from, to *semver.Version) []Setting {
	var gone []Setting
	for _, s := range settings {
		if crosses(from, to, s.Since) {
			gone = append(gone, s)
		}
	}
	return gone
}

// Gone returns the settings that values use and an upgrade removes. Errors: *VersionError.
func Gone(values map[string]any, from, to string) ([]Setting, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	var used []Setting
	for _, s := range settingsGone(a, b) {
		if s.in(values) {
			used = append(used, s)
		}
	}
	return used, nil
}

// in reports whether values set it.
func (s Setting) in(values map[string]any) bool {
	if name, ok := s.variable(); ok {
		controller, _ := values["controller"].(map[string]any)
		env, _ := controller["env"].([]any)
		for _, one := range env {
			if entry, _ := one.(map[string]any); entry["name"] == name {
				return true
			}
		}
		return false
	}
	keys := strings.Split(s.Path, ".")
	for _, key := range keys[:len(keys)-1] {
		values, _ = values[key].(map[string]any)
	}
	_, set := values[keys[len(keys)-1]]
	return set
}

// variable returns the name of the environment variable, if it is one.
func (s Setting) variable() (name string, ok bool) {
	name, ok = strings.CutPrefix(s.Path, "controller.env[")
	return strings.TrimSuffix(name, "]"), ok
}

// Permission is one action that the controller's role must allow.
type Permission struct {
	Action string `json:"action"`
	// Since is the first version of Karpenter that requires it.
	Since string `json:"since"`
	// For is what needs it; empty if every installation does.
	For string `json:"for,omitempty"`
}

// String returns the action, and what needs it.
func (p Permission) String() string {
	if p.For == "" {
		return p.Action
	}
	return p.Action + " (" + p.For + ")"
}

// switches are the values of the chart without which an installation does not need an action, and whether the default is
// on: the table settings in KPA pkg/operator/options/options.go, and charts/karpenter/values.yaml, 1.15.0.
var switches = map[string]struct {
	path string
	on   bool
}{
	"ec2:DescribeCapacityReservations":   {"settings.featureGates.reservedCapacity", true},
	"arc-zonal-shift:GetManagedResource": {"settings.enableZonalShift", false},
	"ec2:RebootInstances":                {"settings.awsFeatureGates.rebootForRepair", false},
}

// Needed reports whether an installation with these values of the chart needs the action. An action for placement groups is
// not needed by values: Karpenter calls it only for EC2NodeClasses that name one.
func (p Permission) Needed(values map[string]any) bool {
	needs, is := switches[p.Action]
	if !is {
		return p.Action != "ec2:DescribePlacementGroups"
	}
	value, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(needs.path, ".")...)
	if err != nil || !found {
		return needs.on
	}
	return fmt.Sprint(value) == "true"
}

// permissions are the actions by the version that first requires them, from the policies in KPA
// website/content/en/preview/getting-started/getting-started-with-karpenter/cloudformation.yaml of each tag, and the
// notes of upgrade-guide.md at 1.14.1.
var permissions = permissionRows(
	Permission{"ec2:CreateTags", "0.33.0", "on spot-instances-request"},
	// v1-migration.md, step 8: the policy is scoped by the new tag.
	Permission{
		"ec2:RunInstances", "1.0.0", "conditioned on the tag eks:eks-cluster-name, as ec2:CreateFleet and ec2:CreateLaunchTemplate are",
	},
	// In the policy since 1.3; required by default since 1.6, which enabled the feature gate reservedCapacity.
	Permission{"ec2:DescribeCapacityReservations", "1.6.0", "featureGates.reservedCapacity, on by default"},
	Permission{"iam:ListInstanceProfiles", "1.7.0", ""},
	Permission{"ec2:DescribePlacementGroups", "1.11.0", "placement groups"},
	Permission{"ec2:DescribeInstanceStatus", "1.12.0", ""},
	Permission{"arc-zonal-shift:GetManagedResource", "1.12.0", "settings.enableZonalShift"},
	// Reboot in KPA pkg/cloudprovider/cloudprovider.go at 1.15.0; the policy has it beside ec2:TerminateInstances.
	Permission{
		"ec2:RebootInstances", "1.15.0", "settings.awsFeatureGates.rebootForRepair, under the tags that ec2:TerminateInstances requires",
	},
)

// permissionRows builds the table from each Permission's Since.
func permissionRows(all ...Permission) []row[Permission] {
	rows := make([]row[Permission], 0, len(all))
	for _, p := range all {
		rows = append(rows, row[Permission]{since: p.Since, is: p})
	}
	return rows
}

// KnowsPermissions reports whether the table is complete for a version: from 1.0 to the newest minor version in the tables.
func KnowsPermissions(version string) bool {
	v, err := parse(version)
	return err == nil && v.Major() > 0 && known(v)
}

// PermissionOf returns the row of an action in the table; found is false for one that every version since 1.0 requires.
func PermissionOf(action string) (p Permission, found bool) {
	for _, r := range permissions {
		if r.is.Action == action {
			return r.is, true
		}
	}
	return Permission{}, false
}

// Permissions returns the actions that an upgrade adds to those of the controller's role. Errors: *VersionError.
func Permissions(from, to string) ([]Permission, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	var found []Permission
	for _, r := range between(permissions, a, b) {
		found = append(found, r.is)
	}
	return found, nil
}
