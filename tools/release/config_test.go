package release_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
	"golang.org/x/mod/modfile"
)

func load(t *testing.T) config.Project {
	t.Helper()
	project, err := config.Load("../../.goreleaser.yaml") // unknown fields are errors
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPlatforms: a release is built for the platforms in the Makefile.
func TestPlatforms(t *testing.T) {
	named := regexp.MustCompile(`(?m)^PLATFORMS := (.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if named == nil {
		t.Fatal("the Makefile names no platforms")
	}
	var built []string
	for _, target := range load(t).Builds[0].Targets {
		parts := strings.Split(target, "_")
		built = append(built, parts[0]+"/"+parts[1])
	}
	if want := strings.Fields(named[1]); !slices.Equal(want, built) {
		t.Errorf("built for %v, and the Makefile has %v", built, want)
	}
}

// TestTheSecondBuildIsTheFirst: with other flags, no binary would be reproducible.
func TestTheSecondBuildIsTheFirst(t *testing.T) {
	build, again := load(t).Builds[0], read(t, ".ci/release-again")
	flags := strings.Join(build.Flags, " ") + ` -ldflags "` + strings.ReplaceAll(build.Ldflags[0], "v{{ .Version }}", "$4") + `"`
	if !strings.Contains(again, "go build "+flags) || !strings.Contains(again, build.Env[0]) {
		t.Errorf(".ci/release-again does not build with %s %s", build.Env[0], flags)
	}
	if len(build.Hooks.Post) != 1 || !strings.HasPrefix(build.Hooks.Post[0].Cmd, ".ci/release-again ") {
		t.Errorf("no binary is built twice: %+v", build.Hooks)
	}
}

// TestWhatAReleaseHas: everything that documents promise about it is configured.
func TestWhatAReleaseHas(t *testing.T) {
	p := load(t)
	var inArchives []string
	for _, file := range p.Archives[0].Files {
		inArchives = append(inArchives, file.Source)
	}
	for _, want := range []string{"LICENSE", ".release/completions/*", ".release/man/*"} {
		if !slices.Contains(inArchives, want) {
			t.Errorf("archives have no %s", want)
		}
	}
	const chart = ".release/plumbline-*.tgz"
	if p.Checksum.ExtraFiles[0].Glob != chart || p.Release.ExtraFiles[0].Glob != chart {
		t.Error("the chart is not released, or has no checksum")
	}
	if len(p.SBOMs) != 2 || p.Signs[0].Artifacts != "checksum" || p.Krews[0].Name != "plumbline" {
		t.Errorf("bills %+v, signatures %+v, krew %+v", p.SBOMs, p.Signs, p.Krews)
	}
	if p.Signs[1].Artifacts != "checksum" || p.Signs[1].Args[0] != ".ci/release-provenance" || !strings.Contains(read(t, ".ci/release"), ".ci/release-provenance snapshot dist/checksums.txt ") {
		t.Errorf("provenance is not made: %+v", p.Signs)
	}
	if script := read(t, ".ci/release"); !strings.Contains(script, "-C manifests/image") || !strings.Contains(script, ".ci/release-sign sign ") {
		t.Error("the image is not made, or not signed")
	}
}

// TestScriptsOfARelease exist and are executable.
func TestScriptsOfARelease(t *testing.T) {
	found := regexp.MustCompile(`\.ci/release[a-z-]*`).FindAllString(read(t, ".goreleaser.yaml")+read(t, "Makefile"), -1)
	if len(found) < 5 {
		t.Fatalf("%v", found)
	}
	for _, script := range found {
		info, err := os.Stat("../../" + script)
		if err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", script, err)
		}
	}
}

// TestReplacements: what is built is named by the bill of materials and by the check for vulnerabilities only if a
// module is replaced by a version of its own, and not by a fork or a folder.
func TestReplacements(t *testing.T) {
	file, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, replaced := range file.Replace {
		if replaced.New.Path != replaced.Old.Path || replaced.New.Version == "" {
			t.Errorf("%s is replaced by %s", replaced.Old, replaced.New)
		}
	}
}
