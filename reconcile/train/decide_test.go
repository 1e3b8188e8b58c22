package train

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"

	"github.com/plumbline-dev/plumbline/provision/images"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC) // a Tuesday

func day(version string) time.Time {
	at, _ := images.Date(version)
	return at
}

func published(versions ...string) (found []images.Publication) {
	for _, v := range versions {
		found = append(found, images.Publication{Alias: "al2023@" + v, At: day(v)})
	}
	return found
}

func pinned(version string, releases ...string) Alias {
	return Alias{Name: "al2023@" + version, Classes: []string{"default"}, Published: day(version), Releases: published(releases...)}
}

func latest(resolves string) Alias {
	return Alias{Name: "al2023@latest", Classes: []string{"default"}, Pin: "al2023@" + resolves, Published: day(resolves), Releases: published(resolves)}
}

func mondays(t *testing.T) cron.Schedule {
	t.Helper()
	s, err := cron.ParseStandard("TZ=UTC 0 9 * * mon")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDecide: what runs, what is published, the spec, the open pull requests and the time, and what to do.
func TestDecide(t *testing.T) {
	names := NamesOf("demo", "fleet", "")
	const own = "plumbline/images/demo_fleet/demo_fleet/"
	open := func(number int, key string) Opened {
		return Opened{Number: number, Branch: own + key, URL: "https://git/pulls/7"}
	}
	old := pinned("v20261001", "v20261001", "v20261105", "v20261120")
	withdrawn := Alias{Name: "al2023@v20261001", Classes: []string{"default"}, Withdrawn: true, Releases: published("v20261130")}
	deprecated := pinned("v20261001", "v20261126")
	deprecated.Deprecated = true
	unknown := Alias{Name: "al2023@v20261001", Unknown: "ssm:GetParameter is denied"}
	spec := Spec{MinAge: 72 * time.Hour}
	weekly := Spec{MinAge: 72 * time.Hour, Schedule: mondays(t)}
	for name, c := range map[string]struct {
		spec    Spec
		aliases []Alias
		group   string
		open    []Opened
		earlier map[string]Earlier
		action  Action
		// branch is that of the proposal, without its prefix; why is a part of the reason.
		branch, why string
	}{
		"the newest of several is opened":       {spec: spec, aliases: []Alias{old}, action: Open, branch: "al2023-v20261120"},
		"too young":                             {spec: spec, aliases: []Alias{pinned("v20261120", "v20261120", "v20261130")}, action: Nothing, why: "al2023@v20261130, of 2026-11-30, is proposed from 2026-12-03 00:00 UTC on"},
		"the newest is too young":               {spec: spec, aliases: []Alias{pinned("v20261001", "v20261105", "v20261130")}, action: Open, branch: "al2023-v20261105"},
		"nothing newer":                         {spec: spec, aliases: []Alias{pinned("v20261120", "v20261105", "v20261120")}, action: Nothing},
		"no EC2NodeClass with an alias":         {spec: spec, action: Nothing},
		"the schedule has passed":               {spec: weekly, aliases: []Alias{old}, action: Open, branch: "al2023-v20261120"},
		"the schedule is next Monday":           {spec: weekly, aliases: []Alias{pinned("v20261120", "v20261128")}, action: Nothing, why: "from 2026-12-07 09:00 UTC on"},
		"too old for the schedule":              {spec: Spec{MinAge: weekly.MinAge, Schedule: weekly.Schedule, MaxAge: 48 * time.Hour}, aliases: []Alias{pinned("v20261120", "v20261128")}, action: Open, branch: "al2023-v20261128"},
		"deprecated, before the schedule":       {spec: weekly, aliases: []Alias{deprecated}, action: Open, branch: "al2023-v20261126"},
		"withdrawn, however young the next is":  {spec: weekly, aliases: []Alias{withdrawn}, action: Open, branch: "al2023-v20261130"},
		"latest is pinned at once":              {spec: spec, aliases: []Alias{latest("v20261130")}, action: Open, branch: "pin-al2023"},
		"latest was offered its pin, and not":   {spec: spec, aliases: []Alias{latest("v20261130")}, earlier: map[string]Earlier{own + "pin-al2023": EarlierClosed}, action: Nothing, why: "was closed, and is not opened again"},
		"latest was pinned, and unpinned again": {spec: spec, aliases: []Alias{latest("v20261130")}, earlier: map[string]Earlier{own + "pin-al2023": EarlierMerged}, action: Nothing, why: "was merged"},
		"latest has moved meanwhile":            {spec: spec, aliases: []Alias{latest("v20261130")}, open: []Opened{open(7, "pin-al2023")}, action: Rebase, branch: "pin-al2023"},
		"open and still wanted":                 {spec: spec, aliases: []Alias{old}, open: []Opened{open(7, "al2023-v20261120")}, action: Rebase, branch: "al2023-v20261120"},
		"superseded":                            {spec: spec, aliases: []Alias{old}, open: []Opened{open(7, "al2023-v20261105")}, action: Close, why: "superseded by al2023@v20261120"},
		"made by hand meanwhile":                {spec: spec, aliases: []Alias{pinned("v20261120", "v20261120")}, open: []Opened{open(7, "al2023-v20261120")}, action: Close, why: "no EC2NodeClass of the branch needs it any more"},
		"its target was withdrawn":              {spec: spec, aliases: []Alias{pinned("v20261001", "v20261001", "v20261105")}, open: []Opened{open(7, "al2023-v20261120")}, action: Close, why: "superseded by al2023@v20261105"},
		"a person has closed it":                {spec: spec, aliases: []Alias{old}, earlier: map[string]Earlier{own + "al2023-v20261120": EarlierClosed}, action: Nothing, why: "was closed"},
		"closed, and a newer one":               {spec: spec, aliases: []Alias{pinned("v20261001", "v20261105", "v20261120")}, earlier: map[string]Earlier{own + "al2023-v20261105": EarlierClosed}, action: Open, branch: "al2023-v20261120"},
		"SSM is denied":                         {spec: spec, aliases: []Alias{unknown}, action: Nothing, why: "ssm:GetParameter is denied"},
		"SSM is denied while one is open":       {spec: spec, aliases: []Alias{unknown}, open: []Opened{open(7, "al2023-v20261120")}, action: Nothing, why: "ssm:GetParameter is denied"},
		"SSM is stale":                          {spec: spec, aliases: []Alias{pinned("v20261120", "v20261001")}, action: Nothing},
		"another of the group is open": {
			spec: spec, aliases: []Alias{old}, group: "prod", open: []Opened{{Number: 3, Branch: "plumbline/images/prod/other_fleet/al2023-v20261120", URL: "https://git/pulls/3"}},
			action: Nothing, why: "https://git/pulls/3 of the same group is open",
		},
		"two trains at once: the later one gives way": {
			spec: spec, aliases: []Alias{old}, group: "prod", open: []Opened{
				{Number: 3, Branch: "plumbline/images/prod/other_fleet/al2023-v20261120", URL: "https://git/pulls/3"},
				{Number: 4, Branch: "plumbline/images/prod/demo_fleet/al2023-v20261120", URL: "https://git/pulls/4"},
			}, action: Close, why: "https://git/pulls/3 of the same group was opened before",
		},
		"two trains at once: the earlier one stays": {
			spec: spec, aliases: []Alias{old}, group: "prod", open: []Opened{
				{Number: 4, Branch: "plumbline/images/prod/demo_fleet/al2023-v20261120", URL: "https://git/pulls/4"},
				{Number: 5, Branch: "plumbline/images/prod/other_fleet/al2023-v20261120", URL: "https://git/pulls/5"},
			}, action: Rebase, branch: "al2023-v20261120",
		},
		"two of its own: the outdated one is closed": {
			spec: spec, aliases: []Alias{old}, open: []Opened{open(7, "al2023-v20261120"), open(8, "al2023-v20261105")}, action: Close, why: "superseded",
		},
		"a newer release before the pin": {
			spec: spec, aliases: []Alias{latest("v20261120"), {Name: "bottlerocket@v1.1.0", Published: day("v20261001"), Releases: []images.Publication{{Alias: "bottlerocket@v1.2.0", At: day("v20261101")}}}},
			action: Open, branch: "bottlerocket-v1.2.0",
		},
		"an open pin stays": {
			spec: spec, aliases: []Alias{latest("v20261120"), old}, open: []Opened{open(7, "pin-al2023")}, action: Rebase, branch: "pin-al2023",
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := names
			if c.group != "" {
				of = NamesOf("demo", "fleet", c.group)
			}
			want := Wanted(c.spec, c.aliases, now)
			got := Decide(of, want, c.open, c.earlier)
			branch := ""
			if got.Action == Open || got.Action == Rebase {
				branch = strings.TrimPrefix(of.Branch(got.Proposal), of.Prefix()+of.Own+"/")
			}
			if got.Action != c.action || branch != c.branch || !strings.Contains(got.Why, c.why) {
				t.Errorf("got %s %q %q, want %s %q %q", got.Action, branch, got.Why, c.action, c.branch, c.why)
			}
		})
	}
}

