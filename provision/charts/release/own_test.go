package release

import (
	"io/fs"
	"testing"

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
