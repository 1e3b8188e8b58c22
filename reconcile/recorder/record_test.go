package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
)

// realistic returns Records with names as in large clusters, with all fields set.
func realistic() []Record {
	var all []Record
	for _, pool := range []string{"default", "general-purpose-amd64", "team-payments-gpu-inference-spot"} {
		for _, region := range []string{"eu-west-1", "ap-southeast-2", "us-gov-west-1"} {
			for _, c := range causes {
				all = append(all, Record{
					NodeClaim: pool + "-x7k2p", Pool: pool, Node: "ip-192-168-114-231." + region + ".compute.internal", Instance: "i-0123456789abcdef0",
					InstanceType: "m7i-flex.metal-48xl", Zone: region + "a", CapacityType: "on-demand",
					Created: noon, Deleted: at(90 * 24 * time.Hour), Drained: at(90*24*time.Hour + time.Hour), VolumesDetached: at(90*24*time.Hour + time.Hour),
					InstanceTerminating: at(90*24*time.Hour + time.Hour), Gone: at(90*24*time.Hour + 2*time.Hour), Late: true,
					Cause: c.cause, Detail: "CapacityReservationInstanceInterrupted", Revision: "release/2026-11@sha1:" + strings.Repeat("a", 40), ByRevision: true, Pods: new(700),
				})
			}
		}
	}
	return all
}

func TestARecordIsSmall(t *testing.T) {
	longest := 0
	for i, record := range realistic() {
		line, err := record.format(1_000_000 + i)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(line)+1)
		_, got, err := parse(line)
		if diff := cmp.Diff(record, got); err != nil || diff != "" {
			t.Errorf("of %q: %v (-want +got):\n%s", line, err, diff)
		}
	}
	t.Logf("at most %d bytes", longest)
	if longest > 300 {
		t.Errorf("%d bytes, want at most 300", longest)
	}
}

// TestLongNamesAreKept checks that the detail is truncated instead.
func TestLongNamesAreKept(t *testing.T) {
	record := realistic()[0]
	record.Pool = strings.Repeat("p", 63)
	record.NodeClaim, record.Detail = record.Pool+"-x7k2p", strings.Repeat("d", 900)
	line, err := record.format(7)
	if err != nil || len(line) > maxLine {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	if _, got, err := parse(line); err != nil || got.Pool != record.Pool || got.Node != record.Node || got.Revision != record.Revision {
		t.Errorf("%+v: %v", got, err)
	}
}

// TestLinesAreRead checks that what is written can be parsed, whatever it contains.
func TestLinesAreRead(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab-\"\t\n/é,")), 0, 12, -1)
	property.Check(t, func(t *rapid.T) {
		record := Record{NodeClaim: text.Draw(t, "name"), Pool: text.Draw(t, "pool"), Node: text.Draw(t, "node"), Detail: text.Draw(t, "detail"), Created: noon, Cause: Drifted}
		line, err := record.format(3)
		if err != nil || strings.Contains(line, "\n") {
			t.Fatalf("%q: %v", line, err)
		}
		clean := strings.NewReplacer("\t", " ", "\n", " ")
		seq, got, err := parse(line)
		if err != nil || seq != 3 || got.NodeClaim != clean.Replace(record.NodeClaim) || got.Node != clean.Replace(record.Node) || got.Detail != clean.Replace(record.Detail) {
			t.Fatalf("%q is read as %+v: %v", line, got, err)
		}
	})
}

// FuzzParse checks parse, because other clients can write a ConfigMap.
func FuzzParse(f *testing.F) {
	f.Add("1\ta\tb")
	for i, record := range realistic()[:3] {
		line, err := record.format(i)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if _, record, err := parse(line); err == nil {
			if _, err := record.format(1); err != nil {
				t.Error(err)
			}
		}
		_ = parseSegment(line).String()
	})
}

// TestSegmentsStaySmall checks that each ConfigMap is smaller than 200 kB, even with the longest names that Kubernetes
// accepts in practice.
func TestSegmentsStaySmall(t *testing.T) {
	s := segment{}
	for seq := range defaultRing.slots {
		record := realistic()[0]
		record.Pool = strings.Repeat("p", 63)
		record.NodeClaim, record.Node = fmt.Sprintf("%s-%05d", record.Pool, seq), strings.Repeat("n", 253)
		line, err := record.format(seq)
		if err != nil {
			t.Fatal(err)
		}
		s.put(defaultRing, seq, line)
	}
	if size := len(s.String()); size > 200_000 || len(s) != defaultRing.slots {
		t.Errorf("%d lines, %d bytes", len(s), size)
	}
}
