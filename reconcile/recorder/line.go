package recorder

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxLine is how many bytes a Record takes at most in its ConfigMap, without the line's end; where names are so long
// that it would be more, its detail is cut.
const maxLine = 299

// The marks of a line.
const (
	markLate       = "l"
	markByRevision = "r"
	// markPods comes last, before their number: who does not know it reads the others.
	markPods = "p"
)

// columns is how many fields a line has.
const columns = 17

// format is a Record as a line: fields between tabs, in a fixed order. The deletion is in seconds
// after the creation, what follows in seconds after the deletion. A pool that the NodeClaim's name
// begins with is left out, and so is the domain that EC2 gives a Node in its region.
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

// domain is that of Nodes in the region of a zone, which is the zone without its letter.
func domain(zone string) string {
	return "." + zone[:max(0, len(zone)-1)] + ".compute.internal"
}

func marksBehind(marks string) string {
	if marks == "" {
		return ""
	}
	return "/" + marks
}

// written is a line without its end.
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

// parse reads a line.
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
		return 0, Record{}, fmt.Errorf("decode when NodeClaim %s was made: %w", r.NodeClaim, err)
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

// cutLast cuts a text at the last of its separators.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
