package promotion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// now is the time in these tests: a Monday, 12:00.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

const fleetFile = `apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters:
- {name: dev}
- {name: qa}
- {name: eu, labels: {stage: prod}}
- {name: us, labels: {stage: prod}}
rings:
- {name: canary, clusters: [dev]}
- {name: staging, clusters: [qa], soak: 1h, shortSoak: 10m}
- {name: prod, matchLabels: {stage: prod}, soak: 24h, shortSoak: 2h}
`

func parse(t *testing.T, text string) *promotion.Rings {
	t.Helper()
	rings, err := promotion.Parse(promotion.File, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rings
}

func of(cluster string) promotion.Member {
	return promotion.Member{Cluster: cluster, NodeSync: cluster}
}

// line returns commits, each the parent of the next one.
func line(rings *promotion.Rings, hashes ...string) []promotion.Commit {
	var all []promotion.Commit
	for i, hash := range hashes {
		c := promotion.Commit{Hash: hash, At: ago(100 * time.Hour), Rings: rings, Inputs: hash}
		if i > 0 {
			c.Parents = []string{hashes[i-1]}
		}
		all = append(all, c)
	}
	return all
}

func verdict(commit string, state promotion.State, nodes int, since time.Duration) promotion.Verdict {
	return promotion.Verdict{Commit: commit, State: state, Effect: promotion.Effect{Nodes: nodes, Of: 100}, Since: ago(since)}
}

func reports(cluster string, verdicts ...promotion.Verdict) promotion.Standing {
	return promotion.Standing{Record: &promotion.Record{Cluster: cluster, NodeSync: cluster, Serial: 1, At: now, Verdicts: verdicts}}
}

// gateCase is a question of a cluster, and the answer.
type gateCase struct {
	file    string // default: fleetFile
	change  func(commits []promotion.Commit)
	tip     string // default: the last of a, b, c
	me      string // default: eu
	minSoak time.Duration
	applied string // default: a
	records map[string]promotion.Standing
	want    string
	by      promotion.Passed
	waits   string // REASON RING MEMBERS, of the newest commit
	until   time.Time
	err     string
}

func TestGate(t *testing.T) {
	ok := func(commit string, nodes int, since time.Duration) promotion.Verdict {
		return verdict(commit, promotion.Succeeded, nodes, since)
	}
	both := func(v ...promotion.Verdict) map[string]promotion.Standing {
		return map[string]promotion.Standing{"dev": reports("dev", v...), "qa": reports("qa", v...)}
	}
	turns := strings.Replace(fleetFile, "shortSoak: 2h", "shortSoak: 2h, maxClusters: 1", 1)
	cases := map[string]gateCase{
		"the first ring takes each commit at once": {me: "dev", want: "c", by: promotion.PassedRings},
		"a later ring waits for the first": {
			records: map[string]promotion.Standing{"dev": reports("dev"), "qa": reports("qa")}, want: "a", waits: "WaitsForRing canary dev",
		},
		"every ring before counts, not only the last": {
			records: map[string]promotion.Standing{"dev": reports("dev"), "qa": reports("qa", ok("c", 0, time.Hour))},
			want:    "a", waits: "WaitsForRing canary dev",
		},
		"a change of no node needs no soak":    {records: both(ok("c", 0, time.Minute)), want: "c", by: promotion.PassedRings},
		"a change of few nodes soaks shortly":  {records: both(ok("c", 1, time.Hour)), want: "a", waits: "Soaking canary", until: now.Add(time.Hour)},
		"a change of few nodes has soaked":     {records: both(ok("c", 1, 3*time.Hour)), want: "c", by: promotion.PassedRings},
		"a change of many nodes soaks longer":  {records: both(ok("c", 25, 3*time.Hour)), want: "a", waits: "Soaking canary", until: now.Add(21 * time.Hour)},
		"what the newest contains soaks too":   {records: both(ok("c", 0, time.Minute), ok("b", 1, time.Hour)), want: "a", waits: "Soaking canary", until: now.Add(time.Hour)},
		"what is applied does not soak again":  {applied: "b", records: both(ok("c", 0, time.Minute), ok("b", 1, time.Hour)), want: "c", by: promotion.PassedRings},
		"an older commit that has soaked goes": {records: both(ok("c", 1, time.Minute), ok("b", 1, 3*time.Hour)), want: "b", by: promotion.PassedRings, waits: "Soaking canary", until: now.Add(119 * time.Minute)},
		"a success on a descendant counts": {
			records: map[string]promotion.Standing{"dev": reports("dev", ok("c", 0, time.Hour)), "qa": reports("qa", ok("b", 0, time.Hour))},
			want:    "b", by: promotion.PassedRings, waits: "WaitsForRing staging qa",
		},
		"a commit that was never run is not promoted": {
			records: map[string]promotion.Standing{
				"dev": reports("dev", ok("c", 0, time.Hour)), "qa": reports("qa", ok("c", 0, time.Hour)), "us": reports("us", verdict("c", promotion.Failed, 1, 0)),
			},
			want: "a", waits: "FailedInRing prod us",
		},
		"a failure of the commit itself counts": {
			records: map[string]promotion.Standing{
				"dev": reports("dev", ok("c", 0, time.Hour), verdict("b", promotion.Failed, 1, 2*time.Hour)),
				"qa":  reports("qa", ok("b", 0, 3*time.Hour)),
			},
			want: "a", waits: "WaitsForRing staging qa",
		},
		"a failure that is not listed any more counts": {
			records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["dev"].Record.Unlisted = []string{"b"}
				all["qa"].Record.Verdicts = []promotion.Verdict{ok("b", 0, time.Hour)}
				return all
			}(),
			want: "a", waits: "WaitsForRing staging qa",
		},
		"a silent cluster blocks and is named": {
			records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, 3*time.Hour))
				all["dev"].Record.At = ago(2 * time.Hour)
				return all
			}(),
			want: "a", waits: "ClusterSilent canary dev",
		},
		"a record that proves nothing blocks": {
			records: map[string]promotion.Standing{"dev": {Problem: "forged"}, "qa": reports("qa", ok("c", 0, time.Hour))},
			want:    "a", waits: "ClusterSilent canary dev",
		},
		"the floor of the NodeSync": {minSoak: 2 * time.Hour, records: both(ok("c", 0, time.Hour)), want: "a", waits: "Soaking canary", until: now.Add(time.Hour)},
		"the floor, and no ring before": {
			me: "dev", minSoak: time.Hour, want: "a", waits: "NothingBefore canary",
		},
		"an emergency bypasses the soak": {
			change:  func(c []promotion.Commit) { c[2].Emergency = "alice" },
			records: both(ok("c", 50, time.Minute)), minSoak: time.Hour, want: "c", by: promotion.PassedEmergency,
		},
		"an emergency skips no ring": {
			change:  func(c []promotion.Commit) { c[2].Emergency = "alice" },
			records: map[string]promotion.Standing{"dev": reports("dev", ok("c", 0, 0)), "qa": reports("qa")}, want: "a", waits: "WaitsForRing staging qa",
		},
		"a revert of what the cluster has": {
			change:  func(c []promotion.Commit) { c[2].Inputs = "a" },
			applied: "b", records: map[string]promotion.Standing{"eu": reports("eu", verdict("b", promotion.InProgress, 9, 0), ok("a", 0, time.Hour))},
			want: "c", by: promotion.PassedRevert,
		},
		"a revert that changes the rings has to pass them": {
			change: func(c []promotion.Commit) {
				c[2].Inputs, c[2].Rings = "a", parse(t, strings.Replace(fleetFile, "soak: 24h", "soak: 23h", 1))
			},
			applied: "b", records: map[string]promotion.Standing{
				"dev": reports("dev"), "qa": reports("qa"), "eu": reports("eu", verdict("b", promotion.InProgress, 9, 0), ok("a", 0, time.Hour)),
			},
			want: "b", waits: "WaitsForRing canary dev",
		},
		"a pause does not hinder a revert": {
			change: func(c []promotion.Commit) {
				c[2].Inputs, c[2].Rings = "a", parse(t, strings.Replace(fleetFile, "{name: prod,", "{name: prod, paused: incident,", 1))
			},
			applied: "b", records: map[string]promotion.Standing{"eu": reports("eu", verdict("b", promotion.InProgress, 9, 0), ok("a", 0, time.Hour))},
			want: "c", by: promotion.PassedRevert,
		},
		"a revert vouches for nothing that it undoes": {
			records: func() map[string]promotion.Standing {
				undone := ok("c", 0, time.Hour)
				undone.Reverted = true
				return map[string]promotion.Standing{
					"dev": reports("dev", verdict("c", promotion.Failed, 0, time.Hour), ok("b", 0, 2*time.Hour)), "qa": reports("qa", undone),
				}
			}(),
			want: "a", waits: "FailedInRing canary dev",
		},
		"what failed here is not taken again": {
			records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["eu"] = reports("eu", verdict("c", promotion.Failed, 1, time.Hour))
				return all
			}(),
			want: "a", waits: "FailedInRing prod eu",
		},
		"each ring directly before has run it": {
			records: map[string]promotion.Standing{
				"dev": reports("dev", verdict("c", promotion.Failed, 0, time.Hour), ok("b", 0, 2*time.Hour)), "qa": reports("qa", ok("c", 0, time.Hour)),
			},
			want: "a", waits: "FailedInRing canary dev",
		},
		"a return to what failed is no revert": {
			change:  func(c []promotion.Commit) { c[2].Inputs = "a" },
			applied: "b", records: map[string]promotion.Standing{
				"dev": reports("dev"), "qa": reports("qa"), "eu": reports("eu", verdict("a", promotion.Failed, 9, 0)),
			},
			want: "b", waits: "WaitsForRing canary dev",
		},
		"a forced push skips no ring": {
			change:  func(c []promotion.Commit) { c[2].Parents = nil },
			applied: "b", records: both(ok("b", 0, 30*time.Hour)), want: "b", waits: "WaitsForRing canary dev",
		},
		"a forced push back to what was verified": {
			tip: "a", applied: "b", records: both(ok("b", 0, time.Hour), ok("a", 0, 30*time.Hour)), want: "a", by: promotion.PassedRings,
		},
		"a commit does not change its own gate": {
			change: func(c []promotion.Commit) {
				c[2].Rings = parse(t, strings.NewReplacer("clusters: [dev]", "clusters: [dev, eu]", ", labels: {stage: prod}}\n- {name: us", "}\n- {name: us").Replace(fleetFile))
			},
			records: map[string]promotion.Standing{"dev": reports("dev"), "qa": reports("qa")}, want: "a", waits: "WaitsForRing canary dev",
		},
		"a pause applies at once": {
			change: func(c []promotion.Commit) {
				c[2].Rings = parse(t, strings.Replace(fleetFile, "{name: prod,", "{name: prod, paused: incident,", 1))
			},
			records: both(ok("c", 0, time.Hour)), want: "a", waits: "RingPaused prod",
		},
		"invalid rings are not taken": {
			change:  func(c []promotion.Commit) { c[2].Rings, c[2].Invalid = nil, errors.New("rings.yaml:3: wrong") },
			records: both(ok("c", 0, time.Hour), ok("b", 0, time.Hour)), want: "b", by: promotion.PassedRings, waits: "RingsInvalid",
		},
		"a silent cluster that an earlier commit retired": {
			change: func(c []promotion.Commit) {
				c[1].Rings = parse(t, strings.NewReplacer("- {name: qa}\n", "", "- {name: staging, clusters: [qa], soak: 1h, shortSoak: 10m}\n", "").Replace(fleetFile))
			},
			records: map[string]promotion.Standing{"dev": reports("dev", ok("c", 0, time.Hour))}, want: "c", by: promotion.PassedRings,
		},
		"the commit that retires it waits for it": {
			tip: "b", change: func(c []promotion.Commit) {
				c[1].Rings = parse(t, strings.NewReplacer("- {name: qa}\n", "", "- {name: staging, clusters: [qa], soak: 1h, shortSoak: 10m}\n", "").Replace(fleetFile))
			},
			records: map[string]promotion.Standing{"dev": reports("dev", ok("b", 0, time.Hour))}, want: "a", waits: "ClusterSilent staging qa",
		},
		"a failure in a ring before counts also if enough others have succeeded": {
			file: strings.NewReplacer("- {name: qa}\n", "- {name: qa}\n- {name: qb}\n", "clusters: [qa],", "clusters: [qa, qb], atLeast: 50%,").Replace(fleetFile),
			records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["qb"] = reports("qb", verdict("c", promotion.Failed, 1, 0))
				return all
			}(),
			want: "a", waits: "FailedInRing staging qb",
		},
		"a cluster of the own ring failed": {
			records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["us"] = reports("us", verdict("c", promotion.Failed, 1, 0))
				return all
			}(),
			want: "a", waits: "FailedInRing prod us",
		},
		"one cluster at a time, furthest behind first": {
			file: turns, me: "us", records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["eu"], all["us"] = reports("eu", ok("a", 0, 3*time.Hour)), reports("us", ok("a", 0, 2*time.Hour))
				return all
			}(),
			want: "a", waits: "WaitsForTurn prod eu",
		},
		"the next cluster, once the first is done": {
			file: turns, me: "us", records: func() map[string]promotion.Standing {
				all := both(ok("c", 0, time.Hour))
				all["eu"], all["us"] = reports("eu", ok("c", 0, 0)), reports("us", ok("a", 0, 2*time.Hour))
				return all
			}(),
			want: "c", by: promotion.PassedRings,
		},
		"outside the windows": {
			file:    strings.Replace(fleetFile, "shortSoak: 2h", `shortSoak: 2h, windows: [{schedule: "0 22 * * *", duration: 2h}]`, 1),
			records: both(ok("c", 0, time.Hour)), want: "a", waits: "WindowClosed prod", until: now.Add(10 * time.Hour),
		},
		"a new cluster takes what was verified": {applied: "-", records: both(ok("b", 0, time.Hour)), want: "b", by: promotion.PassedRings, waits: "WaitsForRing canary dev"},
		"a cluster in no ring":                  {me: "ap", want: "a", err: "in no ring"},
		"a commit adds the cluster to a ring": {
			me: "ap", change: func(c []promotion.Commit) {
				c[1].Rings = parse(t, strings.Replace(fleetFile, "- {name: us,", "- {name: ap, labels: {stage: prod}}\n- {name: us,", 1))
				c[2].Rings = c[1].Rings
			},
			records: both(ok("c", 0, time.Hour)), want: "c", by: promotion.PassedRings,
		},
		"a commit adds the cluster to a ring, which has to wait for the others": {
			me: "ap", change: func(c []promotion.Commit) {
				c[1].Rings = parse(t, strings.Replace(fleetFile, "- {name: us,", "- {name: ap, labels: {stage: prod}}\n- {name: us,", 1))
				c[2].Rings = c[1].Rings
			},
			records: map[string]promotion.Standing{"dev": reports("dev"), "qa": reports("qa")}, want: "a", waits: "WaitsForRing canary dev",
		},
		"the applied commit is unknown": {applied: "z", want: "z", err: "not in the fetched history"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func (c gateCase) run(t *testing.T) {
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	commits := line(parse(t, or(c.file, fleetFile)), "a", "b", "c")
	if c.change != nil {
		c.change(commits)
	}
	records := promotion.Records{}
	for cluster, standing := range c.records {
		records[of(cluster)] = standing
	}
	applied := strings.TrimPrefix(or(c.applied, "a"), "-")
	me := or(c.me, "eu")
	ring := map[string]string{"dev": "canary", "qa": "staging"}[me]
	view := promotion.NewView(promotion.NewHistory(or(c.tip, "c"), commits), records, now)
	got, err := view.Gate(of(me), promotion.Floor{Ring: or(ring, "prod"), MinSoak: c.minSoak}, applied)
	if c.err != "" || err != nil {
		if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
			t.Fatalf("error %v, want %q", err, c.err)
		}
	}
	waits, until := "", time.Time{}
	if len(got.Waits) > 0 {
		w := got.Waits[0]
		words := []string{string(w.Reason), w.Ring}
		for _, m := range w.Members {
			words = append(words, m.Cluster)
		}
		waits, until = strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "), w.Until
		if w.Message == "" || w.Commit == "" {
			t.Errorf("a wait without a message or a commit: %+v", w)
		}
	}
	type answer struct{ Commit, By, Waits, Until string }
	want := answer{c.want, string(c.by), c.waits, c.until.String()}
	if d := cmp.Diff(want, answer{got.Commit, string(got.By), waits, until.String()}); d != "" {
		t.Errorf("-want +got:\n%s%+v", d, got.Waits)
	}
}