// TestOutdated: what is too old is named, with when that will be.
func TestOutdated(t *testing.T) {
	spec := Spec{MaxAge: 30 * 24 * time.Hour}
	withdrawn := Alias{Name: "al2023@v1", Classes: []string{"a", "b"}, Withdrawn: true}
	got := Wanted(spec, []Alias{pinned("v20261001"), pinned("v20261120"), withdrawn}, now)
	want := []string{
		"EC2NodeClass/default: the AMIs of alias al2023@v20261001 are of 2026-10-01, and older than spec.images.maxAge",
		"EC2NodeClass/a, EC2NodeClass/b: AWS publishes no AMI for alias al2023@v1",
	}
	if diff := cmp.Diff(want, got.Outdated); diff != "" {
		t.Error(diff)
	}
	if want := day("v20261220").Add(time.Second); !got.Again.Equal(want) {
		t.Errorf("again at %s, want %s", got.Again, want)
	}
}

// TestNamesOf: no two trains share a name, and no branch is too long.
func TestNamesOf(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []Names{NamesOf("a", "b", ""), NamesOf("a", "b", "g"), NamesOf("a", "b-c", "g"), NamesOf(strings.Repeat("x", 200), "b", ""), NamesOf(strings.Repeat("x", 200), "c", "")} {
		if branch := n.Branch(Proposal{Key: "k"}); seen[branch] || len(branch) > 250 {
			t.Errorf("branch %s", branch)
		} else {
			seen[branch] = true
		}
	}
	if NamesOf("a", "b", "g").owns("plumbline/images/g/a_b-c/k") {
		t.Error("another NodeSync's branch is its own")
	}
	long := Proposal{}
	for _, family := range []string{"al2", "al2023", "bottlerocket", "windows2019", "windows2022"} {
		long.Replace = append(long.Replace, Replacement{To: family + "@v" + strings.Repeat("1", 30)})
	}
	if key := long.key(); len(key) > maxKey+10 {
		t.Errorf("key %s", key)
	}
}
