package karpenter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// newest is the newest version whose sources the tables were read from.
const newest = "1.15.0"

// Newer reports whether a version is newer than another; false if either is invalid.
func Newer(version, than string) bool {
	a, b, err := parsePair(version, than)
	return err == nil && a.GreaterThan(b)
}

// OtherRelease reports whether two versions are different releases, ignoring pre-release and build metadata; false if
// either is invalid.
func OtherRelease(version, than string) bool {
	a, b, err := parsePair(version, than)
	return err == nil && (a.Major() != b.Major() || a.Minor() != b.Minor() || a.Patch() != b.Patch())
}

// Newest returns the newest version of Karpenter in the tables.
func Newest() string { return newest }

// known reports whether the tables were read from a version of this minor number, or a later one.
func known(v *semver.Version) bool {
	top := semver.MustParse(newest)
	return v.Major() < top.Major() || v.Major() == top.Major() && v.Minor() <= top.Minor()
}

// VersionError reports that a text is not a version of Karpenter.
type VersionError struct {
	Version string
}

// Error explains how to write a version.
func (e *VersionError) Error() string {
	return fmt.Sprintf("version of karpenter is %q: give one full version such as %s, without a range", e.Version, newest)
}

// parse parses a full version; it accepts the v of older tags and images.
func parse(version string) (*semver.Version, error) {
	if len(version) > 1 && version[0] == 'v' {
		version = version[1:]
	}
	v, err := semver.StrictNewVersion(version)
	if err != nil {
		return nil, &VersionError{Version: version}
	}
	return v, nil
}

// parsePair parses the two versions of an upgrade.
func parsePair(from, to string) (a, b *semver.Version, err error) {
	if a, err = parse(from); err != nil {
		return nil, nil, err
	}
	b, err = parse(to)
	return a, b, err
}

// row is one row of a table: what applies from a version on, until the next row.
type row[T any] struct {
	since string
	is    T
}

// at returns what a table contains for a version; ok is false for a version before its first row.
func at[T any](table []row[T], v *semver.Version) (is T, ok bool) {
	for _, r := range table {
		if v.LessThan(semver.MustParse(r.since)) {
			break
		}
		is, ok = r.is, true
	}
	return is, ok
}

// between returns the rows that an upgrade puts into force.
func between[T any](table []row[T], from, to *semver.Version) []row[T] {
	var found []row[T]
	for _, r := range table {
		if crosses(from, to, r.since) {
			found = append(found, r)
		}
	}
	return found
}

// crosses reports whether an upgrade leads from before a version to it, or past it.
func crosses(from, to *semver.Version, version string) bool {
	v := semver.MustParse(version)
	return from.LessThan(v) && !to.LessThan(v)
}

// line is a range of versions in which any one may be upgraded to any later one. No line may be skipped.
type line struct {
	// least is its first version.
	least string
	// leave is the first version from which an upgrade to the next line is possible.
	leave string
	// stop is the version to stop at on the way to later lines.
	stop string
	// before is what must be done before an upgrade into the line.
	before []string
}

// lines are the steps of upstream's guides: KPA website/content/en/docs/upgrading/upgrade-guide.md at 1.14.1, and
// website/content/en/v1.0/upgrading/v1beta1-migration.md and v1-migration.md next to it, which name the patches to stop
// at.
var lines = []line{
	{least: "0.0.0", leave: "0.0.0", stop: "0.31.4"},
	{
		least: "0.32.0", leave: "0.32.0", stop: "0.32.10",
		before: []string{
			"from a version other than 0.31.4 there is no way back from 0.32: go to 0.31.4 first",
			"apply the CRDs nodepools, nodeclaims and ec2nodeclasses of this version beside the old ones",
		},
	},
	{
		least: "0.33.0", leave: "0.33.0", stop: "0.37.7",
		before: []string{
			"every Provisioner, Machine and AWSNodeTemplate is rewritten as NodePool, NodeClaim and EC2NodeClass, v1beta1, and gone",
			"pods select nodes by karpenter.sh/nodepool, and no longer by karpenter.sh/provisioner-name",
		},
	},
	{
		least: "1.0.0", leave: "1.0.6", stop: "1.0.14",
		before: []string{
			"the way back ends at the patches that know v1: be at 0.33.12, 0.34.13, 0.35.12, 0.36.9 or 0.37.7 first, CRDs too",
			"webhooks are on, and the API server reaches them: they convert v1beta1",
			"every EC2NodeClass has amiSelectorTerms; amiFamily Ubuntu is gone; amiFamily Custom registers with the taint karpenter.sh/unregistered:NoExecute",
			"no NodeClaim is past its expiry: from 1.0 an expired node is drained at once, without a replacement first",
		},
	},
	{
		least: "1.1.0", leave: "1.1.0", stop: newest,
		before: []string{
			"status.storedVersions of no CRD lists v1beta1: each object is rewritten as v1",
			"definitions are v1, with nodeClassRef.group and nodeClassRef.kind in each",
			"kubelet settings are in the EC2NodeClasses, and the annotation compatibility.karpenter.sh/v1beta1-kubelet-conversion is gone from the NodePools",
		},
	},
}

