package recorder

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// Record is a NodeClaim that is terminated or terminating.
type Record struct {
	NodeClaim string `json:"nodeClaim"`
	// Node is its Node; empty if none has registered.
	Node string `json:"node,omitempty"`
	// Instance is the ID of its EC2 instance; empty if none was launched.
	Instance     string `json:"instance,omitempty"`
	Pool         string `json:"pool"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	// Created is when the NodeClaim was created, and Deleted its deletionTimestamp.
	Created metav1.Time `json:"created"`
	Deleted metav1.Time `json:"deleted,omitzero"`
	// Drained, VolumesDetached and InstanceTerminating are when Karpenter's conditions of these names became True; zero
	// if that was not observed.
	Drained             metav1.Time `json:"drained,omitzero"`
	VolumesDetached     metav1.Time `json:"volumesDetached,omitzero"`
	InstanceTerminating metav1.Time `json:"instanceTerminating,omitzero"`
	// Gone is when the NodeClaim was gone; zero while it is terminating.
	Gone metav1.Time `json:"gone,omitzero"`
	// Pods is how many pods were on its node when the deletion started, without those of DaemonSets, static ones and
	// completed ones; nil if they were not counted then.
	Pods *int `json:"pods,omitempty"`
	// Late reports whether its deletion was not observed: Gone is when it was noticed.
	Late bool `json:"goneBefore,omitempty"`

	Cause Cause `json:"cause"`
	// Detail is a term of Karpenter's, such as the reason of the drift, or what was observed.
	Detail string `json:"detail,omitempty"`
	// Revision is the commit in force when the deletion started. ByRevision reports whether the commit caused the
	// termination: its rollout was in progress, or it was the first one without the pool.
	Revision   string `json:"revision,omitempty"`
	ByRevision bool   `json:"byRevision,omitempty"`
}

// End returns when it was gone or, if it is not, when its deletion started.
func (r Record) End() time.Time {
	if !r.Gone.IsZero() {
		return r.Gone.Time
	}
	return r.Deleted.Time
}

// NewestFirst compares Records: terminating ones come first, then the others by when they were gone.
func NewestFirst(a, b Record) int {
	switch {
	case a.Gone.IsZero() == b.Gone.IsZero():
		return b.End().Compare(a.End())
	case a.Gone.IsZero():
		return -1
	}
	return 1
}

// RecordOf returns the Record of a NodeClaim, trimmed or not.
func RecordOf(claim *karpv1.NodeClaim) Record {
	seen := cluster.NodeClaim(claim)
	labels := seen.Labels.Map()
	r := Record{
		NodeClaim: claim.Name, Node: seen.Node, Instance: InstanceID(seen.ProviderID), Pool: seen.Pool,
		InstanceType: labels[corev1.LabelInstanceTypeStable], Zone: labels[corev1.LabelTopologyZone],
		CapacityType: labels[karpv1.CapacityTypeLabelKey],
		Created:      claim.CreationTimestamp,
	}
	if claim.DeletionTimestamp != nil {
		r.Deleted = *claim.DeletionTimestamp
	}
	for _, c := range claim.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case karpv1.ConditionTypeDrained:
			r.Drained = c.LastTransitionTime
		case karpv1.ConditionTypeVolumesDetached:
			r.VolumesDetached = c.LastTransitionTime
		case karpv1.ConditionTypeInstanceTerminating:
			r.InstanceTerminating = c.LastTransitionTime
		}
	}
	return r
}

// InstanceID returns the instance in a provider ID: i-1 of aws:///eu-west-1a/i-1.
func InstanceID(providerID string) string {
	return providerID[strings.LastIndex(providerID, "/")+1:]
}

// maxLine is the maximum size in bytes of a Record in its ConfigMap, without the end of line; if names are so long that
// it would be larger, the detail is truncated.
const maxLine = 299

// The marks of a line.
const (
	markLate       = "l"
	markByRevision = "r"
	// markPods comes last, before their number: versions that do not know it can read the others.
	markPods = "p"
)

// columns is the number of fields in a line.
const columns = 17

// format returns a Record as a line: tab-separated fields in a fixed order. The deletion is in seconds after the
// creation, the following times in seconds after the deletion. It omits the pool if it is the prefix of the NodeClaim's
// name, and the domain that EC2 gives a Node in its region.
func (r Record) format(seq int) (string, error) {
	if pool, _, found := cutLast(r.NodeClaim, "-"); found && pool == r.Pool {
		r.Pool = ""
	}
	if host, found := strings.CutSuffix(r.Node, domain(r.Zone)); found {
		r.Node = host + "~"
	}
	marks := ""
	if r.Late {
		marks += markLate
	}
	if r.ByRevision {
		marks += markByRevision
	}
	if r.Pods != nil {
		marks += markPods + strconv.Itoa(*r.Pods)
	}
	all := []string{
		strconv.Itoa(seq), r.NodeClaim, r.Pool, r.Node, r.Instance, r.InstanceType, r.Zone, r.CapacityType,
		strconv.FormatInt(r.Created.Unix(), 10),
	}
	since := r.Created
	for _, at := range []metav1.Time{r.Deleted, r.Drained, r.VolumesDetached, r.InstanceTerminating, r.Gone} {
		after := ""
		if !at.IsZero() {
			after = strconv.FormatInt(at.Unix()-since.Unix(), 10)
		}
		all, since = append(all, after), r.Deleted
	}
	all = append(all, string(r.Cause)+marksBehind(marks), r.Detail, r.Revision)
	line, err := written(all)
	if over := len(line) - maxLine; err == nil && over > 0 {
		all[columns-2] = strings.ToValidUTF8(all[columns-2][:max(0, len(all[columns-2])-over)], "")
		line, err = written(all)
	}
	return line, err
}

// domain returns the domain of Nodes in the region of a zone, which is the zone without its letter.
func domain(zone string) string {
	return "." + zone[:max(0, len(zone)-1)] + ".compute.internal"
}

func marksBehind(marks string) string {
	if marks == "" {
		return ""
	}
	return "/" + marks
}

// written returns a line without its end.
func written(all []string) (string, error) {
	for i := range all {
		all[i] = strings.Map(func(c rune) rune {
			if c == '\n' || c == '\r' || c == '\t' {
				return ' '
			}
			return c
		}, all[i])
	}
	var line strings.Builder
	w := csv.NewWriter(&line)
	w.Comma = '\t'
	if err := w.Write(all); err != nil {
		return "", fmt.Errorf("encode the record of a NodeClaim: %w", err)
	}
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n"), w.Error()
}

// parse parses a line.
func parse(line string) (seq int, r Record, err error) {
	reader := csv.NewReader(strings.NewReader(line))
	reader.Comma, reader.FieldsPerRecord = '\t', columns
	all, err := reader.Read()
	if err != nil {
		return 0, Record{}, fmt.Errorf("decode the record of a NodeClaim: %w", err)
	}
	seq, err = strconv.Atoi(all[0])
	if err != nil || seq < 0 {
		return 0, Record{}, errors.Join(errors.New("decode the number of a record"), err)
	}
	cause, marks, _ := strings.Cut(all[14], "/")
	marks, pods, _ := strings.Cut(marks, markPods)
	r = Record{
		NodeClaim: all[1], Pool: all[2], Node: all[3], Instance: all[4], InstanceType: all[5], Zone: all[6], CapacityType: all[7],
		Cause: Cause(cause), Detail: all[15], Revision: all[16],
		Late: strings.Contains(marks, markLate), ByRevision: strings.Contains(marks, markByRevision),
	}
	if n, err := strconv.Atoi(pods); err == nil && n >= 0 {
		r.Pods = &n
	}
	if r.Pool == "" {
		r.Pool, _, _ = cutLast(r.NodeClaim, "-")
	}
	if host, found := strings.CutSuffix(r.Node, "~"); found {
		r.Node = host + domain(r.Zone)
	}
	created, err := strconv.ParseInt(all[8], 10, 64)
	if err != nil {
		return 0, Record{}, fmt.Errorf("decode the creation time of NodeClaim %s: %w", r.NodeClaim, err)
	}
	r.Created = metav1.NewTime(time.Unix(created, 0).UTC())
	since := created
	for i, at := range []*metav1.Time{&r.Deleted, &r.Drained, &r.VolumesDetached, &r.InstanceTerminating, &r.Gone} {
		if all[9+i] == "" {
			continue
		}
		after, err := strconv.ParseInt(all[9+i], 10, 64)
		if err != nil {
			return 0, Record{}, fmt.Errorf("decode a time of NodeClaim %s: %w", r.NodeClaim, err)
		}
		*at = metav1.NewTime(time.Unix(since+after, 0).UTC())
		since = r.Deleted.Unix()
	}
	return seq, r, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// causes are all causes, each with words that continue "it was terminated:".
var causes = []struct {
	cause Cause
	words string
}{
	{Drifted, "it did not match its NodePool or EC2NodeClass, and Karpenter replaced it"},
	{Empty, "it was empty, and Karpenter consolidated it"},
	{Underutilized, "it was underutilized, and Karpenter consolidated it"},
	{Expired, "it was older than its expireAfter, and Karpenter terminated it"},
	{Interrupted, "AWS announced an interruption or a failure of the instance, and Karpenter drained it"},
	{Unhealthy, "its node was unhealthy for too long, and Karpenter repaired it"},
	{Removed, "its NodePool was removed from Git, and plumbline removed the node"},
	{PoolDeleted, "another client deleted its NodePool, and Kubernetes deleted the NodeClaim with it"},
	{LaunchFailed, "no instance could be launched for it"},
	{NotRegistered, "its instance did not join the cluster within 15 minutes"},
	{InstanceGone, "EC2 terminated the instance before Karpenter drained the node"},
	{ByHand, "another client deleted it; neither Karpenter nor plumbline recorded a reason"},
	{Unknown, "the observed facts do not show why"},
}

// Causes returns all causes.
func Causes() []Cause {
	all := make([]Cause, 0, len(causes))
	for _, c := range causes {
		all = append(all, c.cause)
	}
	return all
}

// Words returns a cause as a sentence; empty for a cause of another version of plumbline.
func (c Cause) Words() string {
	for _, one := range causes {
		if one.cause == c {
			return one.words
		}
	}
	return ""
}
