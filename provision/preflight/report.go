package preflight

import (
	"fmt"
	"io"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/junit"
)

// Report is what `plumbline doctor` prints.
type Report struct {
	// Cluster and Region are what was checked, for a version of Karpenter.
	Cluster string   `json:"cluster"`
	Region  string   `json:"region"`
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// JUnit returns the Report as JUnit's XML: a problem is a failure, a check that is unknown an error; warnings are in the
// output of a case that passes.
func (r Report) JUnit() ([]byte, error) {
	s := junit.Suite{Name: "plumbline doctor"}
	for _, result := range r.Results {
		one := junit.Case{Class: r.Cluster, Name: result.Check}
		text := result.text()
		switch result.Status {
		case Problem:
			one.Failure = &junit.Trouble{Message: result.Findings[0].Message, Text: text}
		case Unknown:
			one.Error = &junit.Trouble{Message: result.Findings[0].Message, Text: text}
		case OK, Warning:
			one.Out = text
		}
		s.Cases = append(s.Cases, one)
	}
	return s.XML()
}

// text returns a result in full.
func (r Result) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "looked at: %s\n", r.Looked)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Status, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(&b, "fix: %s\n", f.Fix)
		}
	}
	if len(r.Findings) > 0 {
		fmt.Fprintf(&b, "why: %s\ndocs: %s\n", r.Why, r.Docs)
	}
	return b.String()
}

// cell is a text in a cell of a table in Markdown.
var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// WriteMarkdown writes the Report for a comment or a page: a table of the checks, then the findings of each.
func (r Report) WriteMarkdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## plumbline doctor: %s in %s, Karpenter %s\n\n", r.Cluster, r.Region, r.Version)
	b.WriteString("| check | status | looked at |\n|---|---|---|\n")
	for _, result := range r.Results {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", result.Check, result.Status, cell.Replace(result.Looked))
	}
	for _, result := range r.Results {
		if len(result.Findings) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s: %s\n\n", result.Check, result.Status)
		for _, f := range result.Findings {
			fmt.Fprintf(&b, "- %s: %s\n", f.Status, cell.Replace(f.Message))
			if f.Fix != "" {
				fmt.Fprintf(&b, "\n  ```\n  %s\n  ```\n", strings.ReplaceAll(f.Fix, "\n", "\n  "))
			}
		}
		fmt.Fprintf(&b, "\nWhy: %s. See %s.\n", result.Why, result.Docs)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
