package preflight

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Report is what `plumbline doctor` prints.
type Report struct {
	// Cluster and Region are what was checked, for a version of Karpenter.
	Cluster string   `json:"cluster"`
	Region  string   `json:"region"`
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// suites is JUnit's XML as CI systems read it (https://github.com/testmoapp/junitxml), with a case for each check.
type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suite   suite    `xml:"testsuite"`
}

type suite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []suiteCase `xml:"testcase"`
}

type suiteCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *trouble `xml:"failure,omitempty"`
	Error   *trouble `xml:"error,omitempty"`
	Out     string   `xml:"system-out,omitempty"`
}

type trouble struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the Report as JUnit's XML: a problem is a failure, a check that is unknown an error; warnings are in the
// output of a case that passes.
func (r Report) JUnit() ([]byte, error) {
	s := suite{Name: "plumbline doctor", Tests: len(r.Results)}
	for _, result := range r.Results {
		one := suiteCase{Class: r.Cluster, Name: result.Check}
		text := result.text()
		switch result.Status {
		case Problem:
			s.Failures++
			one.Failure = &trouble{Message: result.Findings[0].Message, Text: text}
		case Unknown:
			s.Errors++
			one.Error = &trouble{Message: result.Findings[0].Message, Text: text}
		case OK, Warning:
			one.Out = text
		}
		s.Cases = append(s.Cases, one)
	}
	text, err := xml.MarshalIndent(suites{Suite: s}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode as JUnit: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
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
