package manifests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulncheck: without its database it reports that nothing was checked and passes, or fails if a release needs it.
// It never ignores what it finds, or any other failure.
func TestVulncheck(t *testing.T) {
	const unreachable = `govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: lookup vuln.go.dev: no such host`
	const found = "Vulnerability #1: GO-2026-0001\n    Fixed in: example.com/dial@v1.0.1"
	for name, c := range map[string]struct {
		// prints and code are govulncheck's.
		prints string
		code   string
		strict bool
		passes bool
		says   string
	}{
		"nothing found":                          {"No vulnerabilities found.", "0", false, true, "No vulnerabilities found."},
		"nothing found, for a release":           {"No vulnerabilities found.", "0", true, true, "No vulnerabilities found."},
		"without its database":                   {unreachable, "1", false, true, "cannot be reached from here: not checked"},
		"without its database, for a release":    {unreachable, "1", true, false, "cannot be reached from here: not checked"},
		"something found":                        {found, "3", false, false, "GO-2026-0001"},
		"something found that names a lost dial": {found + "\n" + unreachable, "3", false, false, "GO-2026-0001"},
		"code that does not compile":             {"govulncheck: loading packages: undefined: x", "1", false, false, "undefined: x"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			stub := "#!/bin/sh\ncase \"$*\" in *govulncheck*) ;; *) exit 9 ;; esac\nprintf '%s\\n' \"$PRINTS\"\nexit " + c.code + "\n"
			if err := os.WriteFile(filepath.Join(bin, "go"), []byte(stub), 0o700); err != nil {
				t.Fatal(err)
			}
			var args []string
			if c.strict {
				args = []string{"--strict"}
			}
			command := exec.CommandContext(t.Context(), "../.ci/vulncheck", args...)
			command.Env = append(command.Environ(), "PATH="+bin+":/usr/bin:/bin", "PRINTS="+c.prints)
			out, err := command.CombinedOutput()
			if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if (err == nil) != c.passes || !strings.Contains(string(out), c.says) {
				t.Errorf("passes: %t, want %t; it prints:\n%s", err == nil, c.passes, out)
			}
		})
	}
}
