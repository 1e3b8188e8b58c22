package karpenter

import (
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// release is a minor version of Karpenter.
type release struct {
	// date is the day of its tag, in UTC.
	date string
	// lts is the newest patch of a line with long-term support (LTS); empty for a regular release.
	lts string
}

// releases are the minor versions, by their first patch. The dates are those of KPA's tags; from 1.15.0 on, the time in
// `go list -m -json github.com/aws/karpenter-provider-aws@VERSION`. The lines with long-term support are those of the
// table "LTS versions table" in KPA/SUPPORT.md at 1.15.0, which gives the months.
var releases = []row[release]{
	{"0.31.0", release{date: "2023-09-27"}},
	{"0.32.0", release{date: "2023-10-31"}},
	{"0.33.0", release{date: "2023-12-05"}},
	{"0.34.0", release{date: "2024-02-06"}},
	{"0.35.0", release{date: "2024-02-29"}},
	{"0.36.0", release{date: "2024-04-10"}},
	{"0.37.0", release{date: "2024-05-29"}},
	{"1.0.0", release{date: "2024-08-14"}},
	{"1.1.0", release{date: "2024-11-30"}},
	{"1.2.0", release{date: "2025-01-28"}},
	{"1.3.0", release{date: "2025-03-04"}},
	{"1.4.0", release{date: "2025-04-16"}},
	{"1.5.0", release{date: "2025-05-23"}},
	{"1.6.0", release{date: "2025-07-14"}},
	{"1.7.0", release{date: "2025-09-15"}},
	{"1.8.0", release{date: "2025-10-08"}},
	{"1.9.0", release{date: "2026-02-06", lts: "1.9.3"}},
	{"1.10.0", release{date: "2026-03-20"}},
	{"1.11.0", release{date: "2026-04-06"}},
	{"1.12.0", release{date: "2026-04-24"}},
	{"1.13.0", release{date: "2026-06-10"}},
	{"1.14.0", release{date: "2026-07-11", lts: "1.14.3"}},
	{"1.15.0", release{date: "2026-10-10"}},
}

// How long upstream supports a line, in months (KPA/SUPPORT.md, Support Phases).
const (
	// fixedFor is how long a line with long-term support gets fixes for availability, unless the next one is released
	// earlier; supportedFor is how long it gets security fixes.
	fixedFor     = 6
	supportedFor = 12
)

// noticePeriod is how long before the end of support plumbline reports it.
const noticePeriod = 60 * 24 * time.Hour

// Support is for how long upstream supports a version of Karpenter. Dates are days in UTC, as 2006-01-02.
type Support struct {
	// Line is the minor version, such as 1.14.
	Line string `json:"line"`
	// LTS reports whether the line has long-term support.
	LTS bool `json:"lts,omitempty"`
	// FixesUntil is when such a line stops to get fixes for availability; then it gets only security fixes.
	FixesUntil string `json:"fixesUntil,omitempty"`
	// Until is the first day without support. It is empty for a regular release whose next minor version is not in the
	// tables.
	Until string `json:"until,omitempty"`
	// EndedBy is the version whose release ended the support of a regular release.
	EndedBy string `json:"endedBy,omitempty"`
}

// Ended reports whether the version is out of support at a time.
func (s Support) Ended(now time.Time) bool { return s.Until != "" && day(now) >= s.Until }

// ends reports whether support ends within noticePeriod.
func (s Support) ends(now time.Time) bool {
	return s.Until != "" && day(now.Add(noticePeriod)) >= s.Until
}

// String describes the support, independent of the time.
func (s Support) String() string {
	switch {
	case s.LTS:
		return fmt.Sprintf("LTS: availability fixes until %s, security fixes until %s", s.FixesUntil, s.Until)
	case s.EndedBy != "":
		return fmt.Sprintf("supported until %s, when %s was released", s.Until, s.EndedBy)
	}
	return "supported until the next minor version is released"
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// SupportOf returns for how long upstream supports a version. known is false for a version whose minor version is not in
// the tables, and for a fork or a release candidate. Errors: *VersionError.
func SupportOf(version string) (s Support, known bool, err error) {
	v, err := parse(version)
	if err != nil {
		return Support{}, false, err
	}
	for i, r := range releases {
		if first := semver.MustParse(r.since); isRelease(v) && first.Major() == v.Major() && first.Minor() == v.Minor() {
			return supportOf(i), true, nil
		}
	}
	return Support{}, false, nil
}

// supportOf returns the support of the line in a row of releases.
func supportOf(i int) Support {
	s := Support{Line: strings.TrimSuffix(releases[i].since, ".0"), LTS: releases[i].is.lts != ""}
	if !s.LTS {
		if i+1 < len(releases) {
			s.Until, s.EndedBy = releases[i+1].is.date, releases[i+1].since
		}
		return s
	}
	s.FixesUntil, s.Until = monthsAfter(releases[i].is.date, fixedFor), monthsAfter(releases[i].is.date, supportedFor)
	for _, later := range releases[i+1:] {
		if later.is.lts != "" {
			s.FixesUntil = min(s.FixesUntil, later.is.date)
		}
	}
	return s
}

// monthsAfter returns the same day of a later month.
func monthsAfter(date string, months int) string {
	from, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return "" // TestReleases parses each date
	}
	return day(from.AddDate(0, months, 0))
}

// The channels of versions that a fleet may follow.
const (
	// ChannelLatest has the newest version, ChannelLTS the newest with long-term support.
	ChannelLatest = "latest"
	ChannelLTS    = "lts"
)

// Channel is the newest version of a channel, with what distinguishes the channels.
type Channel struct {
	Name       string     `json:"channel"`
	Version    string     `json:"version"`
	Kubernetes Kubernetes `json:"kubernetes"`
	Support    Support    `json:"support"`
}

// String describes the version.
func (c Channel) String() string {
	return fmt.Sprintf("%s (%s; Kubernetes %s)", c.Version, c.Support, c.Kubernetes)
}

// Channels returns latest and lts, in this order.
func Channels() []Channel {
	return []Channel{channel(ChannelLatest, newest), channel(ChannelLTS, newestLTS())}
}

// ChannelVersion returns the version of a channel. Errors: *ChannelError.
func ChannelVersion(name string) (string, error) {
	for _, c := range Channels() {
		if c.Name == name {
			return c.Version, nil
		}
	}
	return "", &ChannelError{Name: name}
}

// ChannelError reports that there is no channel of a name.
type ChannelError struct{ Name string }

// Error lists the channels.
func (e *ChannelError) Error() string {
	return fmt.Sprintf("channel is %q: choose %s or %s", e.Name, ChannelLTS, ChannelLatest)
}

func channel(name, version string) Channel {
	c := Channel{Name: name, Version: version}
	v := semver.MustParse(version) // of a table
	c.Kubernetes, _ = at(kubernetes, v)
	c.Support, _, _ = SupportOf(version)
	return c
}

// newestLTS returns the newest version with long-term support that the tables contain.
func newestLTS() string {
	version := ""
	for _, r := range releases {
		if r.is.lts != "" {
			version = r.is.lts
		}
	}
	if Newer(version, newest) {
		return newest
	}
	return version
}

// EitherOr describes which versions of Kubernetes exclude the LTS: it gets no new minor version (KPA/SUPPORT.md, Out of
// Scope). minor is the cluster's minor version of Kubernetes, 0 if unknown. The result is empty if there is nothing to
// choose.
func EitherOr(channels []Channel, minor int) string {
	var latest, lts Channel
	for _, c := range channels {
		switch c.Name {
		case ChannelLatest:
			latest = c
		case ChannelLTS:
			lts = c
		}
	}
	first := lts.Kubernetes.Newest + 1
	if latest.Kubernetes.Newest < first {
		return ""
	}
	newer := fmt.Sprintf("Kubernetes 1.%d", first)
	if first < latest.Kubernetes.Newest {
		newer += " and later"
	}
	text := fmt.Sprintf("LTS lines get no new minor version of Kubernetes: "+
		"choose either the LTS, %s, or %s, which needs Karpenter %s or later", lts.Version, newer, nextThatKnows(first, lts.Version))
	switch {
	case minor >= first:
		text += fmt.Sprintf("; this cluster's Kubernetes 1.%d rules out the LTS", minor)
	case minor > 0:
		text += fmt.Sprintf("; this cluster's Kubernetes is 1.%d", minor)
	}
	return text
}

// Notice is what to report about the support of a version.
type Notice struct {
	// Ended reports whether the version is out of support; otherwise support ends soon.
	Ended   bool
	Message string
}

// NoticeOf returns what to report about the support of a version at a time; nil if it is supported for longer than 60
// days, or if that is unknown, as for a fork. The message does not change until Ended does. Errors: *VersionError.
func NoticeOf(version string, now time.Time) (*Notice, error) {
	s, known, err := SupportOf(version)
	if err != nil || !known || !s.ends(now) {
		return nil, err
	}
	n := &Notice{Ended: s.Ended(now)}
	switch {
	case !n.Ended:
		n.Message = fmt.Sprintf("support for Karpenter %s ends on %s", s.Line, s.Until)
	case s.EndedBy != "":
		n.Message = fmt.Sprintf("Karpenter %s has been out of support since %s, when %s was released", s.Line, s.Until, s.EndedBy)
	default:
		n.Message = fmt.Sprintf("Karpenter %s has been out of support since %s", s.Line, s.Until)
	}
	n.Message += ": " + successors(version, s.Line, now)
	return n, nil
}

// successors describes the versions to upgrade to, the LTS first.
func successors(version, line string, now time.Time) string {
	var found []string
	channels := Channels()
	for i := len(channels) - 1; i >= 0; i-- {
		c := channels[i]
		if again := len(found) > 0 && c.Version == channels[i+1].Version; again {
			continue
		}
		if Newer(c.Version, version) && c.Support.Line != line && !c.Support.Ended(now) {
			found = append(found, c.String())
		}
	}
	if len(found) == 0 {
		return "this plumbline knows no supported version to upgrade to; use a newer plumbline"
	}
	return "upgrade to " + strings.Join(found, ", or to ")
}

// KubernetesGap describes why a version of Karpenter may not work with a minor version of Kubernetes, and what to do about
// it; empty if it supports that. Errors: *VersionError.
func KubernetesGap(version string, minor int) (string, error) {
	v, err := parse(version)
	if err != nil {
		return "", err
	}
	knows, _ := at(kubernetes, v)
	switch next := nextThatKnows(minor, version); {
	case unknownOf(v) != "" || knows == (Kubernetes{}):
		return fmt.Sprintf("unknown whether Karpenter %s supports Kubernetes 1.%d: "+
			"this plumbline knows upstream's releases up to %s", v, minor, newest), nil
	case minor >= knows.Least && minor <= knows.Newest:
		return "", nil
	case next != "":
		return fmt.Sprintf("Karpenter %s supports Kubernetes %s, not 1.%d: upgrade Karpenter to %s or later first", v, knows, minor, next), nil
	case minor > newestMinor():
		return fmt.Sprintf("no version of Karpenter that this plumbline knows supports Kubernetes 1.%d; use a newer plumbline", minor), nil
	}
	return fmt.Sprintf("Karpenter %s supports Kubernetes %s, not 1.%d", v, knows, minor), nil
}
