package promotion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/document"
)

// File is the path of rings.yaml from the root of the repository.
const File = "rings.yaml"

// The apiVersion and kind of rings.yaml.
const (
	fileVersion = "config.plumbline.dev/v1alpha1"
	fileKind    = "Rings"
)

// The defaults of rings.yaml.
const (
	// DefaultSilentAfter is how long a cluster may go without a record before it counts as silent.
	DefaultSilentAfter = time.Hour
	// MinSilentAfter keeps the records of a large fleet to a few pushes an hour for each cluster.
	MinSilentAfter = 10 * time.Minute
	// MaxSilentAfter limits for how long a newer record can be withheld without notice.
	MaxSilentAfter = 24 * time.Hour
	// DefaultLongFrom is the percentage of a cluster's nodes from which a change needs the long soak.
	DefaultLongFrom = 25
)

// The limits of rings.yaml.
const (
	maxRings, maxClusters = 100, 5000
	// maxPaused limits why a ring is paused, in bytes.
	maxPaused = 256
)

// Member is a NodeSync of a cluster: the unit that takes a commit and reports on it.
type Member struct {
	Cluster, NodeSync string
}

// String returns cluster/nodesync, as in commit statuses.
func (m Member) String() string { return m.Cluster + "/" + m.NodeSync }

// Rings is a valid rings.yaml.
type Rings struct {
	// SilentAfter is the age from which a cluster's newest record counts as silence.
	SilentAfter time.Duration
	// Rings are sorted: each comes after those that it waits for.
	Rings []Ring

	of map[Member]int
}

// Ring contains the members that take a commit at the same stage.
type Ring struct {
	Name    string
	Members []Member
	// Before are the indexes in Rings of all rings that this one waits for, directly or through others.
	Before []int
	// Soak is how long a commit must have been good on the clusters of the rings before, after a change of an AMI, of
	// Karpenter's version, or of at least LongFrom percent of a cluster's nodes. ShortSoak applies to other changes of
	// nodes. A change of no node does not soak.
	Soak, ShortSoak time.Duration
	LongFrom        int
	// AtLeast is the percentage of this ring's clusters that must have succeeded before the next ring takes a commit.
	AtLeast int
	// MaxClusters limits how many clusters of this ring take a commit at one time; 0 for all.
	MaxClusters int
	// Calendar contains the windows in which clusters of this ring may take a commit.
	Calendar plan.Calendar
	// Paused is why no cluster of this ring takes a commit; empty if the ring is not paused.
	Paused string
}

// Of returns the ring of a member; nil if it is in none.
func (r *Rings) Of(m Member) *Ring {
	if i, ok := r.of[m]; ok {
		return &r.Rings[i]
	}
	return nil
}

// Named returns the ring of a name; nil if there is none.
func (r *Rings) Named(name string) *Ring {
	for i := range r.Rings {
		if r.Rings[i].Name == name {
			return &r.Rings[i]
		}
	}
	return nil
}

// sameButPauses reports whether two rings.yaml differ at most in which rings are paused, and why.
func (r *Rings) sameButPauses(other *Rings) bool {
	return r == other || r != nil && other != nil && reflect.DeepEqual(r.unpaused(), other.unpaused())
}

func (r *Rings) unpaused() Rings {
	same := *r
	same.Rings = slices.Clone(r.Rings)
	for i := range same.Rings {
		same.Rings[i].Paused = ""
	}
	return same
}

// ringsFile is rings.yaml as it is written.
type ringsFile struct {
	APIVersion  string        `json:"apiVersion"`
	Kind        string        `json:"kind"`
	SilentAfter string        `json:"silentAfter,omitempty"`
	Clusters    []clusterFile `json:"clusters"`
	Rings       []ringFile    `json:"rings"`
}

