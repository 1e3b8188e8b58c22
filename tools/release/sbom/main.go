// Command sbom writes the SBOM of a Go binary, as CycloneDX and as SPDX.
//
// It reads the modules and their hashes from the binary itself, and their licences from the module cache. The output
// depends only on the input: two builds of a commit have the same SBOMs.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	binary := flag.String("binary", "", "the binary")
	version := flag.String("version", "", "version of the binary")
	modules := flag.String("modules", "", "file with what `go list -m -json` says of its modules")
	rules := flag.String("rules", "", "file with the licences that are allowed")
	overrides := flag.String("overrides", "", "file with the licences that cannot be read from the modules")
	at := flag.Int64("created", 0, "time of the commit, in seconds since 1970")
	out := flag.String("out", "", "beginning of the files' names")
	flag.Parse()
	if err := run(*binary, *version, licenceFiles{*modules, *rules, *overrides}, time.Unix(*at, 0).UTC(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(binary, version string, files licenceFiles, created time.Time, out string) error {
	licences, err := files.read()
	if err != nil {
		return err
	}
	c, err := read(binary, licences)
	if err != nil {
		return err
	}
	c.created, c.main.version = created, version
	for suffix, write := range map[string]func(contents) ([]byte, error){".cdx.json": cycloneDX, ".spdx.json": spdxJSON} {
		text, err := write(c)
		if err != nil {
			return fmt.Errorf("write %s%s: %w", out, suffix, err)
		}
		if err := os.WriteFile(out+suffix, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
