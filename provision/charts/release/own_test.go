package release

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/plumbline-dev/plumbline/manifests"
)

// TestOwnChart: the program contains the whole chart, at its own version.
func TestOwnChart(t *testing.T) {
	files, err := fs.Sub(manifests.Chart, "chart")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string][2]string{
		"v1.2.3": {"v1.2.3", "1.2.3"}, "v1.2.3-4-g1d14155": {"v1.2.3-4-g1d14155", "1.2.3-4-g1d14155"},
		"dev": {"dev", "0.0.0-dev"}, "": {"dev", "0.0.0-dev"},
		"1d14155116": {"1d14155116", "0.0.0-dev"}, "1234567": {"1234567", "0.0.0-dev"}, "1d14155116-dirty": {"1d14155116-dirty", "0.0.0-dev"},
	} {
		loaded, err := Own{Files: files, Version: version}.load()
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{loaded.Metadata.AppVersion, loaded.Metadata.Version}; got != want || len(loaded.Templates) < 10 || loaded.Schema == nil {
			t.Errorf("%q: %s, %d templates", version, got, len(loaded.Templates))
		}
		helpers := false
		for _, file := range loaded.Templates {
			helpers = helpers || file.Name == "templates/_helpers.tpl"
		}
		if !helpers {
			t.Error("templates/_helpers.tpl is missing: go:embed leaves out names with an underscore without all:")
		}
	}
}

// TestOwnOvertaken: another run that has created the revision in the meantime is waited for, as one that was there before.
func TestOwnOvertaken(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	o := Own{Now: func() time.Time { return now }}
	var busy *BusyError
	for _, err := range []error{
		fmt.Errorf("create: %w", driver.ErrReleaseExists), errors.New("another operation (install/upgrade/rollback) is in progress"),
	} {
		if got := o.busy(2, err); !errors.As(got, &busy) || busy.Revision != 2 || !busy.Until.Equal(now.Add(ownTimeout)) {
			t.Errorf("%v: got %v", err, got)
		}
	}
	for _, err := range []error{nil, errors.New("timed out waiting for the condition")} {
		if got := o.busy(2, err); !errors.Is(got, err) {
			t.Errorf("%v: got %v", err, got)
		}
	}
}