// TestMovedClusterThatFailed: a cluster that moves to the next ring, and fails on that commit, takes the correction without
// those that wait for it, and they take it once it has succeeded. A failure frees nobody from it.
func TestMovedClusterThatFailed(t *testing.T) {
	moved := parse(t, strings.NewReplacer("- {name: qa}", "- {name: qa, labels: {stage: prod}}", "- {name: staging, clusters: [qa], soak: 1h, shortSoak: 10m}\n", "").Replace(fleetFile))
	commits := line(parse(t, fleetFile), "a", "b", "c")
	commits[1].Rings, commits[2].Rings = moved, moved
	failed := verdict("b", promotion.Failed, 1, 30*time.Hour)
	records := promotion.Records{of("dev"): reports("dev", verdict("c", promotion.Succeeded, 0, time.Hour)), of("qa"): reports("qa", failed)}
	for _, c := range []struct {
		me, applied, want string
		qa                []promotion.Verdict
	}{
		{"eu", "a", "a", []promotion.Verdict{failed}},
		{"qa", "b", "c", []promotion.Verdict{failed}},
		{"eu", "a", "c", []promotion.Verdict{verdict("c", promotion.Succeeded, 0, time.Minute), failed}},
	} {
		records[of("qa")] = reports("qa", c.qa...)
		got, err := promotion.NewView(promotion.NewHistory("c", commits), records, now).Gate(of(c.me), promotion.Floor{Ring: "prod"}, c.applied)
		if err != nil || got.Commit != c.want {
			t.Errorf("%s takes %+v, %v, want %s", c.me, got, err, c.want)
		}
	}
}

