// Command provenance describes how the files of a release were built: it writes an in-toto statement
// (https://in-toto.io/Statement/v1) with SLSA provenance (https://slsa.dev/provenance/v1), whose subjects are the files
// in checksums.txt, and checksums.txt itself.
//
// It contains no time: two builds of a commit have the same provenance.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var b build
	checksums := flag.String("checksums", "", "file with the checksums of the release's files")
	flag.StringVar(&b.Repository, "repository", "", "address of the repository")
	flag.StringVar(&b.Ref, "ref", "", "ref of the commit, such as refs/tags/v1.2.3")
	flag.StringVar(&b.Commit, "commit", "", "hash of the commit")
	flag.StringVar(&b.Kind, "kind", "", "snapshot or publish")
	flag.StringVar(&b.Go, "go", "", "version of Go that has compiled it")
	flag.StringVar(&b.Goreleaser, "goreleaser", "", "version of goreleaser")
	flag.StringVar(&b.Builder, "builder", "", "URI of what the build ran on, as SLSA's builder.id")
	flag.StringVar(&b.Invocation, "invocation", "", "URI of the run of CI, if there is one")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := run(*checksums, b, *out); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func run(checksums string, b build, out string) error {
	text, err := os.ReadFile(checksums)
	if err != nil {
		return err
	}
	subjects, err := subjectsOf(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", checksums, err)
	}
	statement, err := b.statement(subjects)
	if err != nil {
		return err
	}
	return os.WriteFile(out, statement, 0o644)
}
