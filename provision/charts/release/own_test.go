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
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "dev": "dev", "": "dev"} {
		loaded, err := Own{Files: files, Version: version}.load()
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Metadata.AppVersion != want || len(loaded.Templates) < 10 || loaded.Schema == nil {
			t.Errorf("%q: %s, %d templates", version, loaded.Metadata.AppVersion, len(loaded.Templates))
		}
		helpers := false
		for _, file := range loaded.Templates {
			helpers = helpers || file.Name == "templates/_helpers.tpl"
		}
		if !helpers {
			t.Error("templates/_helpers.tpl is missing: go:embed leaves out names with an underscore without all:")
		}
	}
	if _, err := (Own{Files: files, Version: "not a version"}).load(); err == nil {
		t.Error("no error for a version that is none")
	}
}
