package karpenter

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at2006 returns noon of a day.
func at2006(t *testing.T, date string) time.Time {
	t.Helper()
	found, err := time.Parse(time.DateOnly, date)
	if err != nil {
		t.Fatal(err)
	}
	return found.Add(12 * time.Hour)
}

// TestReleases: each minor version is in the table once, in order, and the newest patch of a line belongs to it.
func TestReleases(t *testing.T) {
	for i, r := range releases {
		first := mustParse(t, r.since)
		at2006(t, r.is.date)
		if first.Patch() != 0 {
			t.Errorf("%s is no first patch", r.since)
		}
		if i > 0 && (!mustParse(t, releases[i-1].since).LessThan(first) || releases[i-1].is.date >= r.is.date) {
			t.Errorf("%s of %s comes after %s of %s", r.since, r.is.date, releases[i-1].since, releases[i-1].is.date)
		}
		if r.is.lts == "" {
			continue
		}
		if lts := mustParse(t, r.is.lts); lts.Major() != first.Major() || lts.Minor() != first.Minor() {
			t.Errorf("%s is no patch of %s", lts, first)
		}
	}
	if _, known, err := SupportOf(newest); !known || err != nil {
		t.Errorf("%s is not in the table: %v", newest, err)
	}
	if top, lts := mustParse(t, newest), newestLTS(); Newer(newest, lts) && top.Minor() == mustParse(t, lts).Minor() {
		t.Errorf("the newest patch of the LTS is %s, and the tables end at %s", lts, newest)
	}
}

// TestReleasesAsTheSourcesSay compares the lines with long-term support with upstream's page.
func TestReleasesAsTheSourcesSay(t *testing.T) {
	text := read(t, source(t, "1.15.0"), "SUPPORT.md")
	rows := regexp.MustCompile(`(?m)^\| v(\d+\.\d+) +\| (\w{3} \d{4}) \| (\w{3} \d{4}) \|$`).FindAllStringSubmatch(text, -1)
	want := map[string][2]string{}
	for _, row := range rows {
		want[row[1]] = [2]string{row[2], row[3]}
	}
	got := map[string][2]string{}
	for _, r := range releases {
		if r.is.lts == "" {
			continue
		}
		s, _, err := SupportOf(r.since)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Line] = [2]string{at2006(t, r.is.date).Format("Jan 2006"), at2006(t, s.Until).Format("Jan 2006")}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines with long-term support (-upstream +table):\n%s", diff)
	}
}

func TestSupportOf(t *testing.T) {
	for version, want := range map[string]Support{
		"1.9.3":      {Line: "1.9", LTS: true, FixesUntil: "2026-07-11", Until: "2027-02-06"},  // until the next LTS
		"1.14.0":     {Line: "1.14", LTS: true, FixesUntil: "2027-01-11", Until: "2027-07-11"}, // for six months
		"v1.8.6":     {Line: "1.8", Until: "2026-02-06", EndedBy: "1.9.0"},
		"1.13.1":     {Line: "1.13", Until: "2026-07-11", EndedBy: "1.14.0"},
		"0.37.7":     {Line: "0.37", Until: "2024-08-14", EndedBy: "1.0.0"},
		"1.15.2":     {Line: "1.15"},
		"1.99.0":     {},
		"0.20.0":     {},
		"1.9.3+acme": {},
	} {
		got, known, err := SupportOf(version)
		if err != nil || got != want || known != (want.Line != "") {
			t.Errorf("%s: %+v, known %t, %v; want %+v", version, got, known, err, want)
		}
	}
	var bad *VersionError
	if _, _, err := SupportOf("latest"); !errors.As(err, &bad) {
		t.Errorf("error %v", err)
	}
}

// TestNotice: a version is warned about from the day on which support ends, and noted 60 days before.
func TestNotice(t *testing.T) {
	to := Channels()
	latest, lts := to[0], to[1]
	both := "upgrade to " + lts.String() + ", or to " + latest.String()
	if latest.Version == lts.Version {
		both = "upgrade to " + lts.String()
	}
	cases := map[string]struct {
		version, on string
		ended       bool
		want        string // empty: nothing
	}{
		"long before the end":         {version: "1.9.3", on: "2026-12-07"},
		"soon":                        {version: "1.9.3", on: "2026-12-08", want: "support for Karpenter 1.9 ends on 2027-02-06: " + both},
		"on the last day":             {version: "1.9.3", on: "2027-02-05", want: "support for Karpenter 1.9 ends on 2027-02-06: " + both},
		"at the end":                  {version: "1.9.3", on: "2027-02-06", ended: true, want: "Karpenter 1.9 has been out of support since 2027-02-06: " + both},
		"a regular release":           {version: "1.8.6", on: "2026-11-30", ended: true, want: "Karpenter 1.8 has been out of support since 2026-02-06, when 1.9.0 was released: " + both},
		"after the end of the LTS":    {version: "1.14.0", on: "2027-08-01", ended: true, want: "Karpenter 1.14 has been out of support since 2027-07-11: "},
		"the newest":                  {version: newest, on: "2026-11-30"},
		"an old plumbline":            {version: "1.99.0", on: "2036-01-01"},
		"a fork of an ended release":  {version: "1.8.6+acme.3", on: "2026-11-30"},
		"before anything is released": {version: "1.8.6", on: "2020-01-01"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := NoticeOf(c.version, at2006(t, c.on))
			if err != nil || (got == nil) != (c.want == "") {
				t.Fatalf("%+v, %v", got, err)
			}
			if got != nil && (got.Ended != c.ended || !strings.HasPrefix(got.Message, c.want)) {
				t.Errorf("ended %t: %s\nwant %s", got.Ended, got.Message, c.want)
			}
		})
	}
	if _, err := NoticeOf("latest", time.Time{}); err == nil {
		t.Error("no version, and no error")
	}
	none := successors("1.14.0", "1.14", at2006(t, "2036-01-01"))
	if latest.Support.Line == "1.14" && none != "this plumbline knows no supported version to upgrade to; use a newer plumbline" {
		t.Errorf("successors: %s", none)
	}
}