// lineOf returns the index of a version's line.
func lineOf(v *semver.Version) int {
	for i := len(lines) - 1; i > 0; i-- {
		if !v.LessThan(semver.MustParse(lines[i].least)) {
			return i
		}
	}
	return 0
}

// Kubernetes is the range of Kubernetes' minor numbers that a version of Karpenter supports, both inclusive. Both are 0
// if unknown.
type Kubernetes struct {
	Least  int `json:"leastMinor"`
	Newest int `json:"newestMinor"`
}

// String returns the range for people.
func (k Kubernetes) String() string {
	if k == (Kubernetes{}) {
		return "unknown"
	}
	return fmt.Sprintf("1.%d to 1.%d", k.Least, k.Newest)
}

// kubernetes are the minor numbers that the controller itself checks at its start: MinK8sVersion and MaxK8sVersion in
// KPA pkg/providers/version/version.go of each tag. Upstream's compatibility matrix has only minors of Karpenter, and
// promises 1.34 for all of 1.6 and 1.7, which their first patches do not support.
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
	{"1.15.0", Kubernetes{26, 37}},
}

// KubernetesOf returns the versions of Kubernetes that a version of Karpenter supports. It is the zero range for
// forks, and for versions older or newer than the tables. Errors: *VersionError.
func KubernetesOf(karpenter string) (Kubernetes, error) {
	v, err := parse(karpenter)
	if err != nil {
		return Kubernetes{}, err
	}
	if !inTables(v) {
		return Kubernetes{}, nil
	}
	is, _ := at(kubernetes, v)
	return is, nil
}

// KubernetesError reports that a version of Karpenter does not support the cluster's Kubernetes: its controller would
// log that it is not compatible and continue, unaware of what has changed.
type KubernetesError struct {
	// Karpenter is the version; Minor is the cluster's.
	Karpenter string
	Minor     int
	Knows     Kubernetes
	// Use is the next version that supports the cluster's Kubernetes; empty if no later one in the tables does.
	Use string
}

// Error explains what to do.
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

// KubernetesMinor returns the minor number of a version of Kubernetes, written as its API server does
// (v1.33.4-eks-99d6cc0) or shorter (1.33).
func KubernetesMinor(version string) (int, error) {
	found := minorNumber.FindStringSubmatch(version)
	if found == nil {
		return 0, fmt.Errorf("version %q of Kubernetes is invalid: it must be 1.MINOR", version)
	}
	minor, err := strconv.Atoi(found[1])
	if err != nil {
		return 0, fmt.Errorf("read version of kubernetes %q: %w", version, err)
	}
	return minor, nil
}

// CheckKubernetes reports whether a version of Karpenter supports a cluster's version of Kubernetes, written as its API
// server does (v1.33.4-eks-99d6cc0) or shorter. CheckTested handles versions of either that are not in the tables.
// Errors: *VersionError, *KubernetesError.
func CheckKubernetes(version, karpenter string) error {
	minor, err := KubernetesMinor(version)
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

// nextThatKnows returns the next version that supports a minor number of Kubernetes.
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

// Blocker is a reason why an older controller cannot run on the new CRDs.
type Blocker struct {
	CRD    string `json:"crd"`
	Reason string `json:"reason"`
}

// String returns the CRD and the reason.
func (b Blocker) String() string { return fmt.Sprintf("crd %s: %s", b.CRD, b.Reason) }

// WayBack returns what prevents running the old controller again once the new CRDs are written, because a rollback
// keeps the new CRDs. If there is none, versions do not prevent a rollback; the caller checks whether each object is
// valid in the old schema. A kind that does not exist yet has no objects, and an old controller does not use kinds that
// its CRDs do not define: neither blocks.
func WayBack(live, next, old []*apiextensionsv1.CustomResourceDefinition) []Blocker {
	var found []Blocker
	for _, before := range old {
		if named(live, before.Name) == nil {
			continue
		}
		after := named(next, before.Name)
		if after == nil {
			continue // the new charts do not change it
		}
		// A controller uses the storage version of its own CRDs.
		asks, stores := storageOf(before), storageOf(after)
		switch {
		case !slices.Contains(served(after), asks):
			found = append(found,
				Blocker{CRD: before.Name, Reason: fmt.Sprintf("the old controller asks for %s, which the new one no longer serves", asks)})
		case !slices.Contains(served(before), stores):
			found = append(found,
				Blocker{CRD: before.Name, Reason: fmt.Sprintf("the new one stores objects as %s, which the old one does not serve", stores)})
		}
	}
	return found
}

// Hop is one upgrade, or downgrade, that is possible in one step, and what it requires.
type Hop struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Kubernetes is what To supports.
	Kubernetes Kubernetes `json:"kubernetes"`
	// Before is what must be true before the hop.
	Before []string `json:"before,omitempty"`
	// Permissions are the IAM actions that To's controller requires, and From's does not.
	Permissions []Permission `json:"permissions,omitempty"`
	// Settings are the values and environment variables that From's chart has and To's does not.
	Settings []Setting `json:"settings,omitempty"`
	// Hashes are the hash versions that change.
	Hashes []HashChange `json:"hashes,omitempty"`
	// Breaking are changes in behaviour to act on, or to decide about, before the hop.
	Breaking []string `json:"breaking,omitempty"`
	// Metrics are the controller's metrics that change, and with them dashboards and alerts.
	Metrics []MetricChange `json:"metrics,omitempty"`
	// Notes are other changes in behaviour.
	Notes []string `json:"notes,omitempty"`
}