// TestRevertToAnOlderState: only a return to the newest state before is a revert; what is older goes through the rings.
func TestRevertToAnOlderState(t *testing.T) {
	for inputs, want := range map[string]string{"b": "d", "a": "c"} {
		commits := line(parse(t, fleetFile), "a", "b", "c", "d")
		commits[3].Inputs = inputs
		records := promotion.Records{
			of("dev"): reports("dev"), of("qa"): reports("qa"),
			of("eu"): reports("eu", verdict("c", promotion.Succeeded, 1, time.Hour), verdict("b", promotion.Succeeded, 1, 2*time.Hour), verdict("a", promotion.Succeeded, 1, 3*time.Hour)),
		}
		got, err := promotion.NewView(promotion.NewHistory("d", commits), records, now).Gate(of("eu"), promotion.Floor{Ring: "prod"}, "c")
		if err != nil || got.Commit != want {
			t.Errorf("with the definitions of %s: took %+v, %v, want %s", inputs, got, err, want)
		}
	}
}

// TestRingsOfAFailedCommit: the rings.yaml of a commit that no cluster of the rings before has succeeded on decides about
// no later one.
func TestRingsOfAFailedCommit(t *testing.T) {
	rings := parse(t, strings.Replace(fleetFile, "soak: 24h", `soak: 24h, windows: [{schedule: "0 0 1 1 *", duration: 1h}]`, 1))
	turned := parse(t, strings.NewReplacer("- {name: prod,", "- {name: prod, after: [],", "clusters: [dev]}", "clusters: [dev], after: [prod]}").Replace(fleetFile))
	commits := line(rings, "a", "b", "c")
	commits[1].Rings, commits[2].Rings = turned, turned
	for name, dev := range map[string]promotion.Standing{
		"failed":           reports("dev", verdict("b", promotion.Failed, 1, 50*time.Hour)),
		"a short silence":  {Record: &promotion.Record{Cluster: "dev", NodeSync: "dev", At: ago(5 * time.Hour), Verdicts: []promotion.Verdict{verdict("a", promotion.Succeeded, 0, 50*time.Hour)}}},
		"succeeded lately": reports("dev", verdict("b", promotion.Succeeded, 1, time.Hour)),
		"deleted":          {Problem: "the record was deleted"},
	} {
		records := promotion.Records{of("dev"): dev, of("qa"): reports("qa", verdict("b", promotion.Succeeded, 1, time.Hour))}
		got, err := promotion.NewView(promotion.NewHistory("c", commits), records, now).Gate(of("eu"), promotion.Floor{Ring: "prod"}, "a")
		if err != nil || got.Commit != "a" {
			t.Errorf("%s: took %+v, %v", name, got, err)
		}
	}
}

