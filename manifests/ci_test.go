package manifests

import (
	"os"
	"strings"
	"testing"
)

// TestWhatIsLinkedIsChecked: CI and a release run the checks that docs/explanation/threat-model.md lists.
func TestWhatIsLinkedIsChecked(t *testing.T) {
	for file, words := range map[string][]string{
		"../.ci/run":           {"make test", "make verify licences vulncheck"},
		"../.goreleaser.yaml":  {".ci/release-again", ".ci/release-sbom", "sign-blob", "name_template: checksums.txt"},
		"../.ci/release-again": {`cmp "$1" "$work/again"`},
		"../.ci/release-sbom":  {"./sbom"},
		"../Makefile":          {"@.ci/vulncheck --strict", "@COLD=1 .ci/release publish", `release-snapshot PLATFORMS="$$(go env GOOS)/$$(go env GOARCH)"`, "go mod verify"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s does not have %q", file, word)
			}
		}
	}
}