// minManaged is the first version that plumbline installs.
const minManaged = "1.0.0"

// DowngradeError reports that a version is older than those that plumbline manages.
type DowngradeError struct {
	From, To string
}

// Error names the oldest possible version.
func (e *DowngradeError) Error() string {
	return fmt.Sprintf("karpenter %s cannot be downgraded to %s: plumbline manages karpenter %s and later", e.From, e.To, minManaged)
}

// SkippedHopError reports that an upgrade skips a version that it must stop at.
type SkippedHopError struct {
	From, To string
	// Next is the first stop.
	Next string
}

// Error names the next stop.
func (e *SkippedHopError) Error() string {
	return fmt.Sprintf("karpenter %s cannot be upgraded to %s at once: set version %s in plumbline.yaml first; plumbline upgrade --to %s prints the way",
		e.From, e.To, e.Next, e.To)
}

// CheckHop reports whether one version may follow another in one step. Errors: *VersionError, *DowngradeError,
// *SkippedHopError.
func CheckHop(from, to string) error {
	path, err := Path(from, to)
	if err != nil || len(path) < 2 {
		return err
	}
	return &SkippedHopError{From: from, To: to, Next: path[0].To}
}

// Path returns the hops from one version to another, none if they are equal. A downgrade is one hop. Errors:
// *VersionError, *DowngradeError.
func Path(from, to string) ([]Hop, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	if b.LessThan(a) {
		if b.LessThan(semver.MustParse(minManaged)) {
			return nil, &DowngradeError{From: from, To: to}
		}
		return []Hop{newDowngrade(a, b)}, nil
	}
	var path []Hop
	for _, stop := range stops(a, b) {
		path = append(path, newHop(a, stop))
		a = stop
	}
	return path, nil
}

// stops returns the versions to stop at, including the last one.
func stops(from, to *semver.Version) []*semver.Version {
	var found []*semver.Version
	last := lineOf(to)
	for i := lineOf(from); i < last; i++ {
		if from.LessThan(semver.MustParse(lines[i].leave)) {
			from = semver.MustParse(lines[i].stop)
			found = append(found, from)
		}
		if i+1 < last {
			from = semver.MustParse(lines[i+1].stop)
			found = append(found, from)
		}
	}
	// Versions that differ only in their build metadata are equal in order.
	if from.LessThan(to) || from.Metadata() != to.Metadata() {
		found = append(found, to)
	}
	return found
}

// newHop fills in what an upgrade requires.
func newHop(from, to *semver.Version) Hop {
	hop := Hop{From: from.String(), To: to.String()}
	if !isRelease(from) {
		hop.Notes = append(hop.Notes, fmt.Sprintf("%s is not a release of upstream: "+
			"what it hashes, and therefore which nodes are replaced, is unknown", from))
	}
	switch {
	case !isRelease(to):
		hop.Notes = append(hop.Notes, unknownOf(to))
	case known(to):
		hop.Kubernetes, _ = at(kubernetes, to)
	default:
		hop.Notes = append(hop.Notes,
			fmt.Sprintf("newer than %s, the newest that this plumbline knows: read its upgrade guide for what else it needs", newest))
	}
	for i := lineOf(from) + 1; i <= lineOf(to); i++ {
		hop.Before = append(hop.Before, lines[i].before...)
	}
	for _, r := range between(permissions, from, to) {
		hop.Permissions = append(hop.Permissions, r.is)
	}
	hop.Settings = settingsGone(from, to)
	hop.Hashes = hashChanges(from, to)
	for _, r := range between(metrics, from, to) {
		hop.Metrics = append(hop.Metrics, r.is)
	}
	for _, r := range between(changes, from, to) {
		text := fmt.Sprintf("since %s %s", r.since, r.is.text)
		if r.is.breaking {
			hop.Breaking = append(hop.Breaking, text)
		} else {
			hop.Notes = append(hop.Notes, text)
		}
	}
	return hop
}

// newDowngrade fills in what a downgrade requires: what the upgrade added is removed.
func newDowngrade(from, to *semver.Version) Hop {
	hop := Hop{From: from.String(), To: to.String(), Before: []string{
		"no CRD loses a version that status.storedVersions lists, and every object passes the older schema: both are checked before anything moves",
		"values and fields that are newer than " + to.String() + " are out of the repository",
	}}
	if !isRelease(to) {
		hop.Notes = append(hop.Notes, unknownOf(to))
	} else {
		hop.Kubernetes, _ = at(kubernetes, to)
	}
	hop.Hashes = hashChanges(from, to)
	return hop
}