// TestSoakDoesNotStartAgain: commits that follow each other faster than the soak do not stop the promotion.
func TestSoakDoesNotStartAgain(t *testing.T) {
	rings := parse(t, fleetFile)
	var hashes []string
	records := map[string]promotion.Record{"dev": {Cluster: "dev", NodeSync: "dev"}, "qa": {Cluster: "qa", NodeSync: "qa"}}
	applied, start := "c0", now
	for i := range 4 * 24 * 60 / 5 {
		at := start.Add(time.Duration(i) * 5 * time.Minute)
		hashes = append(hashes, fmt.Sprint("c", i))
		standings := promotion.Records{}
		for name, r := range records {
			r = r.Next(promotion.Verdict{Commit: hashes[i], State: promotion.Succeeded, Effect: promotion.Effect{Nodes: 50, Of: 100}}, at)
			records[name], standings[of(name)] = r, promotion.Standing{Record: &r}
		}
		if i%12 > 0 {
			continue
		}
		view := promotion.NewView(promotion.NewHistory(hashes[i], line(rings, hashes...)), standings, at)
		got, err := view.Gate(of("eu"), promotion.Floor{Ring: "prod"}, applied)
		if err != nil {
			t.Fatal(err)
		}
		applied = got.Commit
	}
	if taken := slices.Index(hashes, applied); taken < len(hashes)-26*12 { // the soak of 24 h, and two hours
		t.Errorf("of %d commits, number %d was taken last", len(hashes), taken)
	}
	if n := len(records["dev"].Verdicts); n > 200 {
		t.Errorf("the record lists %d verdicts", n)
	}
}

