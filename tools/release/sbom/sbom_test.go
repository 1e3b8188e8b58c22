package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
)

func example() contents {
	return contents{
		name: "plumbline_linux_amd64", sha256: strings.Repeat("ab", 32), created: time.Unix(1_700_000_000, 0).UTC(),
		main: component{path: "example.com/main", version: "v1.0.0", licence: "Apache-2.0"},
		components: []component{
			{path: "example.com/a", version: "v1.2.3", sum: strings.Repeat("cd", 32), licence: "MIT"},
			{path: "example.com/b", version: "v0.1.0"},
		},
	}
}

// TestBills can be read by the libraries that other tools use, and are reproducible.
func TestBills(t *testing.T) {
	text, err := cycloneDX(example())
	if err != nil {
		t.Fatal(err)
	}
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	parts := *bom.Components
	if len(parts) != 2 || parts[0].PackageURL != "pkg:golang/example.com/a@v1.2.3" || (*parts[0].Licenses)[0].License.ID != "MIT" || bom.Metadata.Component.Name != "plumbline_linux_amd64" {
		t.Errorf("CycloneDX: %s", text)
	}
	again, err := cycloneDX(example())
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same bill is written otherwise: %v", err)
	}

	text, err = spdxJSON(example())
	if err != nil {
		t.Fatal(err)
	}
	document, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(document.Packages) != 3 || document.Packages[1].PackageLicenseDeclared != "MIT" || document.Packages[2].PackageLicenseDeclared != "NOASSERTION" || len(document.Relationships) != 3 {
		t.Errorf("SPDX: %s", text)
	}
	again, err = spdxJSON(example())
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same bill is written otherwise: %v", err)
	}
}

// TestRun reads this test's own binary.
func TestRun(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	modules := filepath.Join(dir, "modules.json")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("LICENSE", "Permission is hereby granted")
	entry, err := json.Marshal(map[string]string{"Path": "github.com/CycloneDX/cyclonedx-go", "Version": "v1.0.0", "Dir": dir})
	if err != nil {
		t.Fatal(err)
	}
	write("modules.json", string(entry))
	overrides := write("overrides.json", `{"name": "github.com/CycloneDX/cyclonedx-go", "licenceType": "GPL-3.0"}`)
	forbidden := licenceFiles{modules: modules, overrides: overrides, rules: write("rules.json", `{"allowlist": ["MIT"]}`)}
	if err := run(binary, "v1.0.0", forbidden, time.Unix(0, 0), filepath.Join(dir, "out")); err == nil || !strings.Contains(err.Error(), "GPL-3.0 which is not allowed") {
		t.Errorf("a licence that is not allowed: %v", err)
	}
	allowed := forbidden
	allowed.rules = write("rules.json", `{"allowlist": ["GPL-3.0"]}`)
	if err := run(binary, "v1.0.0", allowed, time.Unix(0, 0), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out.cdx.json", "out.spdx.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), "pkg:golang/github.com/spdx/tools-golang@v0.5.7") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}