// clusterFile is a cluster of the fleet.
type clusterFile struct {
	Name string `json:"name"`
	// NodeSync is its name. Default: the name of the cluster. A cluster with two NodeSyncs is listed twice.
	NodeSync string            `json:"nodeSync,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// ringFile is a ring as it is written.
type ringFile struct {
	Name string `json:"name"`
	// Clusters and MatchLabels select its clusters: those with one of the names, and those with all of the labels.
	Clusters    []string          `json:"clusters,omitempty"`
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// After are the rings that it waits for; [] for none. Default: the ring that is listed before it.
	After       []string     `json:"after,omitempty"`
	Soak        string       `json:"soak,omitempty"`
	ShortSoak   string       `json:"shortSoak,omitempty"`
	LongFrom    string       `json:"longFrom,omitempty"`
	AtLeast     string       `json:"atLeast,omitempty"`
	MaxClusters *int         `json:"maxClusters,omitempty"`
	Windows     []windowFile `json:"windows,omitempty"`
	Paused      string       `json:"paused,omitempty"`
}

// windowFile is a recurring time, as in spec.guard.windows of the NodeSync.
type windowFile struct {
	Schedule string `json:"schedule"`
	Duration string `json:"duration"`
	TimeZone string `json:"timeZone,omitempty"`
}

// Parse reads rings.yaml. The error is a render.Errors with the file and the line of each problem.
func Parse(file string, data []byte) (*Rings, error) {
	p := &parser{file: file}
	docs, err := document.Parse(data)
	if err != nil {
		return nil, p.unreadable(err)
	}
	if len(docs) != 1 {
		return nil, render.Errors{{File: file, Message: fmt.Sprintf("contains %d documents, and must contain one of kind %s", len(docs), fileKind)}}
	}
	p.doc = docs[0]
	read, ok := p.decode()
	if !ok {
		return nil, p.errors
	}
	rings := p.rings(read)
	if len(p.errors) > 0 {
		return nil, p.errors
	}
	return rings, nil
}

// parser collects the problems of a rings.yaml.
type parser struct {
	file   string
	doc    document.Document
	errors render.Errors
}

func (p *parser) unreadable(err error) error {
	line := 0
	if at := (*document.Error)(nil); errors.As(err, &at) {
		line = at.Line
	}
	return render.Errors{{File: p.file, Line: line, Message: err.Error()}}
}

// fail records a problem of the field at a path.
func (p *parser) fail(path, format string, args ...any) {
	p.errors = append(p.errors, render.Error{File: p.file, Line: p.doc.LineOf(path), Message: fmt.Sprintf(format, args...)})
}

// decode decodes the document strictly: an unknown field is an error.
func (p *parser) decode() (read ringsFile, ok bool) {
	text, err := json.Marshal(p.doc.Value)
	if err != nil {
		p.fail("", "%v", err)
		return read, false
	}
	strict, err := kjson.UnmarshalStrict(text, &read)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		p.fail(mismatch.Field, "%s must be of type %s, not %s", mismatch.Field, mismatch.Type, mismatch.Value)
	case err != nil:
		p.fail("", "%v", err)
	}
	for _, one := range strict {
		at := ""
		if where := kjson.FieldError(nil); errors.As(one, &where) {
			at = where.FieldPath()
		}
		p.fail(at, "%v", one)
	}
	return read, len(p.errors) == 0
}

// rings validates a file and resolves which clusters are in which ring.
func (p *parser) rings(read ringsFile) *Rings {
	if read.APIVersion != fileVersion || read.Kind != fileKind {
		at := "kind"
		if read.APIVersion != fileVersion {
			at = "apiVersion"
		}
		p.fail(at, "apiVersion and kind must be %s and %s", fileVersion, fileKind)
	}
	found := &Rings{SilentAfter: p.duration("silentAfter", read.SilentAfter, DefaultSilentAfter), of: map[Member]int{}}
	if found.SilentAfter < MinSilentAfter || found.SilentAfter > MaxSilentAfter {
		p.fail("silentAfter", "silentAfter must be at least %s and at most %s", MinSilentAfter, MaxSilentAfter)
	}
	if len(read.Rings) == 0 {
		p.fail("rings", "rings must contain a ring")
	}
	if len(read.Rings) > maxRings || len(read.Clusters) > maxClusters {
		p.fail("", "%s lists %d rings and %d clusters, and at most %d and %d are possible", p.file, len(read.Rings), len(read.Clusters), maxRings, maxClusters)
		return nil
	}
	members := p.members(read.Clusters)
	order := p.order(read.Rings)
	if len(p.errors) > 0 {
		return nil
	}
	place := map[string]int{}
	for _, i := range order {
		ring := p.ring(fmt.Sprintf("rings[%d]", i), read.Rings[i], read.Clusters, members)
		for _, name := range afterOf(read.Rings, i) {
			before := place[name]
			ring.Before = append(append(ring.Before, found.Rings[before].Before...), before)
		}
		slices.Sort(ring.Before)
		ring.Before = slices.Compact(ring.Before)
		place[ring.Name] = len(found.Rings)
		found.Rings = append(found.Rings, ring)
	}
	p.assign(found, read)
	return found
}

// assign records the ring of each member: it is in exactly one.
func (p *parser) assign(found *Rings, read ringsFile) {
	for at, ring := range found.Rings {
		path := fmt.Sprintf("rings[%d]", slices.IndexFunc(read.Rings, func(r ringFile) bool { return r.Name == ring.Name }))
		for _, m := range ring.Members {
			if other, twice := found.of[m]; twice {
				p.fail(path, "cluster %s is in two rings, %s and %s", m, found.Rings[other].Name, ring.Name)
				continue
			}
			found.of[m] = at
		}
	}
	for i, c := range read.Clusters {
		if _, in := found.of[memberOf(c)]; !in {
			p.fail(fmt.Sprintf("clusters[%d]", i), "cluster %s is in no ring: add it to a ring, or remove it here", memberOf(c))
		}
	}
}

// clusterName is what EKS accepts. It and the NodeSync's name are parts of a Git reference, in which no part may end in
// .lock.
var clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

func memberOf(c clusterFile) Member {
	if c.NodeSync == "" {
		c.NodeSync = c.Name
	}
	return Member{Cluster: c.Name, NodeSync: c.NodeSync}
}

// members returns the members in the order of the file.
func (p *parser) members(clusters []clusterFile) []Member {
	var all []Member
	for i, c := range clusters {
		path := fmt.Sprintf("clusters[%d]", i)
		m := memberOf(c)
		if !clusterName.MatchString(m.Cluster) {
			p.fail(path+".name", "%q is not a valid name of a cluster", m.Cluster)
		}
		if len(validation.IsDNS1123Subdomain(m.NodeSync)) > 0 || strings.HasSuffix(m.NodeSync, ".lock") {
			p.fail(path+".nodeSync", "%q is not a valid name of a NodeSync", m.NodeSync)
		}
		if slices.Contains(all, m) {
			p.fail(path+".name", "cluster %s is listed twice", m)
		}
		all = append(all, m)
	}
	return all
}

// afterOf returns the names of the rings that a ring waits for directly.
func afterOf(rings []ringFile, i int) []string {
	if rings[i].After != nil || i == 0 {
		return rings[i].After
	}
	return []string{rings[i-1].Name}
}

// order returns the indexes of the rings, each after those that it waits for; it fails if they form a cycle.
func (p *parser) order(rings []ringFile) []int {
	index := map[string]int{}
	for i, r := range rings {
		path := fmt.Sprintf("rings[%d].name", i)
		if problems := validation.IsDNS1123Label(r.Name); len(problems) > 0 {
			p.fail(path, "%q is not a valid name of a ring: %s", r.Name, problems[0])
		}
		if _, twice := index[r.Name]; twice {
			p.fail(path, "ring %s is listed twice", r.Name)
		}
		index[r.Name] = i
	}
	for i, r := range rings {
		for k, name := range r.After {
			if _, is := index[name]; !is {
				p.fail(fmt.Sprintf("rings[%d].after[%d]", i, k), "ring %s waits for ring %s, which is not listed", r.Name, name)
			}
		}
	}
	order := make([]int, 0, len(rings))
	for placed := true; placed; { // as many rounds as rings at most
		placed = false
		for i := range rings {
			if !slices.Contains(order, i) && follows(rings, i, index, order) {
				order, placed = append(order, i), true
			}
		}
	}
	p.failCycle(rings, order, index)
	return order
}

// failCycle fails if some rings have no place in the order.
func (p *parser) failCycle(rings []ringFile, order []int, index map[string]int) {
	var cycle []string
	for i, r := range rings {
		if !slices.Contains(order, i) {
			cycle = append(cycle, r.Name)
		}
	}
	if len(cycle) > 0 && len(p.errors) == 0 {
		p.fail(fmt.Sprintf("rings[%d].after", index[cycle[0]]), "rings wait for each other in a cycle: %s", strings.Join(cycle, ", "))
	}
}

// follows reports whether every ring that ring i waits for is in the order already.
func follows(rings []ringFile, i int, index map[string]int, order []int) bool {
	for _, name := range afterOf(rings, i) {
		if before, is := index[name]; is && !slices.Contains(order, before) {
			return false
		}
	}
	return true
}

// ring resolves one ring.
func (p *parser) ring(path string, r ringFile, clusters []clusterFile, members []Member) Ring {
	ring := Ring{
		Name: r.Name, Members: p.selected(path, r, clusters, members), Paused: r.Paused,
		Soak:     p.duration(path+".soak", r.Soak, 0),
		LongFrom: p.percent(path+".longFrom", r.LongFrom, DefaultLongFrom),
		AtLeast:  p.percent(path+".atLeast", r.AtLeast, 100),
		Calendar: p.calendar(path, r.Windows),
	}
	if len(r.Paused) > maxPaused {
		p.fail(path+".paused", "paused must say why in at most %d bytes", maxPaused)
	}
	ring.ShortSoak = p.duration(path+".shortSoak", r.ShortSoak, ring.Soak)
	if ring.ShortSoak > ring.Soak {
		p.fail(path+".shortSoak", "shortSoak (%s) is longer than soak (%s)", ring.ShortSoak, ring.Soak)
	}
	if r.MaxClusters != nil {
		if ring.MaxClusters = *r.MaxClusters; ring.MaxClusters < 1 {
			p.fail(path+".maxClusters", "maxClusters must be at least 1")
		}
	}
	return ring
}

// selected returns the members that a ring selects. A name or a set of labels that selects nothing is an error.
func (p *parser) selected(path string, r ringFile, clusters []clusterFile, members []Member) []Member {
	if len(r.Clusters) == 0 && len(r.MatchLabels) == 0 {
		p.fail(path, "ring %s has no clusters: set clusters or matchLabels", r.Name)
	}
	named := map[string]bool{}
	labelled := 0
	var in []Member
	for i, c := range clusters {
		byName := slices.Contains(r.Clusters, c.Name)
		byLabel := len(r.MatchLabels) > 0 && contains(c.Labels, r.MatchLabels)
		if byName {
			named[c.Name] = true
		}
		if byLabel {
			labelled++
		}
		if byName || byLabel {
			in = append(in, members[i])
		}
	}
	for i, name := range r.Clusters {
		if !named[name] {
			p.fail(fmt.Sprintf("%s.clusters[%d]", path, i), "cluster %s is not listed under clusters", name)
		}
	}
	if len(r.MatchLabels) > 0 && labelled == 0 {
		p.fail(path+".matchLabels", "no cluster has the labels %s", labels(r.MatchLabels))
	}
	return in
}

func contains(has, want map[string]string) bool {
	for key, value := range want {
		if got, ok := has[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func labels(of map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, key+"="+of[key])
	}
	return strings.Join(all, ",")
}

func (p *parser) duration(path, text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.fail(path, "%q is not a duration, for example 2h30m", text)
		return otherwise
	}
	return d
}

func (p *parser) percent(path, text string, otherwise int) int {
	if text == "" {
		return otherwise
	}
	number, is := strings.CutSuffix(text, "%")
	percent, err := strconv.Atoi(number)
	if !is || err != nil || percent < 1 || percent > 100 {
		p.fail(path, "%q is not a percentage from 1%% to 100%%", text)
		return otherwise
	}
	return percent
}

// calendar parses the windows of a ring by the rules of spec.guard.windows.
func (p *parser) calendar(path string, windows []windowFile) plan.Calendar {
	var guard v1alpha1.Guard
	for i, w := range windows {
		d := p.duration(fmt.Sprintf("%s.windows[%d].duration", path, i), w.Duration, time.Minute)
		guard.Windows = append(guard.Windows, v1alpha1.GuardWindow{Schedule: w.Schedule, Duration: metav1.Duration{Duration: d}, TimeZone: w.TimeZone})
	}
	calendar, err := plan.CalendarOf(guard, calendarStart)
	if wrong := (*plan.InvalidCalendarError)(nil); errors.As(err, &wrong) {
		field := strings.TrimPrefix(wrong.Field, "spec.guard.")
		p.fail(path+"."+field, "%s: %s", field, wrong.Problem)
	}
	return calendar
}

// calendarStart is the time from which a schedule must have a next time. It is fixed, so that whether a file is valid
// does not depend on when it is read.
var calendarStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