// TestDeadPeer: a cluster of the own ring that is silent, or has never reported, takes no turn from the others.
func TestDeadPeer(t *testing.T) {
	commits := line(parse(t, strings.Replace(fleetFile, "{name: prod,", "{name: prod, maxClusters: 1,", 1)), "a", "b")
	rolls := verdict("b", promotion.InProgress, 1, 5*time.Hour)
	for name, c := range map[string]struct {
		us   promotion.Standing
		want string
	}{
		"it rolls out":           {reports("us", rolls), "a"},
		"it died in its rollout": {promotion.Standing{Record: &promotion.Record{Cluster: "us", NodeSync: "us", At: ago(5 * time.Hour), Verdicts: []promotion.Verdict{rolls}}}, "b"},
		"it has never reported":  {promotion.Standing{}, "b"},
	} {
		records := promotion.Records{of("us"): c.us, of("eu"): reports("eu", verdict("a", promotion.Succeeded, 0, 40*time.Hour))}
		for _, before := range []string{"dev", "qa"} {
			records[of(before)] = reports(before, verdict("b", promotion.Succeeded, 1, 30*time.Hour))
		}
		got, err := promotion.NewView(promotion.NewHistory("b", commits), records, now).Gate(of("eu"), promotion.Floor{Ring: "prod"}, "a")
		if err != nil || got.Commit != c.want {
			t.Errorf("%s: took %+v, %v", name, got, err)
		}
	}
}
