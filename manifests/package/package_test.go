package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// TestTheChartOfARelease: it has the release's version and image, all files of the chart, and the same bytes each time.
func TestTheChartOfARelease(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		folder := t.TempDir()
		if err := run("../chart", "v1.2.3", "ghcr.io/plumbline-dev/plumbline", "1700000000", folder); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(filepath.Join(folder, "plumbline-1.2.3.tgz")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of a chart differ")
	}
	packed, err := loader.LoadArchive(bytes.NewReader(archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	if packed.Metadata.Version != "1.2.3" || packed.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("version %s, appVersion %s", packed.Metadata.Version, packed.Metadata.AppVersion)
	}
	if image := packed.Values["image"].(map[string]any)["repository"]; image != "ghcr.io/plumbline-dev/plumbline" {
		t.Errorf("the image is %s", image)
	}
	plain, err := loader.LoadDir("../chart")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, file := range plain.Raw {
		want = append(want, file.Name)
	}
	for _, file := range packed.Raw {
		got = append(got, file.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-folder +archive):\n%s", diff)
	}
}

// TestChartsThatAreNone: an invalid version or time is refused.
func TestChartsThatAreNone(t *testing.T) {
	if err := run("../chart", "latest", "x", "0", t.TempDir()); err == nil {
		t.Error("a chart of the version latest was made")
	}
	if err := run("../chart", "v1.2.3", "x", "today", t.TempDir()); err == nil {
		t.Error("a chart of the time today was made")
	}
}
