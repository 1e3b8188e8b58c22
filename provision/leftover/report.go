package leftover

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/internal/junit"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Policy is the file with the permissions for the queries, and DeletionPolicy the one with those for deleting what is
// left.
const (
	Policy         = "manifests/iam-policy-verify.json"
	DeletionPolicy = "manifests/iam-policy-teardown.json"
)

// Report is what is left of a cluster's Karpenter in AWS.
type Report struct {
	// Cluster, Region and Account were queried.
	Cluster string `json:"cluster"`
	Region  string `json:"region"`
	Account string `json:"account"`
	// Gone reports whether AWS has answered every query and nothing is left.
	Gone  bool   `json:"gone"`
	Kinds []Kind `json:"kinds"`
	// Elsewhere are the regions in which a cluster of this name has instance profiles, if nothing of it is in this
	// region, which may be the wrong one.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// Kind is what is left of one kind.
type Kind struct {
	Kind cloud.Kind `json:"kind"`
	// Error is why the query has no complete response; Left is then incomplete.
	Error string `json:"error,omitempty"`
	// Denied reports whether AWS denies the query, so a retry does not help.
	Denied bool   `json:"denied,omitempty"`
	Left   []Item `json:"left,omitempty"`
	// Kept are those that stay on purpose, and do not count.
	Kept []Item `json:"kept,omitempty"`
}

// Item is one resource.
type Item struct {
	// ID is the ID in AWS, or the name of an instance profile.
	ID    string `json:"id"`
	Zone  string `json:"zone,omitempty"`
	State string `json:"state,omitempty"`
	// What it belongs to, and what keeps it.
	What string `json:"what,omitempty"`
}

// NewReport returns a Report of AWS's responses and what the cluster knows about them.
func NewReport(answers []cloud.Answer, known Known) Report {
	report := Report{Gone: len(answers) > 0}
	found := false
	for _, answer := range answers {
		report.Elsewhere = append(report.Elsewhere, answer.Elsewhere...)
		found = found || len(answer.Resources) > 0
		var denied *cloud.DeniedError
		kind := Kind{Kind: answer.Kind, Error: Explain(answer.Err, Policy), Denied: errors.As(answer.Err, &denied)}
		for _, r := range answer.Resources {
			item := Item{ID: r.ID, Zone: r.Zone, State: r.State}
			var where place
			if item.What, where = classify(r, known); where == left {
				kind.Left = append(kind.Left, item)
			} else if where == kept {
				kind.Kept = append(kind.Kept, item)
			}
		}
		report.Gone = report.Gone && answer.Err == nil && len(kind.Left) == 0
		report.Kinds = append(report.Kinds, kind)
	}
	if found {
		report.Elsewhere = nil
	}
	report.Gone = report.Gone && len(report.Elsewhere) == 0
	return report
}

// Misplaced reports that the cluster may be in another region, and what to do; empty if nothing suggests it.
func (r Report) Misplaced() string {
	if len(r.Elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing of cluster %s is in %s, but it has instance profiles for %s: check --region",
		r.Cluster, r.Region, strings.Join(r.Elsewhere, ", "))
}

// Instances returns how many instances are left.
func (r Report) Instances() (n int) {
	for _, kind := range r.Kinds {
		if kind.Kind == cloud.KindInstance {
			n += len(kind.Left)
		}
	}
	return n
}

// Unanswered reports whether AWS has not completely answered a query.
func (r Report) Unanswered() bool {
	return len(r.Kinds) == 0 || slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Error != "" })
}

// Denied reports whether AWS denies a query.
func (r Report) Denied() bool {
	return slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Denied })
}

// String returns what is left in one line: "2 instances (i-1, i-2), 1 volume (vol-1)", or "nothing".
func (r Report) String() string {
	var parts []string
	for _, kind := range r.Kinds {
		if len(kind.Left) == 0 {
			continue
		}
		ids := make([]string, 0, len(kind.Left))
		for _, item := range kind.Left {
			ids = append(ids, item.ID)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", english.Plural(len(ids), Noun(kind.Kind), ""), strings.Join(ids, ", ")))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Noun returns a kind as a noun.
func Noun(kind cloud.Kind) string {
	switch kind {
	case cloud.KindInstance:
		return "instance"
	case cloud.KindVolume:
		return "volume"
	case cloud.KindNetworkInterface:
		return "network interface"
	case cloud.KindLaunchTemplate:
		return "launch template"
	case cloud.KindInstanceProfile:
		return "instance profile"
	}
	return string(kind)
}

// Explain describes an error to the user, whose permissions should be those of a policy, not those of plumbline's own
// role.
func Explain(err error, policy string) string {
	var denied *cloud.DeniedError
	var credentials *cloud.CredentialsError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &denied) && denied.Explicit:
		return denied.Error()
	case errors.As(err, &denied):
		return fmt.Sprintf("AWS denies %s: %s; allow %s to the credentials in use, as %s does",
			denied.Action, denied.Detail, denied.Action, policy)
	case errors.As(err, &credentials):
		return fmt.Sprintf("AWS has not answered: %s; check AWS_PROFILE or the role of this pipeline", strings.SplitN(err.Error(), ";", 2)[0])
	}
	return err.Error()
}

// JUnit returns the Report as JUnit's XML: the case of a kind fails if anything of it is left; a query without a
// response is an error.
func (r Report) JUnit() ([]byte, error) {
	s := junit.Suite{Name: "plumbline verify --gone"}
	for _, kind := range r.Kinds {
		one := junit.Case{Class: r.Cluster, Name: "no " + Noun(kind.Kind) + " is left", Out: lines(kind.Kept)}
		switch {
		case kind.Error != "":
			one.Error = &junit.Trouble{Message: kind.Error, Text: lines(kind.Left)}
		case len(kind.Left) > 0:
			only := Report{Kinds: []Kind{kind}}
			one.Failure = &junit.Trouble{Message: "left: " + only.String(), Text: lines(kind.Left)}
		}
		s.Cases = append(s.Cases, one)
	}
	if words := r.Misplaced(); words != "" {
		s.Cases = append(s.Cases, junit.Case{Class: r.Cluster, Name: "it is the region", Error: &junit.Trouble{Message: words}})
	}
	return s.XML()
}

func lines(items []Item) string {
	var text strings.Builder
	for _, item := range items {
		fmt.Fprintln(&text, strings.Join(strings.Fields(item.ID+" "+item.Zone+" "+item.State+" "+item.What), " "))
	}
	return text.String()
}
