package release

import (
	"errors"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

func TestNextStep(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	tests := map[string]struct {
		release Release
		step    Step
		err     any
	}{
		"nothing there":            {Release{Status: Absent}, Install, nil},
		"as it should be":          {Release{Status: Deployed, Mark: want}, Keep, nil},
		"other values":             {Release{Status: Deployed, Mark: Mark{"1.14.1", "d", "w"}}, Upgrade, nil},
		"other chart":              {Release{Status: Deployed, Mark: Mark{"1.14.1", "e", "v"}}, Upgrade, nil},
		"the same, made by hand":   {Release{Status: Deployed, Mark: want, Edited: true}, Upgrade, nil},
		"failed":                   {Release{Status: Failed, Mark: want}, Upgrade, nil},
		"killed at it":             {Release{Status: Pending, Mark: want, Since: now}, Recover, nil},
		"somebody is at it":        {Release{Status: Pending, Edited: true, Since: now.Add(-time.Minute)}, "", new(*BusyError)},
		"somebody was killed at":   {Release{Status: Pending, Edited: true, Since: now.Add(-time.Hour)}, Recover, nil},
		"newer CRDs stay":          {Release{Name: charts.CRDChart, Status: Deployed, Mark: Mark{"1.15.0_b.1", "e", "v"}}, Keep, nil},
		"newer CRDs by hand stay":  {Release{Name: charts.CRDChart, Status: Deployed, Edited: true, Mark: Mark{"1.15.0", "d", "v"}}, Keep, nil},
		"older CRDs do not":        {Release{Name: charts.CRDChart, Status: Deployed, Mark: Mark{"1.9.0", "e", "v"}}, Upgrade, nil},
		"newer, but not CRDs":      {Release{Name: charts.ControllerChart, Status: Deployed, Mark: Mark{"1.15.0", "e", "v"}}, Upgrade, nil},
		"somebody else's":          {Release{Status: Deployed, Foreign: true}, "", new(*survey.ForeignReleaseError)},
		"somebody else's, pending": {Release{Status: Pending, Foreign: true}, "", new(*survey.ForeignReleaseError)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := nextStep(test.release, want, false, now)
			if step != test.step {
				t.Errorf("Decide() = %q, want %q", step, test.step)
			}
			if (test.err == nil) != (err == nil) || (err != nil && !errors.As(err, test.err)) {
				t.Errorf("Decide() error = %v, want %T", err, test.err)
			}
		})
	}
}

func TestNextStepToAdopt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	theirs := func(name string, status Status, version string, age time.Duration) Release {
		return Release{Name: name, Status: status, Foreign: true, Edited: true, Mark: Mark{Version: version}, Since: now.Add(-age)}
	}
	tests := map[string]struct {
		release Release
		step    Step
		err     any
	}{
		"of the same version":        {theirs(charts.ControllerChart, Deployed, "1.14.1", 0), Adopt, nil},
		"older":                      {theirs(charts.CRDChart, Deployed, "1.8.6", 0), Adopt, nil},
		"newer":                      {theirs(charts.ControllerChart, Deployed, "1.15.0", 0), Adopt, nil},
		"newer CRDs stay":            {theirs(charts.CRDChart, Deployed, "1.15.0", 0), Keep, nil},
		"newer CRDs that failed":     {theirs(charts.CRDChart, Failed, "1.15.0", 0), Keep, nil},
		"failed":                     {theirs(charts.ControllerChart, Failed, "1.8.6", 0), Adopt, nil},
		"they are at it":             {theirs(charts.ControllerChart, Pending, "1.8.6", time.Minute), "", new(*BusyError)},
		"they were killed at it":     {theirs(charts.ControllerChart, Pending, "1.8.6", time.Hour), Recover, nil},
		"nothing there":              {Release{Status: Absent}, Install, nil},
		"ours, as it should be":      {Release{Status: Deployed, Mark: want}, Keep, nil},
		"ours, after somebody's own": {Release{Status: Deployed, Mark: want, Edited: true}, Upgrade, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := nextStep(test.release, want, true, now)
			if step != test.step {
				t.Errorf("Decide() = %q, want %q", step, test.step)
			}
			if (test.err == nil) != (err == nil) || (err != nil && !errors.As(err, test.err)) {
				t.Errorf("Decide() error = %v, want %T", err, test.err)
			}
		})
	}
}