func TestChannels(t *testing.T) {
	if got, err := ChannelVersion(ChannelLatest); err != nil || got != newest {
		t.Errorf("latest is %q, %v", got, err)
	}
	lts, err := ChannelVersion(ChannelLTS)
	if s, _, _ := SupportOf(lts); err != nil || !s.LTS || Newer(lts, newest) {
		t.Errorf("lts is %q, %v", lts, err)
	}
	var unknown *ChannelError
	if _, err := ChannelVersion("stable"); !errors.As(err, &unknown) || err.Error() != `channel is "stable": choose lts or latest` {
		t.Errorf("error %v", err)
	}
	for _, c := range Channels() {
		if c.Kubernetes == (Kubernetes{}) || c.Support.Line == "" {
			t.Errorf("channel %+v", c)
		}
	}
}

// TestEitherOr: a cluster has either the LTS or a version of Kubernetes that is newer than the LTS.
func TestEitherOr(t *testing.T) {
	of := func(lts, latest Kubernetes) []Channel {
		return []Channel{{Name: ChannelLatest, Version: "1.14.0", Kubernetes: latest}, {Name: ChannelLTS, Version: "1.9.3", Kubernetes: lts}}
	}
	choose := "LTS lines get no new minor version of Kubernetes: choose either the LTS, 1.9.3, or Kubernetes 1.36, which needs Karpenter 1.13.0 or later"
	for name, c := range map[string]struct {
		channels []Channel
		minor    int
		want     string
	}{
		"the same":          {of(Kubernetes{26, 35}, Kubernetes{26, 35}), 35, ""},
		"one newer":         {of(Kubernetes{26, 35}, Kubernetes{26, 36}), 0, choose},
		"the cluster's":     {of(Kubernetes{26, 35}, Kubernetes{26, 36}), 35, choose + "; this cluster's Kubernetes is 1.35"},
		"the cluster's too": {of(Kubernetes{26, 35}, Kubernetes{26, 36}), 36, choose + "; this cluster's Kubernetes 1.36 rules out the LTS"},
		"two newer":         {of(Kubernetes{26, 34}, Kubernetes{26, 36}), 0, "LTS lines get no new minor version of Kubernetes: choose either the LTS, 1.9.3, or Kubernetes 1.35 and later, which needs Karpenter "},
	} {
		if got := EitherOr(c.channels, c.minor); got != c.want && (name != "two newer" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestKubernetesGap(t *testing.T) {
	top := newestMinor()
	for name, c := range map[string]struct {
		version string
		minor   int
		want    string
	}{
		"supported":              {"1.9.3", 35, ""},
		"supported by a later":   {"1.9.3", 36, "Karpenter 1.9.3 supports Kubernetes 1.26 to 1.35, not 1.36: upgrade Karpenter to 1.13.0 or later first"},
		"too old":                {"1.9.3", 25, "Karpenter 1.9.3 supports Kubernetes 1.26 to 1.35, not 1.25"},
		"newer than all":         {newest, top + 1, "no version of Karpenter that this plumbline knows supports Kubernetes"},
		"a fork":                 {"1.9.3+acme.3", 35, "unknown whether Karpenter 1.9.3+acme.3 supports Kubernetes 1.35"},
		"a version to come":      {"1.99.0", 35, "unknown whether Karpenter 1.99.0 supports Kubernetes 1.35"},
		"older than the tables":  {"0.30.0", 25, "unknown whether Karpenter 0.30.0 supports Kubernetes 1.25"},
		"the newest and the top": {newest, top, ""},
	} {
		got, err := KubernetesGap(c.version, c.minor)
		if err != nil || !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := KubernetesGap("latest", 36); err == nil {
		t.Error("no version, and no error")
	}
}
