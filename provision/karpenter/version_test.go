package karpenter

import (
	"errors"
	"testing"

	"github.com/Masterminds/semver/v3"
)

func mustParse(t *testing.T, version string) *semver.Version {
	t.Helper()
	v, err := parse(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"1.14.1": "1.14.1", "v0.31.4": "0.31.4", "1.15.0-rc.1": "1.15.0-rc.1",
		"1.14": "", "": "", "v": "", "latest": "", "1.x": "", ">=1.0.0": "", "1.14.1 ": "",
	} {
		v, err := parse(text)
		var bad *VersionError
		switch {
		case want == "" && !errors.As(err, &bad):
			t.Errorf("%q: %v, %v", text, v, err)
		case want != "" && (err != nil || v.String() != want):
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}

// TestTablesAreInOrder: at and between read them from the top.
func TestTablesAreInOrder(t *testing.T) {
	inOrder := func(name string, since []string) {
		for i := 1; i < len(since); i++ {
			if mustParse(t, since[i]).LessThan(mustParse(t, since[i-1])) {
				t.Errorf("%s: %s after %s", name, since[i], since[i-1])
			}
		}
		if last := mustParse(t, since[len(since)-1]); last.GreaterThan(mustParse(t, newest)) {
			t.Errorf("%s: %s is newer than %s", name, last, newest)
		}
	}
	inOrder("kubernetes", column(kubernetes))
	inOrder("permissions", column(permissions))
	inOrder("changes", column(changes))
	inOrder("NodePool hash", column(nodePoolHash))
	inOrder("EC2NodeClass hash", column(ec2NodeClassHash))
	var since, least []string
	for _, s := range settings {
		since = append(since, s.Since)
	}
	for _, l := range lines {
		least = append(least, l.least, l.leave, l.stop)
	}
	inOrder("settings", since)
	inOrder("lines", least)
}

func column[T any](table []row[T]) []string {
	var since []string
	for _, r := range table {
		since = append(since, r.since)
	}
	return since
}

// TestOtherRelease: another build is none, and neither is what is no version.
func TestOtherRelease(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.14.1", "1.14.1"}: false, {"v1.14.1", "1.14.1-fips+2"}: false, {"1.14.0", "1.14.1"}: true, {"1.8.1", "1.14.1"}: true, {"2.14.1", "1.14.1"}: true,
		{"unknown", "1.14.1"}: false, {"1.14.1", ""}: false,
	} {
		if got := OtherRelease(pair[0], pair[1]); got != want {
			t.Errorf("%v: %t", pair, got)
		}
	}
}
